"""Rounds that are timed."""
