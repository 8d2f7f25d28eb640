"""Measures how soon prices settle: `python docs/noise/settling.py`.

Writes `settling.json`, with a table on the page about noise. This takes six minutes;
measured rows are kept, so the command continues where it stopped.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from core.prices.populations import Federation, Floats, half_normal, specialists, with_emd

from dubhe_flwr.core.prices import LEAST_VOLUNTEERS, PriceDesign, volunteers_at_sums
from dubhe_flwr.rules import Frame, Prices

MEASURED: Final = Path(__file__).with_suffix(".json")
PRICES: Final = {
    "default settings": Prices(),
    "`coverage=0.1, local_skew=1`": Prices(0.1, 1.0),
}
MEMBERS: Final = 3.0
"""Members of the committee, each of which adds the noise in full."""


@dataclass(frozen=True)
class Population:
    """Clients of one kind: one federation for each seed."""

    num_clients: int
    num_classes: int
    emd: float | None = None  # EMD_avg; None for specialists
    num_participants: int = 20
    num_seeds: int = 3
    one_class: bool = False
    weighted: bool = False
    target: tuple[float, ...] | None = None

    def labels(self, seed: int) -> Floats:
        """Return the clients' label distributions."""
        if self.one_class:
            rng, classes = np.random.default_rng(seed), self.num_classes
            return np.eye(classes)[rng.choice(classes, self.num_clients, p=half_normal(classes))]
        if self.emd is None:
            return specialists(self.num_clients, self.num_classes, seed)
        return with_emd(self.num_clients, self.num_classes, self.emd, seed)

    def weights(self, seed: int) -> Floats | None:
        """Return the clients' weights, if they differ."""
        sizes = np.random.default_rng(seed).lognormal(0.0, 0.8, self.num_clients)
        return np.clip(sizes, 0.25, Prices().heaviest) if self.weighted else None


ROWS: Final[Mapping[str, Population]] = {
    "1000, ten classes, EMD 1.5": Population(1000, 10, 1.5),
    "EMD 1.0": Population(1000, 10, 1.0),
    "EMD 0.5": Population(1000, 10, 0.5),
    "K = 100, EMD 1.5": Population(1000, 10, 1.5, num_participants=100),
    "two classes": Population(1000, 2, 0.3),
    "one class each": Population(1000, 10, one_class=True),
    "log-normal weights": Population(1000, 10, 1.0, weighted=True),
    "target of 0.95 for one class": Population(
        1000, 10, 1.0, target=tuple(0.95 if row == 3 else 0.05 / 9 for row in range(10))
    ),
    "nearly equal, but 5 % hold a single class": Population(1000, 10),
    "12, K = 4": Population(12, 10, 1.2, num_participants=4),
    "2000, 52 classes": Population(2000, 52, 1.0, num_seeds=2),
    "100 classes": Population(1000, 100, 1.3, num_seeds=2),
}


def measured(of: Population, rule: Prices, seed: int) -> dict[str, Any] | None:
    """Return how a first epoch ends with a rule, or None if it has no prices."""
    noisy = rule.noise > 0.0
    volunteers = volunteers_at_sums(of.num_clients, of.num_participants, noisy=noisy)
    if noisy and volunteers < LEAST_VOLUNTEERS:
        return None
    heaviest = 4.0 if of.weighted else 1.0
    frame = Frame(of.num_classes, 2000, heaviest)
    design = PriceDesign(
        of.num_classes,
        of.num_participants,
        volunteers,
        rule.coverage,
        rule.local_skew,
        of.target,
        heaviest,
        rule.noise,
        rule.blur(frame),
    )
    nodes = Federation(design, of.labels(seed), of.weights(seed), MEMBERS, seed)
    most = rule.num_sums(frame)
    while not nodes.state.settled and nodes.state.num_sums < most:
        nodes.step()
    return {
        "exchanges": nodes.state.num_sums - 1,
        "settled": nodes.state.settled,
        "volunteers": round(float(nodes.probabilities().sum()) / design.num_drawn, 3),
        "distance": round(nodes.distance(), 3),
    }


def told(results: list[dict[str, Any] | None]) -> str:
    """Return the fewest and the most exchanges, and whether prices were settled."""
    found = [each for each in results if each is not None]
    if not found:
        return "no prices"
    numbers, settled = [each["exchanges"] for each in found], [each["settled"] for each in found]
    fewest, most = min(numbers), max(numbers)
    text = str(fewest) if fewest == most else f"{fewest}-{most}"
    if all(settled):
        return text
    return f"{text}, not {'always ' if any(settled) else ''}settled"


def main() -> None:
    """Measure the rows that the file lacks."""
    runs = json.loads(MEASURED.read_text())["runs"] if MEASURED.exists() else {}
    for name, of in ROWS.items():
        if name in runs:
            continue
        runs[name] = {
            settings: {
                noise: [measured(of, each, seed) for seed in range(of.num_seeds)]
                for noise, each in (
                    ("with noise", rule),
                    ("without", Prices(rule.coverage, rule.local_skew, noise=0.0)),
                )
            }
            for settings, rule in PRICES.items()
        }
        text = json.dumps({"table": table(runs), "runs": runs}, indent=1)
        MEASURED.write_text(text + "\n", encoding="utf-8")


def table(runs: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[list[str]]:
    """Return the heading and the rows."""
    rows = [["clients", *PRICES]]
    for name in filter(runs.__contains__, ROWS):
        cells = [
            f"{told(each['with noise'])} ({told(each['without'])})" for each in runs[name].values()
        ]
        rows.append([name, *cells])
    return rows


if __name__ == "__main__":
    main()
