"""Benchmarks run only where `-m benchmark_only` asks for them."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the benchmarks unless the marker expression names them."""
    if "benchmark_only" in config.getoption("markexpr"):
        return
    skip = pytest.mark.skip(reason="a benchmark: run it with `pytest -n 0 -m benchmark_only`")
    for item in items:
        if "benchmark_only" in item.keywords:
            item.add_marker(skip)
