"""A study of your own federation predicts the balance that the encrypted protocol reaches."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import call
from numpy.typing import NDArray

from dubhe_flwr.core.distribution import (
    distance_to_uniform,
    global_distribution,
    label_distribution,
)
from dubhe_flwr.errors import DataError, SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.coordinator.coordinator import Coordinator
from dubhe_flwr.protocol.node.session import ClientSession
from dubhe_flwr.protocol.simulated_nodes import answer
from dubhe_flwr.rules import Paper, Prices, Tries
from dubhe_lab import study
from dubhe_lab.experiments.selections import rounds_in_memory, simulated_nodes
from dubhe_lab.report.federation import FederationStudy

pytestmark = pytest.mark.usefixtures("few_rounds")
PAGE = Path(__file__).parents[3] / "docs" / "verdict.md"


@pytest.fixture
def balance_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a study tell neither the costs nor the balance with other numbers of participants."""
    for name in ("_swept", "_costs"):
        monkeypatch.setattr(f"dubhe_lab.experiments.my_federation.{name}", lambda *_: {})


def federation(
    seed: int, most_clients: int, most_classes: int
) -> tuple[NDArray[np.int64], int, bool]:
    """Draw label counts (N, C), K, and whether clients have equal weights."""
    rng = np.random.default_rng(seed)
    number, classes = rng.integers(25, most_clients + 1), rng.integers(2, most_classes + 1)
    common = rng.dirichlet(np.full(classes, rng.uniform(0.5, 5)))
    mixes = rng.dirichlet(10 ** rng.uniform(-0.5, 1) * classes * common + 1e-3, size=number)
    sizes = np.maximum(10, rng.lognormal(4, rng.choice([0, 1]), size=number)).astype(int)
    counts = np.array([rng.multinomial(n, mix) for n, mix in zip(sizes, mixes, strict=True)])
    return counts, int(rng.integers(4, number // 3 + 1)), bool(rng.integers(2))


def encrypted(counts: NDArray[np.int64], found: FederationStudy, seed: int) -> Iterator[Plan]:
    """Yield the rounds of an encrypted run with a study's settings, but another seed."""
    settings = replace(found.arguments, seed=seed, simulation="encrypted", rounds_per_draw=1)
    return rounds_in_memory(Coordinator(settings), simulated_nodes(counts))


def distances(
    seed: int, most_clients: int, most_classes: int, num_rounds: int
) -> tuple[float, float]:
    """Return the distances from uniform that a study predicts and an encrypted run reaches."""
    counts, wanted, equal = federation(seed, most_clients, most_classes)
    rule = Prices(noise=0.0)
    found = study(
        counts,
        num_participants=wanted,
        rule=rule,
        equal_weights=equal,
        key_bits=512,
        seed=seed,
    )
    weighted = label_distribution(counts) if equal else counts
    run = fmean(
        distance_to_uniform(global_distribution(weighted[list(plan.participants)]))
        for plan in islice(encrypted(counts, found, seed + 1), num_rounds)
    )
    return found.methods["dubhe"].distance, run


MORE = [(2, 30, 6, 100), *((seed, 300, 20, 200) for seed in range(100, 140))]


@pytest.mark.usefixtures("balance_only")
@pytest.mark.parametrize(
    ("seed", "most_clients", "most_classes", "num_rounds"),
    [(1, 30, 6, 100), *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)
def test_a_study_predicts_the_encrypted_run(
    seed: int,
    most_clients: int,
    most_classes: int,
    num_rounds: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without noise, which differs from run to run, the prediction holds within a tenth."""
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._ROUNDS", num_rounds)
    foretold, run = distances(seed, most_clients, most_classes, num_rounds)
    assert foretold == pytest.approx(run, rel=0.1, abs=0.01)  # on a scale from 0 to 2


SKEWED = np.array([[40, 9, 1], [30, 9, 0], [0, 1, 9]] * 10)


@cache
def skewed(**given: Any) -> FederationStudy:
    """Study a skewed federation with five participants, chosen as the best of five tries."""
    given = {"rule": Prices(noise=0.0), "determination": Tries(5), **given}
    return study(SKEWED, num_participants=5, key_bits=512, **given)


MILD = np.array([[30, 9, 3], [26, 9, 2], [2, 6, 12]] * 10)


@pytest.mark.usefixtures("balance_only")
@pytest.mark.parametrize(
    ("counts", "wanted", "helps", "reason"),
    [
        (SKEWED, 5, "much", ""),
        (MILD[:15], 6, "little", "15 clients leave little choice"),
        (np.full((6, 30), 3), 3, "not", "is the table transposed?"),
        (MILD, 16, "little", "Selecting 16 of 30 clients leaves little choice: select fewer"),
        ([[10, 10, 9]] * 30, 5, "not", "random selection is already balanced"),
        ([[50, 10, 1]] * 30, 5, "not", "All clients hold a similar mix"),
        (
            [[50, 10, 0], [10, 50, 0]] * 15,
            5,
            "not",
            "Even greedy selection, which sees all labels, only gets to 0.67.",
        ),
    ],
    ids=["skewed", "few", "transposed", "near", "balanced", "alike", "absent"],
)
def test_the_verdict_says_why(
    counts: NDArray[np.int64],
    wanted: int,
    helps: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The verdict and its reason follow from the numbers."""
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._ROUNDS", 40)
    found = study(
        counts,
        num_participants=wanted,
        key_bits=512,
        rule=Prices(noise=0.0),
        determination=Tries(20),
    )
    assert found.helps == helps, found.points
    assert reason in found.verdict
    assert found.verdict.count("Dubhe helps") + found.verdict.count("hardly helps") == 1


def test_no_gain_is_promised_where_chance_selects() -> None:
    """The verdict says so and names the remedy, unless all clients train anyway."""
    counts = np.eye(4, dtype=int).repeat(3, axis=0) * 40 + 1
    found = study(counts, num_participants=4)
    assert found.helps == "not"
    assert "So clients are chosen at random." in found.verdict
    assert "Tries(20)" in found.verdict
    assert "points" not in found.verdict
    assert re.search(r"\bK = 4 +- +[0-9]", str(found))
    assert "strategy = Dubhe(" not in str(found)
    assert "leaves little choice" in study(counts, num_participants=12).verdict
    tried = study(counts, num_participants=4, determination=Tries(20))
    assert "at random. To balance" not in tried.verdict


def test_points_are_predicted_only_where_the_formula_was_fitted() -> None:
    """The verdict gives points where the formula was fitted, else a range, as on the docs page."""
    found = replace(skewed(), num_classes=10, sizes=(24, 25, 26), emd=0.5)
    page = PAGE.read_text(encoding="utf-8")
    points = re.search(rf"\| {found.helps} \|.* \| (.+?) \|\n", page)
    assert points
    assert f"worth {found.points:.1f} points of accuracy" in found.verdict
    least, most = f"{min(2.7, found.points / 3):.1f}", f"{2 * found.points:.1f}"
    assert f"with this verdict gained {points[1]}." in found.verdict
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"num_classes": 9}, "you have 9 classes."),
        ({"num_clients": 301}, "you have 301 clients."),
        ({"sizes": (24, 25, 27)}, "you have clients of different sizes."),
        ({"num_classes": 9, "num_clients": 301}, "9 classes and 301 clients."),
        (
            {"num_classes": 9, "num_clients": 301, "sizes": (24, 25, 27)},
            "9 classes, 301 clients and clients of different sizes.",
        ),
    )
    for changed, reason in changes:
        other = replace(found, **changed)
        assert f"Expect {least} to {most} points" in other.verdict
        assert reason in other.verdict
    of_one_class = replace(found, methods={**found.methods, "dubhe": found.methods["random"]})
    assert "Expect -1.7 to 1.1 points" in replace(of_one_class, num_classes=9).verdict
    assert "Random selection is at least as balanced" in of_one_class.verdict
    better = replace(found.methods["dubhe"], lasting=0.0)
    loses = replace(found, num_classes=9, methods={**found.methods, "random": better})
    assert f"Expect {2 * loses.points:.1f} to 1.1 points" in loses.verdict


@pytest.mark.parametrize("helps", ["much", "not"])
def test_the_verdict_says_which_test_it_is_about(helps: str) -> None:
    """It assumes a balanced test, and says how far the federation's own mix is from one."""
    found = skewed()
    if helps == "not":
        found = replace(found, methods={**found.methods, "dubhe": found.methods["random"]})
    assert found.helps == helps
    own = SKEWED.sum(axis=0) / SKEWED.sum()
    assert found.global_emd == pytest.approx(np.abs(own - 1 / 3).sum())
    assert "every class counts the same in your test (balanced accuracy)" in found.verdict
    assert "own mix, which is 0.75 from uniform, Dubhe gains nothing" in found.verdict


def test_clients_of_different_sizes_get_a_hint_about_weights() -> None:
    """Clients of different sizes get a hint about --equal-weights, unless it is set."""
    found = skewed()
    assert "add --equal-weights" in found.verdict
    assert "equal-weights" not in replace(found, sizes=(25, 25, 25)).verdict
    equal = replace(found.arguments, equal_weights=True)
    assert "equal-weights" not in replace(found, arguments=equal).verdict


def test_other_numbers_of_participants_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other K up to half of the clients get the same figures as a study with that K."""
    assert sorted(skewed().sweep) == [5, 7, 10]  # 2 are fewer than any sum may cover
    found = study(SKEWED, num_participants=8, key_bits=512)
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._swept", lambda *_: {})
    assert sorted(found.sweep) == [4, 8, 12]  # 16 are more than half
    assert found.sweep[8] == {name: found.methods[name] for name in ("random", "dubhe")}
    other = study(SKEWED, num_participants=4, key_bits=512)
    assert found.sweep[4]["random"] == other.methods["random"]
    distances = [each.distance for each in (found.sweep[4]["dubhe"], other.methods["dubhe"])]
    assert distances[0] == pytest.approx(distances[1], rel=0.1)
    for wanted in found.sweep:
        assert f"K = {wanted}" in str(found)


def test_text_and_code_of_a_study() -> None:
    """The text fits 80 columns, a notebook displays it, and the code can be pasted."""
    found = study(SKEWED, num_participants=5, rule=Prices(coverage=1.0, noise=0.0), key_bits=512)
    assert found.code.endswith(
        "strategy = Dubhe(\n    FedAvg(),\n    num_participants=5,\n"
        "    rule=Prices(coverage=1.0, noise=0.0),\n    key_bits=512,\n)"
    )
    for each in (found, skewed()):
        pasted: dict[str, Any] = {}
        exec(each.code, pasted)  # noqa: S102 - it is to be pasted
        assert pasted["strategy"].settings == each.arguments
    assert all(len(line) <= 80 and "…" not in line for line in str(found).splitlines())
    shown = " ".join(str(found).split())
    for told in (
        "30 clients, 3 classes, 990 samples. Samples of each class: 0: 700, 1: 190, 2: 100.",
        "Smallest client: 2 with 10 samples. Largest client: 0 with 50 samples.",
        "The median client has 39 samples.",
        "The largest class has 7 times as many samples as the smallest (rho); clients differ by",
    ):
        assert told in shown
    assert "Smallest client" not in json.dumps(found.to_dict())  # the file names no client
    for told in ("random", "Dubhe", "greedy (oracle)", "with a registration", "without one"):
        assert told in str(found)
        assert told in found._repr_mimebundle_([], [])["text/html"]
    registering, other = found.costs.values()
    first = next(encrypted(SKEWED, found, 0))
    assert registering.exchanges == pytest.approx(len(first.stages), abs=1)
    # This registration may take a sum more or less than the average.
    assert registering.bytes_up == pytest.approx(first.bytes_up, rel=0.3)
    assert registering.bytes_down == pytest.approx(first.bytes_down, rel=0.3)
    assert registering.exchanges > 1 > other.exchanges  # which draws for several rounds
    assert other.messages == pytest.approx(len(SKEWED) * other.exchanges)
    assert 0 < other.node_seconds < registering.node_seconds


def test_the_cost_is_the_median_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a node that takes long nor what only the committee does changes it."""
    clock, slow = [0.0], list[ClientSession]()

    def answer_by_the_clock(session: ClientSession, request: Any) -> Any:
        slow[:] = slow or [session]
        clock[0] += 100.0 if session is slow[0] else 1.0
        return answer(session, request)

    module = "dubhe_lab.experiments.my_federation"
    monkeypatch.setattr(f"{module}._swept", lambda *_: {})
    monkeypatch.setattr(f"{module}.answer", answer_by_the_clock)
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    found = study(SKEWED, num_participants=5, key_bits=512)
    registering = found.costs["with a registration"]
    assert 1 < registering.node_seconds < registering.exchanges
    assert found.costs["without one"].node_seconds == 0.1  # one draw in ten rounds


def test_the_cost_is_measured_among_fewer_nodes_than_the_quorum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quorum is for the federation, not for the twenty nodes that measure the costs."""
    monkeypatch.setattr("dubhe_lab.experiments.my_federation._swept", lambda *_: {})
    found = study(np.diag([8] * 25), num_participants=3, quorum=25, key_bits=512)
    assert found.costs["with a registration"].messages > 25


@pytest.mark.usefixtures("balance_only")
def test_sizes_count_as_the_strategy_weighs_them() -> None:
    """A large client outweighs small ones, unless clients have equal weights."""
    counts = np.concatenate([[[900, 90]], np.tile([[0, 10], [4, 6]], (15, 1))])
    by_size, alike = (
        study(counts, num_participants=5, equal_weights=equal, key_bits=512).methods["random"]
        for equal in (False, True)
    )
    assert by_size.distance != alike.distance
    assert by_size.coverage == alike.coverage == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"num_participants": 40}, "num_participants=40 is above num_clients=30; select fewer"),
        ({"num_participants": 5, "rule": Paper((1, 2, 10))}, "is for 10 classes, but label_counts"),
        ({"num_participants": 5, "rule": Prices(target=(0.5, 0.3, 0.2))}, "leave out the target"),
        ({"num_partcipants": 5}, "study takes no num_partcipants; did you mean num_participants?"),
        ({}, "num_participants"),
    ],
)
def test_invalid_arguments_are_refused(given: dict[str, Any], sentence: str) -> None:
    """Invalid arguments are refused in one sentence before anything is selected."""
    with pytest.raises(SettingsError, match="".join(sentence.split("?"))):
        study(SKEWED, **given)


@pytest.mark.usefixtures("balance_only")
def test_a_study_takes_settings_that_real_nodes_must_allow() -> None:
    """Nodes of a study have no limits, so that cohorts of two and long keys can be studied."""
    found = study(
        np.diag([8, 8, 8, 8]), num_participants=2, min_cohort=2, rule=Paper((1, 4)), key_bits=4608
    )
    assert found.methods["dubhe"].distance == 1.0


def test_a_single_class_leaves_nothing_to_balance() -> None:
    """A table with samples of one class only is refused, and the class is named."""
    with pytest.raises(DataError, match="All samples are in the class '1', so there is nothing"):
        study([[0, 5], [0, 7], [0, 9]], num_participants=3)


def test_the_command_gives_the_functions_figures(tmp_path: Path) -> None:
    """The command gives the function's figures, and refuses options that it would ignore."""
    file, found = tmp_path / "counts.csv", tmp_path / "new" / "found.json"
    np.savetxt(file, SKEWED, fmt="%d", delimiter=",")
    own = ["--num-participants", "5", "--key-bits", "512", "--tries", "5"]
    options = ["--label-counts", str(file), "--no-heading", "--classes", "0..2", *own]
    ended = call("study", *options, "--equal-weights", "--json", str(found))
    assert ended.code == 0
    content = json.loads(found.read_text())
    wanted = skewed(rule=Prices(), equal_weights=True)
    assert wanted.verdict.partition(".")[0] in ended.out
    same = wanted.to_dict()
    for told in (content, same):
        for cost in told["costs"].values():
            del cost["node_seconds"]  # a measured time, which does not repeat
    same["sizes"] = list(same["sizes"])
    assert content == same
    refused = call("study", *options, "--emd=3")
    assert refused.code == 2
    assert "--emd is for generated federations; leave it out with --label-counts" in refused.err
    for option in ("--equal-weights", "--no-heading", "--classes=a..b", "--client-column=a"):
        sentence = f"{option.partition('=')[0]} is for --label-counts; leave it out in generated"
        assert sentence in call("study", option).err
    same_file = call("study", *options, "--json", str(file))
    assert "name another file with --json" in same_file.err
    assert np.loadtxt(file, delimiter=",").shape == SKEWED.shape


LONG = "site,kind\n" + "\n".join(
    f"{row},{kind}"
    for row, counts in enumerate(SKEWED)
    for kind, number in zip("abc", counts, strict=True)
    for _ in range(number)
)


@pytest.mark.usefixtures("balance_only")
def test_options_say_how_to_read_a_table(tmp_path: Path) -> None:
    """Arguments and options say how to read a table, and both report what was read."""
    file = tmp_path / "counts.csv"
    file.write_text(LONG)
    own = ["study", "--label-counts", str(file), "--num-participants", "5", "--key-bits", "512"]
    ended = call(*own, "--client-column=site", "--label-column=kind")
    assert ended.code == 0
    shown = " ".join(ended.out.split())
    assert "Samples of each class: a: 700, b: 190, c: 100." in shown
    refused = call(*own, "--client-column=site", "--label-column=kind", "--num-participants=40")
    assert refused.out.startswith("30 clients, 3 classes, 990 samples.")  # before it selects
    assert "num_participants=40 is above" in refused.err
    found = study(file, num_participants=5, key_bits=512, client_column="site", label_column="kind")
    assert found.read.startswith("30 clients, 3 classes, 990 samples. ")
