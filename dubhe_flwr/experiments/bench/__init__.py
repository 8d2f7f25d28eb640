"""Benchmarks: what `dubhe bench` runs. Both sides of a comparison are measured in one run."""
