"""A study selects as its settings say, and reaches the expected balance."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from dubhe_flwr.core.distribution import distance_to_uniform
from dubhe_flwr.core.randomness import generator
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_lab.baselines import GreedySelector, RandomSelector
from dubhe_lab.baselines.roll_call import Past
from dubhe_lab.data import Federation
from dubhe_lab.data.measures import coverage
from dubhe_lab.experiments import StudySettings
from dubhe_lab.experiments.settings import DUBHE
from dubhe_lab.experiments.study import rounds_in_memory, simulated_nodes, study
from dubhe_lab.report.methods import METHODS, SEEING_LOSSES
from dubhe_lab.report.results import SelectionResult, StudyResults

SMALL: dict[str, Any] = {
    "num_clients": 40, "num_participants": 6, "emd": 1.0, "num_samples": 32, "tries": 4,
    "num_rounds": 5, "registration_interval": 3, "key_bits": 512,
}  # fmt: skip


def small_study(**given: Any) -> StudyResults:
    """Run a study in a tiny federation."""
    return study(StudySettings.of(**{**SMALL, **given}))


def dubhe_at_full_size(**given: Any) -> tuple[float, float]:
    """Return EMD* and coverage for N=1000, K=20, rho=10, EMD 1.5 over 40 rounds, by default."""
    settings = StudySettings.of(**{"num_rounds": 40, **given})  # with one registration
    federation = settings.federation.draw("synthetic", settings.classes)
    nodes = simulated_nodes(federation.label_counts)
    # The same sets as with one draw per round, in a quarter of the time.
    server = Coordinator(replace(settings.protocol_settings(), rounds_per_draw=20))
    plans = rounds_in_memory(server, nodes)
    selected = [plan.participants for plan in islice(plans, settings.num_rounds)]
    shares = [federation.label_distributions[list(chosen)].mean(axis=0) for chosen in selected]
    return fmean(map(distance_to_uniform, shares)), coverage(
        selected, settings.federation.num_clients
    )


def without_costs(results: StudyResults) -> dict[str, SelectionResult]:
    """Return the results that encryption must not change."""
    free: dict[str, Any] = dict.fromkeys(("messages", "bytes_up", "bytes_down"))
    return {name: replace(m, seconds=0.0, **free) for name, m in results.methods.items()}


def test_encryption_changes_only_the_costs() -> None:
    """Encryption selects the same data; only then are messages and bytes counted."""
    plain, encrypted = (small_study(encrypted=on) for on in (False, True))
    assert without_costs(plain) == without_costs(encrypted)
    for method in plain.methods.values():
        assert method.messages is method.bytes_up is method.bytes_down is None
    random, dubhe, greedy = (encrypted.methods[name] for name in ("random", "dubhe", "greedy"))
    assert random.messages == greedy.messages == 40
    assert dubhe.messages is not None
    # Two epochs, each with join and register by all nodes and appoint by one; five draws by all.
    assert dubhe.messages >= 2 * (2 * 40 + 1) + 5 * 40
    assert dubhe.bytes_up is not None
    assert random.bytes_up is not None
    assert dubhe.bytes_up > 2 * 40 * 2 * 128 > random.bytes_up > 0


def test_the_seed_decides_and_the_settings_matter() -> None:
    """The same seed gives the same sets; another seed or rule gives others."""
    first = without_costs(small_study())
    assert without_costs(small_study()) == first
    for name, method in without_costs(small_study(seed=1)).items():
        assert method.emd != first[name].emd
    for option in ({"tries": 2}, {"rule": "paper"}):
        other = without_costs(small_study(**option))
        assert other["dubhe"].emd != first["dubhe"].emd, option
        assert other["greedy"] == first["greedy"]
    mixture = small_study(generator="mixture")
    assert mixture.methods["greedy"].emd != first["greedy"].emd


def test_the_number_of_classes_can_be_set() -> None:
    """By default the number of classes comes from the reference set."""
    few = small_study(num_classes=3, target=(0.5, 0.25, 0.25), num_rounds=1)
    assert few.federation.num_classes == few.config["num_classes"] == 3
    assert small_study(reference_set=(1, 12), num_rounds=1).federation.num_classes == 12


def test_the_baselines_select_as_their_selectors_do() -> None:
    """The baselines' figures match the selectors' own choices."""
    results = small_study()
    counts = Federation.draw(
        "synthetic",
        num_clients=40,
        num_classes=10,
        rho=10,
        emd=1.0,
        generator=generator(0, "federation"),
        num_samples=32,
    ).label_counts
    aliases = [str(row) for row in range(40)]
    for name, selector in (
        ("random", RandomSelector(6, 0)),
        ("greedy", GreedySelector(6, counts / 32, 0)),
    ):
        sets = [selector.choose(aliases, Past(), generator(0, "baseline", r)) for r in range(1, 6)]
        populations = [counts[rows].mean(axis=0) / 32 for rows in sets]
        method = results.methods[name]
        assert method.emd == pytest.approx([distance_to_uniform(p) for p in populations])
        assert method.bias == pytest.approx(distance_to_uniform(np.mean(populations, axis=0)))
        times = np.bincount(np.concatenate(sets), minlength=40) / 30
        assert method.coverage == np.count_nonzero(times) / 40
        assert method.effective_clients == pytest.approx(1 / (times**2).sum())


def test_early_coverage_counts_a_hundred_rounds() -> None:
    """`coverage_100` ignores rounds after the hundredth; `coverage` counts them."""
    few = {"num_clients": 120, "num_participants": 3}
    settings = StudySettings.of(**SMALL | few | {"num_rounds": 110})
    found = study(settings, methods=("random",)).methods["random"]
    aliases, lots = [str(row) for row in range(120)], RandomSelector(3, 0)
    sets = [lots.choose(aliases, Past(), generator(0, "baseline", r)) for r in range(1, 101)]
    assert found.coverage_100 == coverage(sets, 120) < found.coverage


def test_the_file_names_settings_and_findings_but_no_client(tmp_path: Path) -> None:
    """The file holds settings, versions and figures, but no list with an entry per client."""
    path = tmp_path / "new" / "study.json"
    small_study().save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert set(content) == {"config", "federation", "methods"}
    assert content["config"].keys() == {*StudySettings().flat(), "versions", "command", "date"}
    assert content["config"]["rule"] == "prices"
    assert content["federation"]["name"].startswith("synthetic-")
    for method in content["methods"].values():
        assert {"mean_emd", "sd_emd", "mean_local_emd", "effective_clients"} <= method.keys()
        assert method["bytes_up"] is None
        lengths = {len(value) for value in method.values() if isinstance(value, list)}
        assert lengths <= {0, 2, 5}  # only lists over rounds, methods and notes


@pytest.mark.parametrize(
    ("options", "largest_emd"),
    [pytest.param({"tries": 1}, 0.45, marks=pytest.mark.slow), ({}, 0.26)],
    ids=["one try", "twenty"],
)
def test_the_papers_rule_selects_uniform_data(options: dict[str, Any], largest_emd: float) -> None:
    """The paper's rule stays within bounds for one seed; over three it reached 0.41 and 0.245."""
    mean_emd, _ = dubhe_at_full_size(**options, rule="paper")
    assert mean_emd <= largest_emd


@pytest.mark.parametrize(
    ("num_clients", "num_participants", "num_rounds", "largest_emd"),
    [
        (300, 20, 40, 0.33),
        pytest.param(1000, 20, 40, 0.37, marks=pytest.mark.slow),
        pytest.param(1000, 100, 12, 0.16, marks=pytest.mark.slow),
    ],
)
def test_the_defaults_select_uniform_data_from_many_clients(
    num_clients: int, num_participants: int, num_rounds: int, largest_emd: float
) -> None:
    """K = 20 reached 0.30 and 0.34, where random selection has 0.65, and K = 100 reached 0.14."""
    mean_emd, reached = dubhe_at_full_size(
        num_clients=num_clients, num_participants=num_participants, num_rounds=num_rounds
    )
    assert mean_emd <= largest_emd
    assert reached >= 0.2


def test_every_oracle_balances_its_own_way() -> None:
    """Every oracle is closer to uniform than random selection, and no two select alike."""
    baselines = [name for name in METHODS if name not in {*DUBHE, *SEEING_LOSSES}]
    given = {"num_clients": 120, "num_participants": 10, "num_samples": 64, "num_rounds": 12}
    found = study(StudySettings.of(**given, seed=3), methods=baselines).methods
    assert len({result.emd for result in found.values()}) == len(baselines) == 5
    for name in baselines[1:]:
        assert found[name].mean_emd < 0.9 * found["random"].mean_emd, name
