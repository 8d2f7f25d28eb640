"""Figures of a study are derived from its rounds, and its file names them."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from study_results import STUDY

from dubhe_flwr.report import ClassProportions


def test_summaries_follow_from_the_rounds() -> None:
    """Mean and spread over the rounds; the bias is that of the mean distribution."""
    proportions = ClassProportions(mean=(0.6, 0.4), sd=(0.2, 0.2))
    result = replace(STUDY.methods["dubhe"], emd=(0.1, 0.2, 0.6), class_proportions=proportions)
    assert result.mean_emd == pytest.approx(0.3)
    assert result.sd_emd == pytest.approx((0.14 / 3) ** 0.5)
    assert result.bias == pytest.approx(0.2)


def test_the_file_names_every_finding(tmp_path: Path) -> None:
    """A reader of the plain JSON finds summaries and the series of each method."""
    path = tmp_path / "new" / "study.json"
    STUDY.save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    dubhe = content["methods"]["dubhe"]
    assert list(dubhe)[:3] == ["mean_emd", "sd_emd", "bias"]
    assert dubhe["mean_emd"] == pytest.approx(fmean(dubhe["emd"]))
    assert dubhe["messages"] is None
    assert content["config"] == {"seed": 0}
    assert content["federation"]["num_clients"] == 150
