"""Benchmarks; both sides of a comparison are measured in one run."""
