"""All experiments of the reproduction, and the page that shows them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dubhe_flwr.report.section import Section
from reproduction import (
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
from reproduction.experiment import Experiment
from reproduction.options import Options
from reproduction.page import render_page

__all__ = ["EXPERIMENTS", "page", "remarks", "sections"]

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
_SMALL: Final = (
    "Small scale: a small network on 8 x 8 digits and fewer clients stand for the paper's, for a "
    "few rounds. The numbers show that everything runs; they are not comparable."
)


def sections(
    names: Sequence[str], options: Options, finished: Mapping[str, Mapping[str, Any]]
) -> list[Section]:
    """Return what the experiments make of the finished cells, where they make anything of them.

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
        if all(there) if experiment.needs_all else any(there):
            made.append(experiment.report(options, found))
    return made


def remarks(
    names: Sequence[str], options: Options, finished: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return what a reader has to know before the numbers: their scale, and which are missing.

    Parameters
    ----------
    names : sequence of str
        Which experiments.
    options : Options
        As when the cells were measured.
    finished : mapping of str to mapping
        What `run_cells` returned.
    """
    sentences = [] if options.is_full else [_SMALL]
    for name in names:
        keys = {cell.key for cell in EXPERIMENTS[name].cells(options)}
        if missing := len(keys - finished.keys()):
            sentences.append(
                f"Not measured yet: {missing} of {len(keys)} measurements of {name}; the same "
                "command, without --report-only, goes on with them."
            )
    return sentences


def page(
    made: Sequence[Section],
    options: Options,
    finished: Mapping[str, Mapping[str, Any]],
    said: Sequence[str] = (),
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
    said : sequence of str
        What `remarks` returned, and sentences on data that is not there.
    """
    sources = [content["provenance"] for content in finished.values()]
    dates = sorted(source["date"] for source in sources)
    settings = {
        "scale": options.scale,
        "measurements": str(len(sources)),
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
        *said,
    ]
    return render_page("Dubhe, reproduced", introduction, made, settings)


def _distinct(values: Any) -> str:
    return ", ".join(sorted(map(str, dict.fromkeys(values))))
