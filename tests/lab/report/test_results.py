"""Results files hold all findings under stable names, with summary figures."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from comparison_results import RESULTS, method_result
from hypothesis import given
from hypothesis import strategies as st

from dubhe_lab.report.results import MethodResult, write_json


def test_the_file_of_a_comparison_names_every_finding(tmp_path: Path) -> None:
    """The plain JSON holds summaries and series, whose names never change: scripts read them."""
    path = tmp_path / "new" / "folder" / "results.json"
    RESULTS.save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert set(content) == {"config", "federation", "methods", "target_accuracy"}
    assert set(content["federation"]) == {
        "name", "num_clients", "num_classes", "num_samples", "rho", "emd", "class_proportions",
    }  # fmt: skip
    dubhe = content["methods"]["dubhe"]
    assert set(dubhe) == {
        "num_rounds", "accuracy", "loss", "emd", "local_emd", "coverage", "class_proportions",
        "selection_seconds", "training_seconds", "bytes_up", "bytes_down", "selection_bytes_up",
        "selection_bytes_down", "notes", "privacy", "fallback_rounds", "messages", "evaluations",
        "balanced_accuracy", "worst_recall", "final_accuracy", "mean_emd", "mean_local_emd",
        "rounds_to_target", "server_learns",
    }  # fmt: skip
    assert len(dubhe["accuracy"]) == dubhe["num_rounds"] + 1
    assert dubhe["mean_local_emd"] == pytest.approx(1.4)
    assert dubhe["mean_emd"] == pytest.approx(sum(dubhe["emd"]) / len(dubhe["emd"]))
    assert dubhe["server_learns"] == "yes/no"
    target, last = content["target_accuracy"], content["methods"]["random"]["final_accuracy"]
    assert last - 0.01 < target <= last  # random selection has the lowest accuracy
    exact = {"dubhe": replace(RESULTS.methods["dubhe"], accuracy=(0.1, 0.29))}
    assert replace(RESULTS, methods=exact).target_accuracy == 0.29
    reached = dubhe["rounds_to_target"]
    assert dubhe["accuracy"][reached - 1] < target <= dubhe["accuracy"][reached]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A pipe, such as `/dev/stdout`, is written to rather than replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_json(pipe, {"rounds": 3})
    assert json.loads(os.read(reader, 100)) == {"rounds": 3}
    assert pipe.is_fifo()
    os.close(reader)


def test_a_model_that_diverges_leaves_a_file_that_any_reader_takes() -> None:
    """JSON has no infinity, so a loss that is not finite is null in a file."""
    result = replace(method_result("dubhe"), loss=(2.3, math.inf, math.nan, None))
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert MethodResult.from_dict(told).loss == (2.3, None, None, None)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_final_accuracy_is_the_mean_of_the_last_five_rounds(accuracies: list[float]) -> None:
    """The final accuracy never counts the initial model, even with few rounds."""
    result = replace(method_result("dubhe"), accuracy=tuple(accuracies))
    last = accuracies[max(1, len(accuracies) - 5) :]
    assert result.final_accuracy == pytest.approx(sum(last) / len(last))
