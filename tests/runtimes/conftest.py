"""A Flower home of its own for each test, whose processes end with the test."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deployment import Processes

ROOT = Path(__file__).parents[2]


class FlowerHome(Processes):
    """Runs Flower's commands on our apps."""

    def app(self, name: str) -> str:
        """Return the path of one of the apps."""
        return str(ROOT / "apps" / name)

    def statuses(self) -> list[str]:
        """Return the status of every run, the latest first: `flwr run` exits with 0 regardless."""
        listing: dict[str, Any] = json.loads(self.run("flwr", "ls", "local", "--format", "json"))
        return [run["status"] for run in listing["runs"]]


@pytest.fixture
def flower_home(tmp_path: Path) -> Iterator[FlowerHome]:
    """Give a test a Flower home, and end what was started in it."""
    home = FlowerHome(tmp_path)
    try:
        yield home
    finally:
        home.stop()
