"""A federation of numbers."""
