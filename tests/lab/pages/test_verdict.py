"""Trainings in other federations gained what a study predicts."""

import json
from pathlib import Path
from typing import Any

import pytest
from docs.pages import ROOT

from dubhe_flwr.errors import SettingsError
from dubhe_lab import study
from dubhe_lab.experiments.settings import FederationSettings
from dubhe_lab.paper.cells import CellStore
from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.experiment import PaperSettings

FOLDER = ROOT / "docs" / "verdict" / "cells"
FEDERATION = [own.name for own in FederationSettings.flat_fields()]
PAGE = ROOT / "docs" / "verdict.md"


def test_the_page_has_the_table_of_the_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has all measurements; where the verdict is "not", less than a point is gained."""
    stored = [json.loads(file.read_text())["cell"]["config"] for file in FOLDER.glob("*/*.json")]

    def draw(settings: FederationSettings, *_: Any) -> None:
        """Refuse what could not be drawn when it was measured, without drawing it again."""
        if not any(settings.flat().items() <= config.items() for config in stored):
            raise SettingsError("It has no such skew.")

    monkeypatch.setattr(FederationSettings, "draw", draw)
    options = PaperSettings(scale="full")
    cells = EXPERIMENTS["verdict"].cells(options)
    found = CellStore(FOLDER).load_all(cells)
    assert len(found) == len(cells) == len(list(FOLDER.glob("*/*.json")))
    (section,) = sections(["verdict"], options, found)
    (table,) = section.tables
    assert table.for_markdown() in PAGE.read_text(encoding="utf-8")
    most = {row[0]: float(row[4].split(" to ")[1]) for row in table.rows}
    assert most["not"] < 1.0 < most["little"] < 5.0 < most["much"]
    assert all(abs(float(foretold) - float(got)) < 1.0 for _, _, foretold, got, _ in table.rows)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*-n=[23]?-*.json"))[::24])
def test_a_study_finds_the_same_today(file: Path) -> None:
    """Random selection is as balanced as then, and Dubhe more so where the study says it helps."""
    content = json.loads(file.read_text(encoding="utf-8"))
    config, told = content["cell"]["config"], content["result"]
    federation = FederationSettings.of(**{name: config[name] for name in FEDERATION})
    counts = federation.draw("digits", 10).label_counts
    found = study(counts, num_participants=config["num_participants"], key_bits=512)
    for of in ("lasting", "distance"):
        assert getattr(found.methods["random"], of) == pytest.approx(told[of]["random"])
        assert found.helps == "not" or getattr(found.methods["dubhe"], of) < told[of]["random"]
