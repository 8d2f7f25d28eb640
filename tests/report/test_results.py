"""results.json holds all that was found, and is read back or refused with a sentence."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from comparison_results import RESULTS, method_result
from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.errors import DataError
from dubhe_flwr.report import ComparisonResults


def test_results_survive_the_file(tmp_path: Path) -> None:
    """What is loaded equals what was saved."""
    path = tmp_path / "new" / "folder" / "results.json"
    RESULTS.save(path)
    assert ComparisonResults.load(path) == RESULTS


def test_the_file_names_every_finding(tmp_path: Path) -> None:
    """A reader of the plain JSON finds summaries and series of each method."""
    path = tmp_path / "results.json"
    RESULTS.save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert set(content) == {"config", "federation", "methods"}
    assert set(content["federation"]) == {
        "name",
        "num_clients",
        "num_classes",
        "num_samples",
        "rho",
        "emd",
        "class_proportions",
    }
    dubhe = content["methods"]["dubhe"]
    assert set(dubhe) == {
        "final_accuracy",
        "mean_emd",
        "mean_local_emd",
        "num_rounds",
        "accuracy",
        "loss",
        "emd",
        "local_emd",
        "coverage",
        "class_proportions",
        "selection_seconds",
        "training_seconds",
        "bytes_up",
        "bytes_down",
        "selection_bytes_up",
        "selection_bytes_down",
        "notes",
        "fallback_rounds",
    }
    assert len(dubhe["accuracy"]) == dubhe["num_rounds"] + 1
    assert dubhe["mean_local_emd"] == pytest.approx(1.4)
    assert dubhe["mean_emd"] == pytest.approx(sum(dubhe["emd"]) / len(dubhe["emd"]))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_final_accuracy_is_the_mean_of_the_last_five_rounds(accuracies: list[float]) -> None:
    """It never counts the initial model, however few rounds there are."""
    result = replace(method_result("dubhe"), accuracy=tuple(accuracies))
    last = accuracies[max(1, len(accuracies) - 5) :]
    assert result.final_accuracy == pytest.approx(sum(last) / len(last))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The message says which command writes one."""
    with pytest.raises(DataError, match="dubhe compare"):
        ComparisonResults.load(tmp_path / "results.json")


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"config": {}, "federation": {}, "methods": {}}', "\udcff"],
)
def test_other_contents_are_refused(content: str, tmp_path: Path) -> None:
    """Whatever else the file holds, the error is of this package."""
    path = tmp_path / "results.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match="holds no results"):
        ComparisonResults.load(path)


@pytest.mark.parametrize("lost", ["emd", "class_proportions", "notes"])
def test_a_missing_field_is_named(lost: str, tmp_path: Path) -> None:
    """A file of another version is refused with the name of what it lacks."""
    path = tmp_path / "results.json"
    RESULTS.save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["methods"]["random"][lost]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=lost):
        ComparisonResults.load(path)
