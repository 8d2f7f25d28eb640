"""All experiments of the reproduction, and the page that shows them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dubhe_flwr.experiments.reproduction import (
    ablation,
    averages,
    curves,
    femnist,
    motivation,
    overhead,
    registry,
    table2,
    unbiasedness,
)
from dubhe_flwr.experiments.reproduction.experiment import Experiment
from dubhe_flwr.experiments.reproduction.options import Options
from dubhe_flwr.report.page import render_page
from dubhe_flwr.report.section import Section

__all__ = ["EXPERIMENTS", "page", "sections"]

EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "motivation": motivation.EXPERIMENT,
    "curves": curves.EXPERIMENT,
    "averages": averages.EXPERIMENT,
    "femnist": femnist.EXPERIMENT,
    "unbiasedness": unbiasedness.EXPERIMENT,
    "table2": table2.EXPERIMENT,
    "registry": registry.EXPERIMENT,
    "overhead": overhead.EXPERIMENT,
    "ablation": ablation.EXPERIMENT,
}
"""In the order of the paper, and then what goes past it."""

_ABOUT: Final = (
    "The tables and figures of Zhang et al., Dubhe: Towards Data Unbiasedness with Homomorphic "
    "Encryption in Federated Learning Client Selection (ICPP 2021), measured with dubhe-flwr. "
    "Where the paper gives a number, it stands beside ours."
)
_METHODS: Final = (
    "random, dubhe-paper and greedy are the paper's three ways of selecting, H being the number "
    "of tries; dubhe is the selection of this package as it comes."
)


def sections(
    names: Sequence[str], options: Options, finished: Mapping[str, Mapping[str, Any]]
) -> list[Section]:
    """Return what the experiments make of the finished cells.

    Parameters
    ----------
    names : sequence of str
        Which experiments.
    options : Options
        As when the cells were measured.
    finished : mapping of str to mapping
        What `run_cells` returned.
    """
    found = {key: content["result"] for key, content in finished.items()}
    made = []
    for name in names:
        experiment = EXPERIMENTS[name]
        there = [cell.key in found for cell in experiment.cells(options)]
        complete = all(there) if experiment.needs_all else any(there)
        if complete:
            made.append(experiment.report(options, found))
        else:
            made.append(
                Section(name, name.capitalize(), [f"{sum(there)} of {len(there)} cells are there."])
            )
    return made


def page(
    made: Sequence[Section],
    options: Options,
    finished: Mapping[str, Mapping[str, Any]],
    missing: Sequence[str] = (),
) -> str:
    """Return the page of some sections.

    Parameters
    ----------
    made : sequence of Section
        What it shows.
    options : Options
        As when the cells were measured.
    finished : mapping of str to mapping
        What `run_cells` returned.
    missing : sequence of str
        Sentences on data that is not there.
    """
    sources = [content["provenance"] for content in finished.values()]
    dates = sorted(source["date"] for source in sources)
    settings = {
        "scale": options.scale,
        "cells": str(len(sources)),
        "seeds": _distinct(source["seed"] for source in sources if source["seed"] is not None),
        "devices": _distinct(source["device"] for source in sources),
        "versions": _distinct(
            f"{name} {number}" for source in sources for name, number in source["versions"].items()
        ),
        "commands": _distinct(source["command"] for source in sources),
        "measured": f"{dates[0]} to {dates[-1]}" if dates else "",
    }
    introduction = [
        _ABOUT,
        _METHODS,
        *missing,
    ]
    return render_page("Dubhe, reproduced", introduction, made, settings)


def _distinct(values: Any) -> str:
    return ", ".join(sorted(map(str, dict.fromkeys(values))))
