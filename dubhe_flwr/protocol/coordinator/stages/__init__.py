"""The stages of the server: one class a stage, which holds what that stage knows."""
