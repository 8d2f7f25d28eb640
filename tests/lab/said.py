"""What the pages say about results, as sentences whose numbers are computed.

The numbers come from the pages' tables, which other tests compare with results, from committed
files, or from constants of the code. `test_prose` looks for the sentences on the pages.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from statistics import fmean, median
from typing import Any, Final

from docs.pages import ROOT

from dubhe_flwr.core.prices.privacy import epsilon
from dubhe_flwr.protocol.node.memory import REMEMBERED_EPOCHS
from dubhe_flwr.rules import Prices
from dubhe_lab.data import EMD_TOLERANCE
from dubhe_lab.paper.studies import LETTERS
from dubhe_lab.paper.table2 import PAPER
from dubhe_lab.report.federation import verdict_on

DOCS: Final = ROOT / "docs"
WORDS: Final = [
    "no",
    "a",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]


class Table(dict[tuple[str, str], float]):
    """The first number in each cell of a table, by row and column."""

    def column(self, name: str, *rows: str) -> list[float]:
        """Return the numbers in some rows of a column, by default in all of them."""
        return [
            value
            for (row, column), value in self.items()
            if column == name and (row in rows or not rows)
        ]

    def lead(self, row: str, over: str, column: str = "accuracy %") -> float:
        """Return how far a row is ahead of another."""
        return self[row, column] - self[over, column]


@cache
def tables(page: str) -> list[Table]:
    """Return the tables of a page; rows with the same heading are told apart by their next cell."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", (ROOT / page).read_text("utf-8"), re.MULTILINE):
        heading, _, *rows = [
            [cell.strip() for cell in line.strip()[1:-1].split("|")] for line in block.splitlines()
        ]
        names = [row[0] for row in rows]
        table = Table()
        for row in rows:
            name = row[0] if names.count(row[0]) == 1 else f"{row[0]}, {row[1]}"
            for column, cell in zip(heading[1:], row[1:], strict=False):
                if match := re.search(r"[-+]?\d[\d ]*(?:\.\d+)?", cell):
                    table[name.strip("` "), column] = float(match[0].replace(" ", ""))
        found.append(table)
    return found


def words(number: float) -> str:
    """Return a rounded number in words."""
    return "half a" if 0.35 < number < 0.65 else WORDS[round(number)]


@cache
def results(pattern: str) -> list[Any]:
    """Return the committed results in some files of `docs`."""
    return [json.loads(file.read_text("utf-8")) for file in sorted(DOCS.glob(pattern))]


def trained(pattern: str, **config: object) -> dict[int, dict[str, Any]]:
    """Return what training runs with some settings have found, by seed."""
    return {
        each["cell"]["config"]["seed"]: next(iter(each["result"]["methods"].values()))
        for each in results(pattern)
        if config.items() <= each["cell"]["config"].items()
    }


def readme() -> Iterator[str]:
    """Yield what the README says, which rounds the table of digits."""
    shown = tables("README.md")[0]
    sgd, momentum, adam = (
        shown["Dubhe", f"{name} %"] - shown["random", f"{name} %"]
        for name in ("SGD", "server momentum", "Adam")
    )
    yield f"{sgd:.0f} points with SGD, {momentum:.1f} with server momentum, {adam:.0f} with Adam"
    best = [max(shown.column(f"{name} %")) for name in ("SGD", "server momentum", "Adam")]
    ours = [shown["Dubhe", f"{name} %"] for name in ("SGD", "server momentum", "Adam")]
    assert round(max(of - own for of, own in zip(best, ours, strict=True))) == 1
    yield "Oracles lead Dubhe by a point at most"
    assert shown.lead("Dubhe, H=20", "Dubhe", "SGD %") < 0.2
    assert tables("docs/side_by_side.md")[2].lead("Dubhe, H=20", "Dubhe", "K = 5, SGD") > 1
    yield "adds little with K = 20, more with K = 5"
    natural = tables("docs/side_by_side.md")[7]
    lost = natural["random", "accuracy %"] - natural["Dubhe", "accuracy %"]
    yield f"plain accuracy drops by {lost:.0f} points"


def costs() -> Iterator[str]:
    """Yield what the page on one's own federation says about MovieLens."""
    movies = tables("docs/side_by_side.md")[7]
    random, dubhe = (
        [movies[name, f"{of}accuracy %"] for of in ("", "balanced ")]
        for name in ("random", "Dubhe")
    )
    yield f"lowers plain accuracy from {random[0]} to {dubhe[0]} %"
    yield f"balanced accuracy from {random[1]} to {dubhe[1]} %"
    yield f"keeps plain accuracy at {movies['Dubhe, own mix', 'accuracy %']} %"


def agents() -> Iterator[str]:
    """Yield what an agent adds."""
    sgd, momentum, adam = (
        tables("docs/side_by_side.md")[1]["Dubhe, H=20", name]
        for name in ("SGD", "server momentum", "Adam")
    )
    assert abs(momentum) < 0.15
    yield f"added {sgd} points of accuracy with plain SGD, {adam} with Adam, and nothing"
    small = tables("docs/side_by_side.md")[2]
    sgd, adam = (small.lead("Dubhe, H=20", "Dubhe", f"K = 5, {name}") for name in ("SGD", "Adam"))
    yield f"with five clients, {sgd:.1f} points with SGD and {adam:.1f} with Adam."


def coverage() -> Iterator[str]:
    """Yield the default cost of coverage."""
    yield f"With the default of {Prices.coverage},"


def local_skew() -> Iterator[str]:
    """Yield what a cost on local skew gains."""
    cifar = tables("docs/side_by_side.md")[12]
    lead = cifar.lead(_LIKE_CLIENTS, "Dubhe")
    usual, own = cifar.column("coverage %", "Dubhe", _LIKE_CLIENTS)
    yield (
        f"ResNet18 was {words(lead)} points more accurate on CIFAR-10, but {own:.0f} % of the "
        f"clients trained instead of {usual:.0f} %"
    )


def digits() -> Iterator[str]:
    """Yield what is said about digits, other remedies, and when Dubhe helps."""
    shown, ahead, small, remedies, when, *_ = tables("docs/side_by_side.md")
    seeing, oracles = (
        ("Power-of-Choice", "Active FL", "Oort"),
        ("Fed-CBS (oracle)", "greedy (oracle)"),
    )
    balanced = [
        value
        for (row, column), value in shown.items()
        if column == "server momentum %" and row not in ("random", *seeing)
    ]
    yield f"are level**, within {max(balanced) - min(balanced):.1f} points"
    lead = [-each for each in ahead.column("server momentum", *seeing)]
    yield f"Dubhe is {min(lead):.1f} to {max(lead):.1f} points ahead of the methods that see losses"
    sgd, adam = -ahead["random", "SGD"], -ahead["random", "Adam"]
    assert max(map(abs, ahead.column("SGD", *oracles))) < 0.25
    yield (
        f"**With plain SGD, Dubhe gains {sgd:.0f} points** over random selection, and is level "
        "with Fed-CBS and greedy selection, which see all labels"
    )
    behind = [
        -each for each in ahead.column("SGD", "FLIPS (oracle)", "Dubhe (paper), H=10", *seeing)
    ]
    yield f"that see losses are {min(behind):.1f} to {max(behind):.1f} points behind"
    assert abs(ahead["Fed-CBS (oracle)", "Adam"]) < 0.25
    yield (
        f"**With Adam, Dubhe gains {adam:.0f} points**. It is level with Fed-CBS and "
        f"{words(ahead['greedy (oracle)', 'Adam'])} point behind greedy"
    )
    behind = [-each for each in ahead.column("Adam", *seeing)]
    yield f"methods that see losses are {min(behind):.1f} to {max(behind):.1f} points behind"
    agent = max(ahead["Dubhe, H=20", name] for name in ("SGD", "server momentum", "Adam"))
    yield f"at most {agent} points with Adam"
    gained = [value for (row, _), value in small.items() if row == "Dubhe"]
    yield f"**Dubhe still gains {min(gained):.0f} to {max(gained):.0f} points**"
    assert all(small.lead("greedy (oracle)", "Dubhe", f"K = {of}, Adam") > 4 for of in (5, 10))
    of_five, of_ten = (
        [small.lead("Dubhe, H=20", "Dubhe", f"K = {of}, {name}") for name in ("SGD", "Adam")]
        for of in (5, 10)
    )
    yield (
        f"With K = 5, `Tries(20)` adds {of_five[0]:.1f} points with SGD and {of_five[1]:.1f} with "
        f"Adam; with K = 10, {of_ten[0]:.1f} and {of_ten[1]:.1f}."
    )
    few = [small.lead("Dubhe, H=3", "Dubhe", f"K = 5, {name}") for name in ("SGD", "Adam")]
    yield f"`Tries(3)` adds {few[0]:.1f} and {few[1]:.1f} with K = 5."
    runs = trained(
        "side_by_side/cells/training/digits-10-1.5-dubhe-coverage-0.3-*",
        optimizer="sgd",
        server_momentum=0.0,
    )
    covering = 100 * fmean(run["coverage"] for run in runs.values())
    usual = shown["Dubhe", "coverage %"]
    yield f"{covering:.0f} % of the clients train instead of {usual:.0f} %"
    sgd, adam = (-ahead["Dubhe, coverage 0.3", name] for name in ("SGD", "Adam"))
    yield f"{sgd} points lower with SGD and {adam} with Adam"
    more = remedies.column("with random selection", "2 K clients", "4 K clients")
    yield f"times as many clients at random gains less than {words(max(more) + 0.5)} point:"
    momentum, both = (
        remedies["FedAvgM, 0.9", f"with {of}"] for of in ("random selection", "Dubhe")
    )
    yield f"here**, with {momentum:.0f} points. Dubhe adds {words(both - momentum)} more"
    loss = remedies["class-balanced loss", "with random selection"]
    yield f"Class-balanced loss gains {words(loss)} points"
    gain = {
        (rho, other): [
            value
            for (row, column), value in when.items()
            if column == f"over {other}" and row.startswith(f"rho {rho},")
        ]
        for rho in (1, 3, 10)
        for other in ("random", "Power-of-Choice")
    }
    yield (
        f"Dubhe is within {max(map(abs, gain[1, 'random'])):.1f} points of random selection, and "
        f"up to {words(-min(gain[1, 'Power-of-Choice']))} point behind Power-of-Choice"
    )
    assert 0.5 < max(gain[3, "Power-of-Choice"]) < 1
    least, most = (
        [f"{of(each):.0f}" for each in (gain[10, "random"], gain[10, "Power-of-Choice"])]
        for of in (min, max)
    )
    yield (
        f"at rho = 3 up to {max(gain[3, 'random']):.0f} points over random selection, but less "
        f"than one over Power-of-Choice; at rho = 10, {least[0]} to {most[0]} points over random "
        f"selection and {least[1]} to {most[1]} over Power-of-Choice"
    )
    forty, thirteen = (
        sum(
            v
            for (row, column), v in when.items()
            if column == "over random" and row.endswith(f", {share}%")
        )
        for share in (40, 13)
    )
    assert round(5 * forty / thirteen) == 4
    yield "Even if 40 % of them train"
    yield "about four fifths of what it gains with 13 %"
    hours = (
        sum(
            each["provenance"]["seconds"]
            for each in results("side_by_side/cells/training/digits-*")
            if " when " in each["provenance"]["command"]
        )
        / 3600
    )
    yield f"The whole grid takes about {words(hours)} hours on one core"


def natural() -> Iterator[str]:
    """Yield what is said about natural federations."""
    accuracy, balanced, recall = "accuracy %", "balanced accuracy %", "worst recall %"
    chem, inst, movies = tables("docs/side_by_side.md")[5:8]
    yield f"**On Chem97, balance costs {chem.lead('random', 'Dubhe'):.1f} points of accuracy.**"
    yield (
        f"Balanced accuracy rises by {chem.lead('Dubhe', 'random', balanced):.1f} points, "
        f"and the recall of the worst class from {chem['random', recall]:.0f} to "
        f"{chem['Dubhe', recall]:.0f} %"
    )
    yield f"**On InstEval, balance costs {inst.lead('random', 'Dubhe'):.1f} points**"
    yield (
        f"Balanced accuracy rises by {words(inst.lead('Dubhe', 'random', balanced))} point, "
        f"and the recall of the worst class from {inst['random', recall]:.0f} to "
        f"{inst['Dubhe', recall]:.0f} %"
    )
    greedy = [
        each["random", accuracy] - each["greedy (oracle)", accuracy]
        for each in (inst, chem, movies)
    ]
    yield f"also costs {greedy[0]:.1f} points here, and {words(greedy[1])} points on Chem97"
    (of,) = results("side_by_side/cells/natural/movielens-study-*")
    yield f"The most frequent rating is {of['result']['rho']:.0f} times as common as the rarest"
    assert movies["random", recall] == 0
    yield f"(recall {movies['Dubhe', recall]:.0f} % instead of none)"
    lost = words(movies.lead("random", "Dubhe"))
    assert lost == words(greedy[2])
    yield f"loses {lost} points of accuracy, the same as greedy selection"
    assert -1 < movies.lead("Dubhe", "random", balanced) < 0
    yield f"Only {movies['Dubhe', 'coverage %']:.0f} % of the clients train"


_LIKE_CLIENTS: Final = "Dubhe, coverage 0.1, local skew 1"


def shares_of_greedy(method: str) -> list[float]:
    """Return the share of greedy's gain on CIFAR-10 that a method has, for each seed."""
    found = {
        name: {
            seed: fmean([value for value in run["accuracy"] if value is not None][-25:])
            for seed, run in trained(
                f"side_by_side/cells/training/cifar10-10-1.5-{name}-seed-*"
            ).items()
        }
        for name in ("random", method, "greedy")
    }
    first, own, best = found.values()
    assert first.keys() == own.keys() == best.keys()
    return [(own[seed] - first[seed]) / (best[seed] - first[seed]) for seed in first]


def larger() -> Iterator[str]:
    """Yield what is said about MNIST, CIFAR-10 and turned digits."""
    usual = "Dubhe"
    sgd, momentum, adam, cifar, turned = tables("docs/side_by_side.md")[9:]
    minutes = {
        (data, on_cpu): sorted(
            each["provenance"]["seconds"] / 60
            for each in results(f"side_by_side/cells/training/{data}-*")
            if (each["provenance"]["device"] == "cpu") == on_cpu
        )
        for data in ("mnist", "cifar10")
        for on_cpu in (True, False)
    }
    mnist, images = minutes["mnist", True], minutes["cifar10", True]
    yield (
        f"took {mnist[0]:.0f} to {mnist[-1]:.0f} minutes with MNIST, half of them at most "
        f"{median(mnist):.0f}, and {images[0]:.0f} to {images[-1]:.0f} minutes with CIFAR-10"
    )
    mnist, images = minutes["mnist", False], minutes["cifar10", False]
    yield (
        f"a run took {mnist[0]:.0f} to {mnist[-1]:.0f} minutes with MNIST "
        f"and {images[0]:.0f} to {images[-1]:.0f} with CIFAR-10"
    )
    well = (
        usual,
        "Dubhe (paper), H=10",
        "FLIPS (oracle)",
        "Fed-CBS (oracle)",
        "greedy (oracle)",
    )
    level, took = (sgd.column(name, *well) for name in ("accuracy %", "rounds to 90%"))
    assert max(level) - min(level) < 1.5
    yield "balance classes well are within a point of each other"
    least, most = (of(level) - sgd["random", "accuracy %"] for of in (min, max))
    yield (
        f"They gain {least:.1f} to {most:.1f} points over random selection and reach 90 % after "
        f"{min(took):.0f} to {max(took):.0f} rounds"
    )
    runs = trained(
        "side_by_side/cells/training/mnist-10-1.5-random-*", optimizer="sgd", server_momentum=0.0
    )
    reached = [
        number
        for run in runs.values()
        for number in [
            next((at for at, of in enumerate(run["accuracy"]) if of and of >= 0.9), None)
        ]
        if number
    ]
    assert (len(reached), len(runs)) == (9, 10)
    yield f"Random selection takes {min(reached)} to {max(reached)} rounds with nine seeds"
    yield (
        f"Dubhe gains {sgd.lead(usual, 'random'):.1f} points, and greedy selection, the best "
        f"oracle, {sgd.lead('greedy (oracle)', usual):.1f} more"
    )
    gained = [sgd.lead(name, "random") for name in ("Active FL", "Power-of-Choice", "Oort")]
    yield f"see losses gain less**: {words(min(gained))} to {words(max(gained))} points"
    assert round(sgd.lead(usual, "FLIPS (oracle)")) == 1
    yield "**FLIPS covers more clients** and is a point behind"
    yield (
        f"shrinks from {words(sgd.lead(usual, 'random'))} points to "
        f"{words(momentum.lead(usual, 'random'))}. The paper's rule is "
        f"{momentum.lead('Fed-CBS (oracle)', 'Dubhe (paper), H=10'):.1f} points behind Fed-CBS, "
        "the best oracle; Dubhe is "
        f"{momentum.lead('Fed-CBS (oracle)', usual):.1f} behind Fed-CBS"
    )
    yield f"is {words(momentum.lead(usual, 'Power-of-Choice'))} point behind Dubhe."
    yield f"FedEntOpt is {words(momentum.lead('random', 'FedEntOpt (oracle)'))} point below random"
    best = "greedy (oracle)"
    share = adam.lead(usual, "random") / adam.lead(best, "random")
    yield (
        f"Dubhe has {100 * share:.0f} % of greedy selection's gain over random selection, and is "
        f"{words(adam.lead(usual, 'Dubhe (paper), H=10'))} point ahead of the paper's rule and "
        f"{words(adam.lead(usual, 'Oort'))} points ahead of Oort"
    )
    level = adam.column("accuracy %", usual, "Fed-CBS (oracle)", _LIKE_CLIENTS)
    assert max(level) - min(level) < 0.2
    yield "It is level with Fed-CBS"
    yield (
        f"is {words(adam.lead(best, 'FLIPS (oracle)'))} points behind greedy selection, and "
        f"FedEntOpt is {words(adam.lead(best, 'FedEntOpt (oracle)'))} behind"
    )
    least, *_, most = sorted(
        cifar.lead(usual, name) for name in ("FLIPS (oracle)", "Active FL", "Oort")
    )
    yield (
        f"Dubhe gains {cifar.lead(usual, 'random'):.0f} points: "
        f"{words(cifar.lead(usual, 'Dubhe (paper), H=10'))} more than the paper's rule, "
        f"{words(cifar.lead(usual, 'FedEntOpt (oracle)'))} more than FedEntOpt, and {least:.0f} to "
        f"{most:.0f} more than FLIPS and the methods that see losses"
    )
    yield (
        "With `local_skew=1` and `coverage=0.1` it gains "
        f"{cifar.lead(_LIKE_CLIENTS, 'random'):.0f}, "
        f"{words(cifar.lead(best, _LIKE_CLIENTS))} fewer than greedy selection"
    )
    for method in ("dubhe", "dubhe-coverage-0.1-local-skew-1"):
        shares = shares_of_greedy(method)
        yield f"{100 * min(shares):.0f} to {100 * max(shares):.0f} % of greedy's gain"
    ahead = cifar.lead(_LIKE_CLIENTS, "Fed-CBS (oracle)")
    yield f"{words(ahead)} point ahead of Fed-CBS"
    others = [
        turned.lead(usual, name) for name in ("Dubhe (paper), H=10", "FLIPS (oracle)", "Active FL")
    ]
    assert {round(each) for each in others} == {2}
    yield (
        f"Dubhe gains {words(turned.lead('Dubhe', 'random'))} points over random selection, two "
        "more than the paper's rule, FLIPS and Active FL, and is "
        f"{words(turned.lead('Fed-CBS (oracle)', 'Dubhe'))} point behind Fed-CBS"
    )


def noise() -> Iterator[str]:
    """Yield what is said about noise."""
    runs = results("noise/settling.json")[0]["runs"]

    def average(row: str, of: str, noise: str = "with noise", settings: int = 0) -> float:
        return fmean(run[of] for run in list(runs[row].values())[settings][noise])

    specialists = "nearly equal, but 5 % hold a single class"
    lacking = [100 * (1 - average(specialists, "volunteers", settings=each)) for each in (0, 1)]
    yield (
        "If 5 % of the nodes hold a single class and the others are nearly equal, five sums "
        f"are too few, and on average {lacking[0]:.0f} to {lacking[1]:.0f} % fewer nodes volunteer"
    )
    few, many = "1000, ten classes, EMD 1.5", "K = 100, EMD 1.5"
    yield (
        f"data is {average(few, 'distance'):.2f} from uniform with K = 20 "
        f"({average(few, 'distance', 'without'):.2f} without noise), and "
        f"{average(many, 'distance'):.2f} with K = 100 ({average(many, 'distance', 'without'):.2f} "
        "without)"
    )
    many = "100 classes"
    yield (
        f"data is {average(many, 'distance'):.2f} from uniform instead of "
        f"{average(many, 'distance', 'without'):.2f}, and "
        f"{100 * (1 - average(many, 'volunteers')):.0f} % fewer nodes volunteer"
    )
    yield f"data is {average('log-normal weights', 'distance'):.2f} from uniform."
    heaviest = Prices().heaviest
    yield f"A node counts as at most {heaviest} clients"
    four, nine = (f"{epsilon(num_sums, 10, Prices.noise):.0f}" for num_sums in (4, 9))
    yield (
        f"ten classes and sigma {Prices.noise}: the four sums of a typical first registration then "
        f"give epsilon {four} at delta 1e-5, and the whole budget of nine sums gives {nine}. "
        f"A budget gives the same {nine} if"
    )


def performance() -> Iterator[str]:
    """Yield what is said about simulated messages; `test_performance` has real nodes."""
    (engine,) = results("performance/engine.json")
    message = 1000 / engine["ray_messages_per_second"]
    yield f"any message takes about {message:.0f} ms"


def exchanges() -> Iterator[str]:
    """Yield how long an exchange with real nodes takes."""
    (found,) = results("performance/deployment.json")
    took = [
        each["seconds"]
        for kind in ("committee", "paillier")
        for selection in found["measured"][kind]["first_exchanges"]
        for each in selection
    ]
    yield f"takes {min(took):.0f} to {max(took):.0f} s"


def encryption() -> Iterator[str]:
    """Yield how long a registry is."""
    size = results("performance/crypto.json")[0]["measured"]["bytes"]
    yield f"{size['packed']} bytes instead of {size['element by element'] / 1000:.1f} kB"


_MNIST: Final = "*/cells/training/mnist-*"
_AS_IN_PAPER: Final = {"optimizer": "adam", "num_rounds": 200}


def reproduction() -> Iterator[str]:
    """Yield what is said about the reproduced paper; `table2` has the paper's numbers."""
    dirichlet, mixture, table2, _, *shares, accuracy, _, _, _ = tables("docs/reproduction.md")
    told, one, ten = PAPER["EMD*"], "dubhe-paper, H=1", "dubhe-paper, H=10"
    yield f"EMD_avg to within {EMD_TOLERANCE}"
    yield f"and use {LETTERS['thresholds'][0]}, which brings"
    yield f"together is {dirichlet['1000', 'random']} from uniform"
    falls = [dirichlet["20", "fall, H=1"], mixture["20", "fall, H=1"]]
    yield (
        f"with mixtures at K = 100 ({mixture['100', 'fall, H=1']} %), and come close with "
        f"Dirichlet clients ({dirichlet['100', 'fall, H=1']} %). At K = 20 it falls by "
        f"{min(falls):.0f} to {max(falls):.0f} %. In Table 2 the distance is {told['1']} with "
        f"H = 1. If this were a fall of 64.4 %, random selection would be at "
        f"{told['1'] / (1 - 0.644):.2f}. With our two generators it is at "
        f"{mixture['20', 'random']:.2f} to {dirichlet['20', 'random']:.2f}"
    )
    for of in dirichlet, mixture:
        near = {number: of[number, one] - of[number, "dubhe"] for number in ("10", "20", "50")}
        assert all(0.0 <= value < 0.1 for value in near.values()), near
        assert all(of[number, "dubhe"] < 0.75 * of[number, one] for number in ("100", "200", "500"))
        assert of["200", "dubhe"] < of["200", one] / 2
        assert abs(of["500", "dubhe"] - of["500", "greedy"]) < 0.01
    yield "With K = 500 it is as close as greedy selection, to within 0.01"
    fell = [
        100 * (1 - table2["dubhe-paper, H=20", of] / table2[one, of])
        for of in ("EMD* dirichlet", "EMD* mixture")
    ]
    yield (
        f"by {fell[0]:.0f} and {fell[1]:.0f} % from H = 1 to H = 20 "
        f"(paper: {100 * (1 - told['20'] / told['1']):.0f} %)"
    )
    usual = "dubhe"
    runs = {
        "random": trained(_MNIST, **_AS_IN_PAPER, method="random"),
        one: trained(_MNIST, **_AS_IN_PAPER, rule="paper", tries=1),
        ten: trained(_MNIST, **_AS_IN_PAPER, rule="paper", tries=10),
        usual: trained(_MNIST, **_AS_IN_PAPER, rule="prices", local_skew=0.0),
        "greedy": trained(_MNIST, **_AS_IN_PAPER, method="greedy"),
    }

    def mean(of: str, name: str) -> float:
        return fmean(run[of] for run in runs[name].values())

    local = {name: mean("mean_local_emd", name) for name in runs}
    yield (
        f"in the training runs below it is {local['random']:.2f} with random selection, "
        f"{local[one]:.2f} to {local[ten]:.2f} with `dubhe-paper`, {local[usual]:.2f} with "
        f"`dubhe`, and {local['greedy']:.2f} with greedy"
    )
    assert all(of[label, one] < 0.1 for of in shares for label in "89")
    yield "stay below 0.1, as in the paper. Class 9 comes closer to 0.1 than in the paper"
    prices = [share for of in shares for share in of.column("dubhe")]
    yield f"the share of every class is between {min(prices):.3f} and {max(prices):.3f}"
    minutes: dict[bool, list[float]] = {True: [], False: []}
    for each in results(_MNIST):
        name = each["cell"]["name"].split(", seed")[0].removeprefix("MNIST-10/1.5, ")
        if name in runs and _AS_IN_PAPER.items() <= each["cell"]["config"].items():
            source = each["provenance"]
            minutes[source["device"] == "cpu"].append(source["seconds"] / 60)
    on_cpu, on_gpu = minutes[True], minutes[False]
    yield (
        f"A training run took {min(on_cpu):.0f} to {max(on_cpu):.0f} minutes on one CPU thread, "
        f"and with `dubhe` {words(fmean(on_gpu))} on an H200 shared by up to 27 runs"
    )
    gain, beta = "share of greedy's gain", "beta"
    yield (
        f"achieves {accuracy[one, gain]:.0f} % of greedy's gain, although greedy sees all labels; "
        f"ten tries achieve {accuracy[ten, gain]:.0f} %, and `dubhe` "
        f"{accuracy[usual, gain]:.0f} %"
    )
    yield f"beta rises to {accuracy[ten, beta]:.0f} % (paper: {accuracy[ten, 'beta, paper']:.0f} %)"
    in_paper, own = (
        accuracy.column(column, one, ten, "greedy") for column in ("paper %", "accuracy %")
    )
    best = fmean(fmean(run["accuracy"][-50:]) for run in runs["greedy"].values())
    yield f"the paper's*, greedy's by {100 * (PAPER['MNIST']['opt'] - best):.1f} points"
    yield (
        f"lie within {max(in_paper) - min(in_paper):.1f} points of each other, ours within "
        f"{max(own) - min(own):.1f}"
    )
    distance = {name: mean("mean_emd", name) for name in runs}
    yield (
        f"`dubhe` is {accuracy.lead(usual, ten):.1f} points ahead of ten tries of the paper's "
        f"rule, although its data is further from uniform, by {distance[usual]:.2f} instead of "
        f"{distance[ten]:.2f}"
    )
    yield (
        f"{local[usual]:.2f} with `dubhe`, and {local[one]:.2f} and {local[ten]:.2f} with one "
        "and ten tries"
    )
    covered = {name: 100 * mean("coverage", name) for name in runs}
    yield (
        f"`dubhe` trains {covered[usual]:.0f} % of the clients, ten tries {covered[ten]:.0f} %, "
        f"and greedy {covered['greedy']:.0f} %"
    )
    reached = {
        name: {seed: 100 * fmean(run["accuracy"][-50:]) for seed, run in of.items()}
        for name, of in runs.items()
    }
    assert all(reached[usual][seed] > value for seed, value in reached[ten].items())
    spread = max(max(of.values()) - min(of.values()) for of in reached.values())
    yield (
        f"*Seeds differ* by up to {spread:.1f} points, but with each of the three `dubhe` is ahead "
        "of ten tries"
    )


def paper() -> Iterator[str]:
    """Yield what is said about the paper's Table 2."""
    told = PAPER["EMD*"]
    yield (
        f"from {told['1']:.3f} with H = 1 to {told['20']:.3f} with H = 20; greedy selection "
        f"reaches {told['opt']:.3f}"
    )


def bounds() -> Iterator[str]:
    """Yield the bounds that the benchmarks miss, where the page gives their values."""
    named = {
        "committee_round_ratio": "the {} for a round",
        "node_ms_committee_n1000_c10": "the limit of {} ms for a node's work on a sum",
    }
    for of in results("performance/*.json"):
        for bound in of["wanted"].keys() & named.keys():
            if not of["wanted"][bound]["kept"]:
                yield named[bound].format(of["wanted"][bound]["bound"].removeprefix("at most "))


def prices() -> Iterator[str]:
    """Yield settings that the page on prices repeats."""
    heaviest = Prices().heaviest
    yield f"The setting `noise` is sigma, {Prices.noise} by default"
    yield f"No client counts as more than {heaviest} clients"


def attacks() -> Iterator[str]:
    """Yield what is said about attacks on sums, from the page about noise."""
    errors = Table(
        {row: value for row, value in tables("docs/noise.md")[2].items() if row[1] == "100"}
    )
    rows = ("all other clients known, whole budget", "all but two known", "all but five known")
    known = ", ".join(f"{errors[row, '100']:.2f}" for row in rows)
    yield f"know all clients but one, two, five** have {known} of the error"
    holder = errors["only holder, whole budget", "100"]
    yield f"the node has {holder:.1f} times the error"
    yield f"they have {errors['half of the nodes collude', '100']:.2f} of the error"
    yield f"They have {errors['all nodes but one collude', '100']:.2f} of the error"


def guarantees() -> Iterator[str]:
    """Yield constants that the page about guarantees repeats."""
    yield f"a node weighs at most {Prices().heaviest} times the average"
    yield f"A node remembers its last {REMEMBERED_EPOCHS} periods in a run"


def remembered() -> Iterator[str]:
    """Yield how many registration periods the file in `state_dir` lists."""
    yield f"the seed of their blur, and the last {REMEMBERED_EPOCHS} periods"


def verdicts() -> Iterator[str]:
    """Yield the points from which a study says that Dubhe helps."""
    assert [verdict_on(points) for points in (5.0, 4.9, 0.5, 0.4)] == [
        "much",
        "little",
        "little",
        "not",
    ]
    yield 'At five points or more, the verdict is "a lot"'
    yield "below half a point, it is"
