"""The notebook of the first hour runs, shows the study and the figure, and carries no output."""

import json
import logging
from typing import Any

import pytest
from docs.pages import ROOT
from matplotlib import pyplot as plt

NOTEBOOK = ROOT / "docs" / "tutorial" / "first_hour.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@pytest.mark.usefixtures("few_rounds")
def test_it_runs_from_the_top(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Cell by cell, as a notebook would; what the text says is so, and Flower logs nothing."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    drawn: list[object] = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.gcf()))
    flower = logging.getLogger("flwr")
    level = flower.level
    flower.addHandler(caplog.handler)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(CELLS):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)  # noqa: S102
    flower.removeHandler(caplog.handler)
    flower.setLevel(level)
    assert caplog.messages == []
    assert drawn == [names["figure"]]
    assert "".join(CELLS[-2]["source"]).endswith("plt.show()")  # a figure below would be a second
    assert names["found"].helps == "much"
    pasted = "strategy = Dubhe(\n    FedAvg(),\n    num_participants=8,\n)"
    assert names["found"].code.endswith(pasted)
    assert "Dubhe helps a lot" in names["found"]._repr_mimebundle_([], [])["text/html"]
    random, dubhe = (sum(names[run][-10:]) / 10 for run in ("at_random", "with_dubhe"))
    assert dubhe > random + 0.02
    assert len(names["axes"].lines) == 2


def test_it_is_kept_without_output() -> None:
    """A change shows as a change of the text."""
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in CELLS)
    assert [cell["cell_type"] for cell in CELLS].count("code") == 5
