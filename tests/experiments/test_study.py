"""A study selects as its settings say, and its figures are as good as they have to be."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from protocol.federation import node_policies

from dubhe_flwr.baselines import GreedySelector, RandomSelector
from dubhe_flwr.core import coverage, distance_to_uniform, generator
from dubhe_flwr.data import Federation
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.experiments import StudySettings
from dubhe_flwr.experiments.plain import plain_rounds
from dubhe_flwr.experiments.study import draw_federation, rounds_in_memory, study
from dubhe_flwr.protocol import ClientSession, Coordinator
from dubhe_flwr.report import SelectionResult, StudyResults

SMALL: dict[str, Any] = {"num_clients": 40, "num_participants": 6, "emd": 1.0, "num_samples": 32}
SMALL |= {"num_rounds": 5, "registration_interval": 3}
SMALL |= {"tries": 4, "group_size": 3, "key_bits": 512}


def small_study(**given: Any) -> StudyResults:
    """Study selection in a tiny federation."""
    return study(StudySettings.of(**{**SMALL, **given}))


def without_costs(results: StudyResults) -> dict[str, SelectionResult]:
    """Return what encryption must not change."""
    free: dict[str, Any] = dict.fromkeys(("messages", "bytes_up", "bytes_down"))
    return {name: replace(m, seconds=0.0, **free) for name, m in results.methods.items()}


@pytest.mark.parametrize("options", [{"tries": 1}, {}, {"determination": "grouped"}], ids=str)
def test_encryption_changes_the_costs_only(options: dict[str, Any]) -> None:
    """All methods select the same data; messages and bytes are counted where there are any."""
    plain, encrypted = (small_study(**options, encrypted=on) for on in (False, True))
    assert without_costs(plain) == without_costs(encrypted)
    for method in plain.methods.values():
        assert method.messages is method.bytes_up is method.bytes_down is None
    random, dubhe, greedy = (encrypted.methods[name] for name in ("random", "dubhe", "greedy"))
    assert random.messages == greedy.messages == 40
    assert dubhe.messages is not None
    # Two epochs with a join and a register of all and a keygen of one; five draws of all.
    assert dubhe.messages >= 2 * (2 * 40 + 1) + 5 * 40
    assert dubhe.bytes_up is not None
    assert random.bytes_up is not None
    assert dubhe.bytes_up > 2 * 40 * 2 * 128 > random.bytes_up > 0


def test_the_seed_decides_and_the_settings_matter() -> None:
    """Same seed, same sets; another seed or another rule, other ones."""
    first = without_costs(small_study())
    assert without_costs(small_study()) == first
    for name, method in without_costs(small_study(seed=1)).items():
        assert method.emd != first[name].emd
    for option in ({"tries": 2}, {"determination": "grouped"}, {"thresholds": (0.3, 0.3)}):
        other = without_costs(small_study(**option))
        assert other["dubhe"].emd != first["dubhe"].emd, option
        assert other["greedy"] == first["greedy"]
    spread = small_study(determination="grouped", num_participants=12).methods["dubhe"]
    other_groups = {"determination": "grouped", "num_participants": 12, "group_size": 6}
    assert small_study(**other_groups).methods["dubhe"].emd != spread.emd
    mixture = small_study(generator="mixture")
    assert mixture.methods["greedy"].emd != first["greedy"].emd


def test_the_baselines_select_as_their_selectors_do() -> None:
    """The figures are recomputed here from the selectors' own choices."""
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
        sets = [selector.choose(aliases, generator(0, "baseline", r)) for r in range(1, 6)]
        populations = [counts[rows].mean(axis=0) / 32 for rows in sets]
        method = results.methods[name]
        assert method.emd == pytest.approx([distance_to_uniform(p) for p in populations])
        assert method.bias == pytest.approx(distance_to_uniform(np.mean(populations, axis=0)))
        times = np.bincount(np.concatenate(sets), minlength=40) / 30
        assert method.coverage == np.count_nonzero(times) / 40
        assert method.effective_clients == pytest.approx(1 / (times**2).sum())


def test_early_coverage_counts_a_hundred_rounds() -> None:
    """It is that of a shorter study, and no larger than that of all rounds."""
    long, short = (small_study(num_rounds=n, num_clients=400) for n in (120, 100))
    for name, method in long.methods.items():
        assert method.coverage_100 == short.methods[name].coverage_100
        assert method.coverage_100 == short.methods[name].coverage
        assert method.coverage >= method.coverage_100
    assert long.methods["random"].coverage > long.methods["random"].coverage_100


def test_all_rounds_are_told() -> None:
    """Method by method and round by round."""
    told: list[tuple[str, int]] = []
    study(StudySettings.of(**SMALL), lambda *method_and_round: told.append(method_and_round))
    assert told == [(name, r) for name in ("random", "dubhe", "greedy") for r in range(1, 6)]


def test_the_file_names_settings_and_findings_but_no_client(tmp_path: Path) -> None:
    """All settings, versions and figures; no list is as long as the number of clients."""
    small_study().save(tmp_path / "study.json")
    content = json.loads((tmp_path / "study.json").read_text(encoding="utf-8"))
    assert content["config"].keys() == {*StudySettings().flat(), "versions", "command", "date"}
    assert content["config"]["thresholds"] == [0.7, 0.1]
    assert content["federation"]["name"].startswith("synthetic-")
    for method in content["methods"].values():
        assert method["bytes_up"] is None
        assert {len(value) for value in method.values() if isinstance(value, list)} <= {0, 5}


@pytest.mark.parametrize(
    ("options", "largest_emd", "least_coverage"),
    [
        ({"determination": "tries", "tries": 1}, 0.45, 0.5),
        ({"determination": "tries"}, 0.26, 0.45),
        ({}, 0.08, 0.45),
        ({"num_participants": 100}, 0.03, 0.6),
    ],
    ids=["one try", "twenty tries", "as it comes", "as it comes, K = 100"],
)
def test_selected_data_is_as_uniform_as_it_used_to_be(
    options: dict[str, Any], largest_emd: float, least_coverage: float
) -> None:
    """Bounds for one seed of distance, and of clients within 100 rounds, at the paper's size.

    The means over three seeds were 0.39 and 59 %, 0.23 and 54 %, 0.06 and 54 %, 0.02 for K = 100.
    """
    settings = StudySettings.of(**options, num_rounds=100)
    federation = draw_federation(settings)
    rounds = plain_rounds(settings.protocol_settings(), federation.label_counts)
    selected = list(islice(rounds, settings.num_rounds))
    shares = [federation.label_distributions[chosen].mean(axis=0) for chosen in selected]
    assert fmean(map(distance_to_uniform, shares)) <= largest_emd
    assert coverage(selected, 1000) >= least_coverage


NODES = node_policies([[9, 1] if row % 3 else [1, 9] for row in range(12)])


def test_an_error_of_a_node_is_its_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in every runtime, a refusal does not end the round of the others."""
    handle, broken = ClientSession.handle, list[ClientSession]()

    def fail(session: ClientSession, request: Any) -> Any:
        broken.append(session)
        if session is broken[0]:
            raise RefusedError("not now")
        return handle(session, request)

    monkeypatch.setattr(ClientSession, "handle", fail)
    settings = StudySettings.of(num_participants=3, tries=3, key_bits=512).protocol_settings()
    coordinator = Coordinator(replace(settings, reference_set=(1, 2), thresholds={1: 0.7}))
    plan = next(rounds_in_memory(coordinator, NODES))
    assert plan.stages[0].dropped == {"error reply": 1}
    assert (plan.num_registered, 0 in plan.participants) == (11, False)


def test_it_drives_any_selector() -> None:
    """Nodes say hello once, and are chosen by the selector's rule."""
    plans = list(islice(rounds_in_memory(RandomSelector(4, seed=5), NODES), 2))
    assert [(plan.server_round, len(plan.stages)) for plan in plans] == [(1, 1), (2, 0)]
    assert all(len(set(plan.participants)) == 4 for plan in plans)
