"""Benchmarks of dubhe-flwr, one module per question; each measures both sides of a comparison."""
