"""Tests of the page that sets our numbers beside the paper's: they are those of the files."""

import json
import re
from pathlib import Path
from statistics import fmean

from dubhe_lab.paper.trainings import final_mean

DOCS = Path(__file__).parents[3] / "docs"
CELLS = sorted((DOCS / "reproduction" / "cells" / "training").glob("*.json"))
PAGE = (DOCS / "reproduction.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Table 2, the accuracy")[2].partition("\n## ")[0]


def accuracies() -> dict[str, list[float]]:
    """Return the accuracy of each seed of each way of selecting on MNIST-10/1.5."""
    found: dict[str, list[float]] = {}
    for path in CELLS:
        content = json.loads(path.read_text(encoding="utf-8"))
        federation, method, *rest = content["cell"]["name"].split(", ")
        if federation == "MNIST-10/1.5":
            name = ", ".join([method, *rest[:-1]])
            found.setdefault(name, []).append(final_mean(content["result"]))
    return found


def test_the_table_holds_what_was_measured() -> None:
    """Each row has the mean, spread and share of greedy's gain, from three seeds."""
    found = accuracies()
    assert set(found) == {"random", "dubhe-paper, H=1", "dubhe-paper, H=10", "dubhe", "greedy"}
    least, most = fmean(found["random"]), fmean(found["greedy"])
    for name, own in found.items():
        assert len(own) == 3
        mean = fmean(own)
        spread = max(abs(value - mean) for value in own)
        (row,) = re.findall(rf"^\| `{re.escape(name)}` \|(.*)$", SECTION, flags=re.MULTILINE)
        row = row.replace(" %", "%")
        assert f"| {mean:.1%} ± {spread:.1%} |" in row
        assert f"| {(mean - least) / (most - least):.0%} |" in row


def test_each_measurement_says_where_it_comes_from() -> None:
    """Each file has seed, device, versions, and a command without personal folders."""
    for path in DOCS.glob("*/cells/training/*.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        provenance, config = content["provenance"], content["cell"]["config"]
        assert provenance["seed"] == config["seed"] >= 0, path
        assert provenance["device"], path
        assert {"torch", "flwr", "dubhe_flwr"} <= provenance["versions"].keys(), path
        assert provenance["command"].startswith(("dubhe paper ", "dubhe reproduce ")), path
        assert " /" not in provenance["command"], path
