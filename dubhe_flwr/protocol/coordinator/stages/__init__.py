"""The server's stages, one class each; a stage holds everything it knows."""
