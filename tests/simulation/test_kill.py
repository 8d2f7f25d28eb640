"""A ServerApp killed with SIGKILL at any point of a round continues when started again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FEW = ["settle", "train", "checkpoint", "evaluate"]
ALL = ["join", "keygen", "register", "determine", *FEW]
SLOW = [pytest.param(api, ALL, marks=pytest.mark.slow) for api in ("train", "fit")]


@pytest.mark.parametrize(("api", "points"), [("train", FEW), *SLOW])
def test_a_killed_server_app_resumes_every_time(
    api: str, points: list[str], tmp_path: Path
) -> None:
    """It is killed after a stage of round 2, before its checkpoint is in place, and right after.

    Every round begins an epoch here, so even after a kill the selected sets and the model equal
    a run without one, bit for bit.
    """
    script = Path(__file__).with_name("killed_server_app.py")
    finished = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(script), api, str(tmp_path), *points],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
        stdout=subprocess.PIPE,
        timeout=600,
        check=True,
    )
    outcomes = json.loads(finished.stdout)
    whole = outcomes.pop("")
    assert whole["ended"] == 0
    assert whole["rounds"] == [1, 2, 3]
    assert list(outcomes) == points
    for point, outcome in outcomes.items():
        assert (outcome["ended"], outcome["ended_again"]) == (-signal.SIGKILL, 0), point
        left = [3] if point == "evaluate" else [2, 3]
        assert outcome["rounds"] == left, point
        assert outcome["selected"] == whole["selected"][-len(left) :], point
        assert outcome["last"] == 3, point
        assert outcome["model"] == whole["model"] != [], point
