"""Other remedies for skew change only the settings they name, and gains are paired."""

from typing import Any

import pytest
from reproduction_results import finished, rows

from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.commands import EXPERIMENTS, sections
from dubhe_lab.paper.experiment import Method, PaperSettings
from dubhe_lab.paper.instead import _cell
from dubhe_lab.paper.trainings import training_cell

FULL = PaperSettings(scale="full")
CELLS = EXPERIMENTS["instead"].cells(FULL)


def test_each_remedy_changes_only_its_own_settings() -> None:
    """Each remedy changes only training settings, K or the rounds, with ten seeds each."""
    assert len(CELLS) == len({cell.key for cell in CELLS}) == 9 * 2 * 10
    random = Method("random")
    usual = _cell("nothing", random, 0, FULL).config
    changed: dict[str, Any] = {
        "class-balanced loss": {"local_loss": "balanced"},
        "logit adjustment": {"local_loss": "adjusted"},
        "FedProx, mu 0.1": {"proximal": 0.1},
        "FedAvgM, 0.9": {"server_momentum": 0.9},
        "2 K clients": {"num_participants": 40},
        "4 K clients": {"num_participants": 80},
        "2 K, half the rounds": {"num_participants": 40, "num_rounds": 30},
        "4 K, a quarter": {"num_participants": 80, "num_rounds": 15},
    }
    for name, wanted in changed.items():
        config = _cell(name, random, 0, FULL).config
        assert {k: v for k, v in config.items() if usual.get(k) != v} == wanted


def test_unused_settings_are_not_part_of_a_cell() -> None:
    """Unused settings such as the proximal term are not part of a cell's identity."""
    config = training_cell("MNIST", "10/1.5", Method("random"), 0, FULL).config
    assert not {"local_loss", "proximal"} & config.keys()


def points(cell: Cell) -> float:
    """Return 70 % at random and 80 % with Dubhe, and 5 points more with momentum."""
    is_dubhe = bool(cell.config["method"] == "dubhe")
    seed, has_momentum = int(cell.config["seed"]), bool(cell.config["server_momentum"] > 0)
    return 70.0 + 10 * is_dubhe + 5 * has_momentum + seed + is_dubhe * (seed % 2)


def test_gains_are_paired_by_seed() -> None:
    """Gains are paired by seed, so that a seed's effect on all methods cancels."""
    (made,) = sections(["instead"], FULL, finished(CELLS, points))
    shown = rows(made.tables[0])
    assert shown["nothing"] == ["1", "+0.0±0.0", "+10.5±0.2"]
    assert shown["FedAvgM, 0.9"] == ["1", "+5.0±0.0", "+15.5±0.2"]
    assert shown["4 K clients"][0] == "4"
    assert shown["4 K, a quarter"][0] == "1"
    assert "reaches: 74.5 %" in made.paragraphs[0]


def test_seeds_without_a_pair_do_not_count() -> None:
    """A seed without its counterpart is left out."""
    wanted = [
        _cell("nothing", Method("random"), 0, FULL).key,
        *(_cell("nothing", Method("dubhe"), seed, FULL).key for seed in (0, 1)),
    ]
    found = finished([cell for cell in CELLS if cell.key in wanted], points)
    (made,) = sections(["instead"], FULL, found)
    assert made.tables[0].rows == [["nothing", "1", "+0.0", "+10.0"]]


@pytest.mark.parametrize("scale", ["small", "full"])
def test_rounds_are_whole(scale: str) -> None:
    """A fraction of the rounds is a whole number, even with few rounds."""
    cells = EXPERIMENTS["instead"].cells(PaperSettings(scale=scale, num_rounds=3))
    assert {cell.config["num_rounds"] for cell in cells} == {3, 1}
