"""A server counts a node's yes and no under the paper's rule; `attacks.md` has the results."""

import re

import numpy as np
from docs.pages import ROOT
from scipy.stats import binom

from dubhe_flwr.core.codebook import Codebook
from dubhe_lab.data.measures import overall_registry
from dubhe_lab.experiments.settings import FederationSettings

PAGE = ROOT / "docs" / "explanation" / "attacks.md"


def test_what_draws_of_the_papers_rule_tell() -> None:
    """The server guesses the size of a node's category, and the node's most frequent class."""
    counts = FederationSettings().draw("study", 10).label_counts
    overall, slots = overall_registry(counts, Codebook((1, 2, 10)), {1: 0.7, 2: 0.1})
    size, top = overall[slots], counts.argmax(axis=1)
    sizes, num_nodes = np.unique(size, return_counts=True)
    usual_top = {s: np.bincount(top[size == s]).argmax() for s in sizes}
    found = [num_nodes.max() / len(top), np.bincount(top).max() / len(top)]
    rng = np.random.default_rng(0)
    for num_participants in (20, 300):
        probability = np.minimum(1, num_participants / (sizes * np.count_nonzero(overall)))
        for num_draws in (100, 1_000):
            seen = rng.binomial(num_draws, probability[np.searchsorted(sizes, size)])
            likelihood = num_nodes * binom.pmf(seen[:, None], num_draws, probability)
            likely = sizes[likelihood.argmax(axis=1)]
            label = [usual_top[s] for s in likely]
            found += [np.mean(likely == size), np.mean(label == top)]
    table = PAGE.read_text(encoding="utf-8").split("| draws watched |")[1].split("\n\n")[0]
    assert [f"{share:.0%}"[:-1] for share in found] == re.findall(r"(\d+) %", table)
