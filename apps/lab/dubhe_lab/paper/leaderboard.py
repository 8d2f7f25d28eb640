"""Beyond the paper: a leaderboard of selection methods on several data sets and optimizers.

All methods are compared on MNIST with three optimizers, on CIFAR-10, and on rotated digits, where
clients differ in more than their labels. The page shows a summary table, one table per setting,
accuracy curves, and accuracy against coverage.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final

from dubhe_lab.paper.cells import Cell
from dubhe_lab.paper.experiment import (
    Experiment,
    Grid,
    Method,
    PaperSettings,
    Results,
    Section,
    Seeds,
    columns,
    spread,
)
from dubhe_lab.paper.panels import draw_reach
from dubhe_lab.paper.trainings import (
    accuracies,
    costs_of,
    methods_of,
    together,
    trainings,
    turned_digits,
)
from dubhe_lab.report.methods import SEEING_LOSSES, method_label, method_looks
from dubhe_lab.report.panels import draw_accuracy
from dubhe_lab.report.picture import Picture
from dubhe_lab.report.results import rounds_to
from dubhe_lab.report.table import Table

_OPTIMIZERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "SGD": {"optimizer": "sgd"},
    "SGD, server momentum 0.9": {"optimizer": "sgd", "server_momentum": 0.9},
    "Adam": {"optimizer": "adam"},
}
_CIFAR10: Final = "SGD, CIFAR-10 with ResNet18"
_ROUNDS: Final = {
    "SGD": 60,
    "SGD, server momentum 0.9": 60,
    "Adam": 200,
    _CIFAR10: 100,
}
_METHODS: Final = (
    Method("random"),
    *map(Method, SEEING_LOSSES),
    Method("dubhe-paper", 10),
    *map(Method, ("flips", "fedcbs", "fedentopt", "greedy", "dubhe")),
)
_LIKE_CLIENTS: Final = Method("dubhe", coverage=0.1, local_skew=1.0)
"""The documentation's advice for optimizers that suffer from the skew of single clients."""
_LOOKS: Final = method_looks(list(map(str, (*_METHODS, _LIKE_CLIENTS))))
"""One look per method, since all panels of a picture share a legend."""
_SEEDS: Final = {
    "SGD": tuple(range(10)),
    "SGD, server momentum 0.9": tuple(range(7)),
    "Adam": (0, 1, 2),
    _CIFAR10: (0, 1, 2),
}
_WITH_LIKE_CLIENTS: Final = ("Adam", _CIFAR10)
_TURNED: Final = "SGD, digits rotated by an angle per client"
_TURNED_SEEDS: Final = tuple(range(10))


def _target(title: str) -> float:
    """Return the target accuracy for "rounds to target"; 90 % on MNIST."""
    return {_TURNED: 0.6, _CIFAR10: 0.25}.get(title, 0.9)


def _methods(title: str) -> tuple[Method, ...]:
    return (*_METHODS, _LIKE_CLIENTS) if title in _WITH_LIKE_CLIENTS else _METHODS


def _grid(options: PaperSettings) -> Grid:
    turned = partial(turned_digits, options=options)
    of_dataset = partial(_of_dataset, options=options)
    return {
        **{title: of_dataset("MNIST", title, **of) for title, of in _OPTIMIZERS.items()},
        _CIFAR10: of_dataset("CIFAR10", _CIFAR10, optimizer="sgd", evaluate_every=5),
        _TURNED: columns(_methods(_TURNED), options.seeds_or(_TURNED_SEEDS), turned),
    }


def _of_dataset(
    name: str, title: str, options: PaperSettings, **given: Any
) -> dict[str, list[Cell]]:
    """Return the cells of a table, or none if its data set was not requested."""
    # At small scale, digits stand in for every data set, so one table is enough.
    is_repeated = name == "CIFAR10" and not options.is_full
    if is_repeated or name not in options.datasets:
        return {}
    given = {"learning_rate": None, "evaluate_every": 2, **given}
    if options.is_full:
        given["num_rounds"] = _ROUNDS[title]
    return trainings(name, "10/1.5", options, _methods(title), _SEEDS[title], **given)


def _report(_options: PaperSettings, results: Results) -> Section:
    trained = {title: of for title, of in results.items() if any(of.values())}
    by_optimizer = [trained.get(title, {}) for title in _OPTIMIZERS]
    return Section(
        "Selection methods side by side",
        [
            (
                "MNIST-10/1.5, N = 1000, K = 20; all methods share federations, initial models and "
                "batches. With an oracle the server sees every client's labels in the clear; with "
                "Power-of-Choice, Active FL and Oort clients report losses. "
                "± is the largest distance of a seed from the mean. "
                "Extra work is what clients do for selection besides training. "
                "CIFAR-10 also has 1000 clients. "
                "Digits rotated by an angle per client, up to 45 degrees, model clients that "
                "differ in more than labels: N = 150, otherwise as in dubhe compare."
            )
        ],
        [
            *([summary(_METHODS, by_optimizer)] if all(by_optimizer) else []),
            *(_table(title, of_methods) for title, of_methods in trained.items()),
        ],
        [_curves(trained), _reach(trained)],
    )


def summary(methods: Sequence[Method], by_optimizer: Sequence[Mapping[str, Seeds]]) -> Table:
    """Return a table with SGD, server momentum and Adam.

    A method's mean is left out while another method has finished more seeds; without a mean for
    SGD, its row is left out.
    """
    most = [max(map(len, of_methods.values())) for of_methods in by_optimizer]
    rows = []
    for method in methods:
        own = [of_methods[str(method)] for of_methods in by_optimizer]
        if not own[0] or len(own[0]) < most[0]:
            continue
        means = [
            f"{100 * fmean(accuracies(of_seeds)):.1f}" if 0 < len(of_seeds) == num_seeds else ""
            for of_seeds, num_seeds in zip(own, most, strict=True)
        ]
        reached = fmean(of["coverage"] for of in methods_of(own[0]))
        costs = costs_of(method, own[0])
        rows.append([method_label(str(method)), *means, f"{100 * reached:.0f}", *costs])
    return Table(
        "Accuracy over the last quarter of the rounds with each optimizer; coverage with SGD",
        (
            "method",
            "SGD\n%",
            "server\nmomentum %",
            "Adam\n%",
            "coverage\n%",
            "server\nlearns",
            "clients'\nextra work",
        ),
        rows,
    )


def _table(title: str, of_methods: Mapping[str, Seeds]) -> Table:
    return Table(
        f"{title}: accuracy over the last quarter of the rounds, mean of the seeds",
        (
            "method",
            "accuracy\n%",
            f"rounds to\n{_target(title):.0%}",
            "coverage\n%",
            "EMD*",
            "local\nEMD",
            "server\nlearns",
            "extra\nwork",
        ),
        [
            [method_label(str(method)), *_row(method, of_seeds, _target(title))]
            for method in _methods(title)
            if (of_seeds := of_methods[str(method)])
        ],
    )


def _row(method: Method, of_seeds: Seeds, target: float) -> list[str]:
    results = methods_of(of_seeds)
    rounds = [rounds_to(target, of["accuracy"]) for of in results]
    reached = [number for number in rounds if number is not None]

    def mean(name: str) -> float:
        return fmean(of[name] for of in results)

    return [
        spread((100 * accuracy for accuracy in accuracies(of_seeds)), 1).replace(" ", ""),
        f"{fmean(reached):.0f}"
        if len(reached) == len(rounds)
        else f"{len(reached)} of {len(rounds)}",
        f"{100 * mean('coverage'):.0f}",
        f"{mean('mean_emd'):.3f}",
        f"{mean('mean_local_emd'):.2f}",
        *costs_of(method, of_seeds),
    ]


def _curves(trained: Results) -> Picture:
    panels = [
        partial(draw_accuracy, methods=together(of).methods, title=title, looks=_LOOKS)
        for title, of in trained.items()
    ]
    caption = "Test accuracy over the rounds, first seed."
    return Picture("leaderboard", caption, panels)


def _reach(trained: Results) -> Picture:
    panels = [
        partial(
            draw_reach,
            points={
                name: (
                    fmean(of["coverage"] for of in methods_of(of_seeds)),
                    fmean(accuracies(of_seeds)),
                )
                for name, of_seeds in of_methods.items()
                if of_seeds
            },
            looks=_LOOKS,
            title=title,
        )
        for title, of_methods in trained.items()
    ]
    caption = "Accuracy over the last rounds against the share of the clients that trained."
    return Picture("leaderboard-coverage", caption, panels)


EXPERIMENT: Final = Experiment(
    "Beyond the paper: all selection methods, with SGD, server momentum and Adam.", _grid, _report
)
