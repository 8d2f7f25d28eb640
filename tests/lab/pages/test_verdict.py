"""Trainings in other federations gained what a study predicts."""

import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from docs.pages import ROOT, tables
from reproduction_results import rows

from dubhe_flwr.errors import SettingsError
from dubhe_lab import study
from dubhe_lab.experiments.settings import FederationSettings
from dubhe_lab.paper.cells import CellStore
from dubhe_lab.paper.commands import EXPERIMENTS
from dubhe_lab.paper.experiment import PaperSettings
from dubhe_lab.report.federation import points_of_digits

FOLDER = ROOT / "docs" / "verdict" / "cells"
FEDERATION = [own.name for own in FederationSettings.flat_fields()]
PAGE = ROOT / "docs" / "verdict.md"
FITTED = {*range(60), *range(120, 140), *range(160, 180)}


def test_the_page_has_the_table_of_the_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has all measurements; where the verdict is "not", nothing is gained on average."""
    read = [json.loads(file.read_text()) for file in FOLDER.glob("*/*.json")]
    stored = [of["cell"]["config"] for of in read]

    def draw(settings: FederationSettings, *_: Any) -> None:
        """Refuse what could not be drawn when it was measured, without drawing it again."""
        if not any(settings.flat().items() <= config.items() for config in stored):
            raise SettingsError("It has no such skew.")

    monkeypatch.setattr(FederationSettings, "draw", draw)
    options = PaperSettings(scale="full")
    cells = EXPERIMENTS["verdict"].cells(options)
    found = CellStore(FOLDER).load_all(cells)
    assert len(found) == len(cells) == len(list(FOLDER.glob("*/*.json")))
    told = {key: content["result"] for key, content in found.items()}
    section = EXPERIMENTS["verdict"].section(options, told)
    assert section is not None
    (table,) = section.tables
    assert table.for_markdown() in PAGE.read_text(encoding="utf-8")
    most = {row[0]: float(row[4].split(" to ")[1]) for row in table.rows}
    assert most["not"] < 2.0 < most["little"] < 6.0 < most["much"]
    tested = [of["result"] for of in read if of["provenance"]["seed"] not in FITTED]
    foretold = fmean(
        points_of_digits(
            result["emd"],
            *([result[of][name] for name in ("random", "dubhe")] for of in ("lasting", "distance")),
        )
        for result in tested
    )
    accuracies = [result["accuracy"] for result in tested]
    gained = [100 * (accuracy["dubhe"] - accuracy["random"]) for accuracy in accuracies]
    got = fmean(gained)
    assert round(min(gained)) == -7  # "That cost seven points"
    sentence = f"predicts {foretold:.1f} points on average, and Dubhe gained {got:.1f}."
    assert sentence in " ".join(PAGE.read_text(encoding="utf-8").split())
    assert all(abs(float(row[2]) - float(row[3])) < 1.0 for row in table.rows)
    assert abs(float(table.rows[0][3])) < 0.5


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*-n=[23]?-*.json"))[::48])
def test_a_study_finds_the_same_today(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random selection is as balanced as then, and Dubhe more so where the study says it helps."""
    for name in ("_swept", "_costs"):
        monkeypatch.setattr(f"dubhe_lab.experiments.my_federation.{name}", lambda *_: {})
    content = json.loads(file.read_text(encoding="utf-8"))
    config, told = content["cell"]["config"], content["result"]
    federation = FederationSettings.of(**{name: config[name] for name in FEDERATION})
    counts = federation.draw("digits", 10).label_counts
    found = study(counts, num_participants=config["num_participants"], key_bits=512)
    for of in ("lasting", "distance"):
        assert getattr(found.methods["random"], of) == pytest.approx(told[of]["random"])
        assert found.helps == "not" or getattr(found.methods["dubhe"], of) < told[of]["random"]


def gained_on_mnist() -> list[float]:
    """Return the points that Dubhe gained on MNIST with SGD, server momentum and Adam."""
    shown = rows(tables()["measured"]("leaderboard").tables[0])
    return [
        float(own) - float(random)
        for own, random in zip(shown["Dubhe"][:3], shown["random"][:3], strict=True)
    ]


def test_the_page_tells_what_mnist_gained() -> None:
    """The page rounds the gains of the summary table."""
    told = "Dubhe gained {:.0f} with SGD, {:.0f} with server momentum and {:.0f} with Adam."
    assert told.format(*gained_on_mnist()) in " ".join(PAGE.read_text(encoding="utf-8").split())


@pytest.mark.slow
def test_the_page_tells_what_the_formula_predicts_on_mnist() -> None:
    """Gains elsewhere, as rounded, lie between a third of what the formula predicts and double."""
    folder = ROOT / "docs" / "side_by_side" / "cells" / "training"
    file = next(folder.glob("mnist-10-1.5-dubhe-seed-0-*.json"))
    config = json.loads(file.read_text(encoding="utf-8"))["cell"]["config"]
    federation = FederationSettings.of(**{name: config[name] for name in FEDERATION})
    found = study(federation.draw("mnist", 10).label_counts, num_participants=20, key_bits=512)
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    predicted = round(found.points)
    assert f"There the formula predicts {predicted} points;" in page
    assert all(predicted / 3 <= round(points) <= 2 * predicted for points in gained_on_mnist())


def test_the_page_has_the_studys_formula() -> None:
    """The formula as the page writes it gives what the study prints."""
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    formula = (
        r"\*points = (\S+) . \((\S+) \+ EMD_avg\) . .*? \+ (\S+) . EMD_avg³ . .*, at most (\d+)\."
    )
    found = re.search(formula, page)
    assert found is not None
    pooled, less, single, most = map(float, found.groups())
    for emd, lasting, distance in ((1.5, (0.6, 0.3), (0.7, 0.4)), (0.4, (0.3, 0.1), (0.5, 0.4))):
        of_ten = pooled * (less + emd) * (lasting[0] ** 3 - lasting[1] ** 3)
        points = of_ten + single * emd**3 * (distance[0] - distance[1])
        assert points_of_digits(emd, lasting, distance) == pytest.approx(points)
    assert points_of_digits(2.0, (2.0, 0.0), (2.0, 0.0)) == most
