"""Tests of the calibration: nodes tell moments, an agent solves, or else eq. 6 rules."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol.federation import (
    Federation,
    decrypted,
    dubhe,
    encrypted,
    epoch_of,
    secret_key,
    session_state,
    skewed_counts,
)
from protocol.plain import plain_probability

from dubhe_flwr.core import (
    FIXED_POINT_SCALE,
    calibrated_probability,
    fixed_point_distribution,
    generator,
    moments,
    overall_registry,
    participation_probability,
    with_square,
)
from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol import (
    Batch,
    CoordinatorState,
    NodeFailure,
    Plan,
    Settings,
    Stage,
    StageReport,
)
from dubhe_flwr.protocol.messages import CalibrateRequest

NUM_CLIENTS = 14
COUNTS = skewed_counts(NUM_CLIENTS, num_classes=3)
THRESHOLDS = {1: 0.6}
SETTINGS: dict[str, Any] = {
    "num_participants": 4,
    "reference_set": (1, 3),
    "thresholds": THRESHOLDS,
    "tries": 3,
    "max_clients": 20,
    "participation": "calibrated",
    "coverage": 0.2,
}
CODEBOOK = Settings(**SETTINGS).codebook
OVERALL, SLOTS = overall_registry(COUNTS, CODEBOOK, THRESHOLDS)
GAVE_UP = "The nodes take part by the paper's rule."


def federation(**overrides: Any) -> Federation[CoordinatorState]:
    """Return nodes and a server that calibrates."""
    return dubhe(COUNTS, **SETTINGS | overrides)


def report_of(plan: Plan, stage: Stage, position: int = 0) -> StageReport:
    """Return the report of a stage."""
    return [report for report in plan.stages if report.stage == stage][position]


def asked(nodes: Federation[CoordinatorState], stage: Stage) -> list[int]:
    """Return the nodes that were asked at a stage, in order."""
    return [exchange.node_id for exchange in nodes.exchanges if exchange.stage == stage]


def agents_in_turn(nodes: Federation[CoordinatorState], first_round: int = 1) -> list[int]:
    """Return the nodes in the order in which they are asked to calibrate."""
    order = generator(7, "calibrate", first_round).permutation(len(nodes.ids))
    return [nodes.ids[row] for row in order]


def probabilities(nodes: Federation[CoordinatorState]) -> NDArray[np.float64]:
    """Return the probability with which each node draws."""
    return np.array([session_state(nodes, node_id).probability for node_id in nodes.ids])


def paper_probability() -> NDArray[np.float64]:
    """Return the probability of each client by eq. 6."""
    return participation_probability(OVERALL, 4)[SLOTS]


def expected_of(answered: list[int]) -> NDArray[np.float64]:
    """Return the calibrated probabilities if only these clients told their moments."""
    sums = np.zeros((CODEBOOK.length, 4))
    fixed = np.array([with_square(fixed_point_distribution(row)) for row in COUNTS])
    for slot, number in enumerate(OVERALL.tolist()):
        members = [row for row in answered if SLOTS[row] == slot]
        if number >= 3 and len(members) >= 3:
            sums[slot] = fixed[members].sum(axis=0) * number / len(members)
        elif number:
            classes = list(CODEBOOK.unrank(slot))
            sums[slot, [*classes, -1]] = FIXED_POINT_SCALE * number / len(classes)
    by_category = calibrated_probability(OVERALL, sums, 4, coverage=0.2)
    return np.asarray(by_category[SLOTS])


def test_the_example_has_categories_of_all_kinds() -> None:
    """Empty, too small to tell anything, and large enough: each occurs in these tests."""
    assert {0 < number < 3 for number in OVERALL.tolist()} == {True, False}
    assert OVERALL.max() > 4


def lost(_reply: Any) -> None:
    """Lose a reply."""


FAULTS: list[tuple[Any, str]] = [
    (lost, "no reply"),
    (lambda _r: NodeFailure("out of memory"), "error reply"),
    (lambda _r: {}, "MalformedMessageError"),
    (lambda r: {**r, "label": 3}, "MalformedMessageError"),
    (lambda r: {**r, "stage": "register"}, "MalformedMessageError"),
    (lambda r: {**r, "epoch": bytes(16)}, "StaleMessageError"),
    (lambda r: {**r, "sequence": r["sequence"] - 1}, "StaleMessageError"),
]


def unfit(numbers: Any) -> Any:
    """Return how to put such numbers in place of the first ciphertext of a reply."""

    def spoil(reply: dict[str, Any], nodes: Federation[CoordinatorState]) -> dict[str, Any]:
        (name,) = {"moments", "probabilities"} & set(reply)
        key = secret_key(session_state(nodes, nodes.ids[0]))
        number = numbers(key.public_key.n, int.from_bytes(key.to_bytes(), "big"))
        return {**reply, name: number.to_bytes(128, "big") + reply[name][128:]}

    return spoil


NO_CIPHERTEXTS = [
    unfit(lambda _n, _p: 0),
    unfit(lambda n, _p: n),
    unfit(lambda n, _p: n * n),
    unfit(lambda _n, p: 5 * p),
    unfit(lambda _n, _p: 2**1024 - 1),
]


class TestMoments:
    """Each node tells its moments once in an epoch; what is unfit is left out."""

    def test_the_stages_of_an_epoch(self) -> None:
        """Calibration comes between registration and the first draw, once in an epoch."""
        nodes = federation(registration_interval=2)
        first = ["join", "keygen", "register", "moments", "calibrate"]
        for server_round in range(1, 5):
            nodes.exchanges.clear()
            plan = nodes.play(server_round)
            begins = first if server_round % 2 else []
            assert [r.stage for r in plan.stages] == [*begins, "participate", "determine"]
            assert all(report.dropped == {} for report in plan.stages)
            assert plan.notes == ()
            assert asked(nodes, Stage.MOMENTS) == (nodes.ids if begins else [])
            np.testing.assert_array_equal(
                probabilities(nodes), plain_probability(Settings(**SETTINGS), COUNTS)
            )

    def test_only_where_the_operator_wants_it(self) -> None:
        """By the paper's rule nobody is asked for moments, and no probabilities travel."""
        nodes = federation(participation="paper")
        nodes.play(1)
        assert nodes.stages() == ["join", "keygen", "register", "participate", "determine"]
        requests = [e.request for e in nodes.exchanges if e.stage == Stage.PARTICIPATE]
        assert {request["probabilities"] for request in requests} == {b""}
        np.testing.assert_array_equal(probabilities(nodes), paper_probability())
        assert np.abs(paper_probability() - plain_probability(Settings(**SETTINGS), COUNTS)).max()

    def test_the_agent_gets_the_sum_of_all(self) -> None:
        """It decrypts to the sum of what each client adds to its category."""
        nodes = federation()
        nodes.play(1)
        (exchange,) = [e for e in nodes.exchanges if e.stage == Stage.CALIBRATE]
        assert exchange.request["num-clients"] == exchange.request["num-registered"] == 14
        assert exchange.request["overall-registry"] == epoch_of(nodes).overall_registry
        tables = [
            moments(fixed_point_distribution(row), int(slot), OVERALL, CODEBOOK, 3)
            for row, slot in zip(COUNTS, SLOTS, strict=True)
        ]
        state, sums = session_state(nodes, exchange.node_id), exchange.request["moments"]
        assert isinstance(sums, bytes)
        decrypted_sums = decrypted(state, "moments", sums)
        np.testing.assert_array_equal(decrypted_sums, np.sum(tables, axis=0).ravel())

    @pytest.mark.parametrize(("spoil", "reason"), FAULTS)
    def test_some_moments_are_lost(self, spoil: Any, reason: str) -> None:
        """Those of the others are scaled up, and the silent nodes take part all the same."""
        nodes = federation(num_participants=4)
        silent = [1, 4, 9]
        victims = {nodes.ids[row] for row in silent}
        nodes.alter_reply = lambda stage, node_id, reply: (
            spoil(reply) if stage == Stage.MOMENTS and node_id in victims else reply
        )
        plan = nodes.play(1)
        report = report_of(plan, Stage.MOMENTS)
        assert (report.sent, report.accepted, report.dropped) == (14, 11, {reason: 3})
        assert (plan.notes, len(plan.participants)) == ((), 4)
        (exchange,) = [e for e in nodes.exchanges if e.stage == Stage.CALIBRATE]
        assert exchange.request["num-clients"] == 11
        answered = [row for row in range(NUM_CLIENTS) if row not in silent]
        np.testing.assert_allclose(probabilities(nodes), expected_of(answered), atol=1e-6)
        assert nodes.errors == []

    @settings(max_examples=15)
    @given(answered=st.sets(st.integers(0, NUM_CLIENTS - 1), min_size=3))
    def test_whoever_answers(self, answered: set[int]) -> None:
        """A category of which fewer than a cohort answered counts as its dominating classes."""
        nodes = federation()
        heard = {nodes.ids[row] for row in answered}
        nodes.alter_request = lambda stage, node_id, request: (
            None if stage == Stage.MOMENTS and node_id not in heard else request
        )
        plan = nodes.play(1)
        assert (plan.notes, nodes.errors) == ((), [])
        np.testing.assert_allclose(probabilities(nodes), expected_of(sorted(answered)), atol=1e-6)

    @pytest.mark.parametrize("num_unfit", [1, 11])
    def test_what_is_no_ciphertext_is_left_out(self, num_unfit: int) -> None:
        """Out of range or no unit, in one or in nearly all: the others calibrate."""
        nodes = federation()
        batch = nodes.until(Stage.MOMENTS)
        replies: Any = nodes.deliver(batch)
        for row, node_id in enumerate(nodes.ids[:num_unfit]):
            spoil = NO_CIPHERTEXTS[row % len(NO_CIPHERTEXTS)]
            replies[node_id] = spoil(replies[node_id], nodes)
        outcome = nodes.step(replies)
        assert isinstance(outcome, Batch)
        report = nodes.state.stages[-1]
        assert report.dropped == {"invalid ciphertext": num_unfit}
        assert report.accepted == NUM_CLIENTS - num_unfit
        (request,) = outcome.requests.values()
        assert isinstance(request, CalibrateRequest)
        assert request.num_clients == NUM_CLIENTS - num_unfit
        nodes.step(nodes.deliver(outcome))
        assert epoch_of(nodes).probabilities
        assert nodes.errors == []

    @pytest.mark.parametrize("spoil", [lambda m: m[1:], lambda m: m + m, lambda _m: b""])
    def test_moments_of_another_size_are_left_out(self, spoil: Any) -> None:
        """The size is fixed by the parameters."""
        nodes = federation()
        nodes.alter_reply = lambda stage, node_id, reply: (
            {**reply, "moments": spoil(reply["moments"])}
            if (stage, node_id) == (Stage.MOMENTS, nodes.ids[3])
            else reply
        )
        plan = nodes.play(1)
        assert report_of(plan, Stage.MOMENTS).dropped == {"wrong size of ciphertexts": 1}
        assert plan.notes == ()

    @pytest.mark.parametrize("num_left", [0, 2])
    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            (lambda _r, _nodes: None, "no reply"),
            (NO_CIPHERTEXTS[0], "invalid ciphertext"),
            (lambda r, _nodes: {**r, "moments": b""}, "wrong size of ciphertexts"),
        ],
    )
    def test_too_few_moments(self, spoil: Any, reason: str, num_left: int) -> None:
        """Below a cohort no agent is asked; the nodes draw by eq. 6, and the plan says so."""
        nodes = federation()
        kept = nodes.ids[:num_left]
        nodes.alter_reply = lambda stage, node_id, reply: (
            spoil(reply, nodes) if stage == Stage.MOMENTS and node_id not in kept else reply
        )
        plan = nodes.play(1)
        assert plan.notes == (f"Too few moments came to calibrate. {GAVE_UP}",)
        assert report_of(plan, Stage.MOMENTS).dropped == {reason: NUM_CLIENTS - num_left}
        assert asked(nodes, Stage.CALIBRATE) == []
        assert epoch_of(nodes).probabilities == b""
        assert len(plan.participants) == 4
        np.testing.assert_array_equal(probabilities(nodes), paper_probability())
        assert nodes.play(2).notes == ()
        assert asked(nodes, Stage.MOMENTS) == nodes.ids

    @pytest.mark.parametrize(("num_left", "enough"), [(4, True), (3, False)])
    def test_a_cohort_is_as_large_as_the_operator_says(self, num_left: int, enough: bool) -> None:
        """`min_cohort` is the least number of moments."""
        nodes = federation(min_cohort=4)
        nodes.alter_request = lambda stage, node_id, request: (
            None if stage == Stage.MOMENTS and node_id not in nodes.ids[:num_left] else request
        )
        assert (nodes.play(1).notes == ()) == enough


class TestAgents:
    """One agent calibrates, another one if it fails, and at last nobody does."""

    def test_agents_are_drawn_by_the_seed(self) -> None:
        """Other seeds and other epochs ask other nodes."""
        nodes = federation(registration_interval=1)
        agents = set()
        for server_round in range(1, 9):
            nodes.exchanges.clear()
            nodes.play(server_round)
            assert asked(nodes, Stage.CALIBRATE) == agents_in_turn(nodes, server_round)[:1]
            agents |= set(asked(nodes, Stage.CALIBRATE))
        assert len(agents) > 3
        other = federation(seed=8)
        other.play(1)
        assert asked(other, Stage.CALIBRATE) != agents_in_turn(other)[:1]

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            *((lambda reply, _nodes, s=spoil: s(reply), reason) for spoil, reason in FAULTS),
            *((spoil, "invalid ciphertext") for spoil in NO_CIPHERTEXTS),
            (lambda r, _n: {**r, "probabilities": b""}, "invalid ciphertext"),
            (lambda r, _n: {**r, "probabilities": r["probabilities"][1:]}, "invalid ciphertext"),
            (lambda r, _n: {**r, "probabilities": r["probabilities"] * 2}, "invalid ciphertext"),
        ],
    )
    def test_an_agent_that_fails_is_replaced(self, spoil: Any, reason: str) -> None:
        """The next one in turn gets the same request, and its probabilities count."""
        nodes = federation()
        first, second, *_ = agents_in_turn(nodes)
        nodes.alter_reply = lambda stage, node_id, reply: (
            spoil(reply, nodes) if (stage, node_id) == (Stage.CALIBRATE, first) else reply
        )
        plan = nodes.play(1)
        assert asked(nodes, Stage.CALIBRATE) == [first, second]
        assert report_of(plan, Stage.CALIBRATE).dropped == {reason: 1}
        assert report_of(plan, Stage.CALIBRATE, 1).accepted == 1
        assert plan.notes == ("An agent did not calibrate.",)
        one, other = [e.request for e in nodes.exchanges if e.stage == Stage.CALIBRATE]
        assert one | {"sequence": 0} == other | {"sequence": 0}
        expected = plain_probability(Settings(**SETTINGS), COUNTS)
        np.testing.assert_array_equal(probabilities(nodes), expected)

    @pytest.mark.parametrize("spoil", [lost, NO_CIPHERTEXTS[1]])
    def test_who_told_no_moments_is_asked_last(self, spoil: Any) -> None:
        """It would cost another timeout; the others are asked in the order of the seed."""
        nodes = federation(agent_attempts=50)
        silent = agents_in_turn(nodes)[:4]

        def alter(stage: str, node_id: int, reply: Any) -> Any:
            if stage == Stage.CALIBRATE:
                return None
            if stage != Stage.MOMENTS or node_id not in silent:
                return reply
            return None if spoil is lost else spoil(reply, nodes)

        nodes.alter_reply = alter
        nodes.play(1)
        assert asked(nodes, Stage.CALIBRATE) == [*agents_in_turn(nodes)[4:], *silent]

    @pytest.mark.parametrize(("attempts", "number"), [(1, 1), (3, 3), (50, NUM_CLIENTS)])
    def test_at_last_the_papers_rule_is_taken(self, attempts: int, number: int) -> None:
        """After so many attempts, or when every node was asked, nodes draw by eq. 6."""
        nodes = federation(agent_attempts=attempts)
        nodes.alter_reply = lambda stage, _n, reply: None if stage == Stage.CALIBRATE else reply
        plan = nodes.play(1)
        assert asked(nodes, Stage.CALIBRATE) == agents_in_turn(nodes)[:number]
        assert plan.notes == (
            *["An agent did not calibrate."] * number,
            f"No agent calibrated. {GAVE_UP}",
        )
        np.testing.assert_array_equal(probabilities(nodes), paper_probability())
        # The agents of the round are asked as often as if nobody had failed before.
        assert len(asked(nodes, Stage.DETERMINE)) == 1
        nodes.exchanges.clear()
        assert nodes.play(2).notes == ()
        assert nodes.stages() == ["participate", "determine"]

    @pytest.mark.parametrize("factor", [0, 2])
    def test_one_false_reply_costs_the_calibration_of_an_epoch(self, factor: int) -> None:
        """No agent can tell whose it is, and all refuse; the next epoch is calibrated again."""
        nodes = federation(registration_interval=1)
        liar = agents_in_turn(nodes)[-1]

        def alter(stage: str, node_id: int, reply: Any) -> Any:
            if (stage, node_id) != (Stage.MOMENTS, liar):
                return reply
            state = session_state(nodes, liar)
            table = decrypted(state, "moments", reply["moments"])
            return {**reply, "moments": encrypted(state, "moments", table * factor)}

        nodes.alter_reply = alter
        plan = nodes.play(1)
        assert plan.notes == (
            *["An agent did not calibrate."] * 3,
            f"No agent calibrated. {GAVE_UP}",
        )
        assert {type(error) for error in nodes.errors} == {RefusedError}
        np.testing.assert_array_equal(probabilities(nodes), paper_probability())
        nodes.alter_reply = lambda _s, _n, reply: reply
        assert nodes.play(2).notes == ()
        assert epoch_of(nodes).probabilities

    def test_the_attempts_of_other_stages_do_not_count(self) -> None:
        """Agents that made no key leave all attempts to calibrate."""
        nodes = federation(agent_attempts=3)
        failures: list[str] = []

        def lose_two(stage: str, _node_id: int, reply: Any) -> Any:
            failing = stage in {Stage.KEYGEN, Stage.CALIBRATE, Stage.DETERMINE}
            if failing and failures.count(stage) < 2:
                failures.append(stage)
                return None
            return reply

        nodes.alter_reply = lose_two
        plan = nodes.play(1)
        assert epoch_of(nodes).probabilities
        assert nodes.state.rounds[1].agent is not None
        assert plan.notes == (
            *["An agent made no key; another one is asked."] * 2,
            *["An agent did not calibrate."] * 2,
            *["An agent did not determine."] * 2,
        )


class TestGivenUp:
    """A calibration whose batch never came back is begun anew with another registration."""

    @pytest.mark.parametrize("stage", [Stage.MOMENTS, Stage.CALIBRATE])
    def test_nobody_is_asked_for_moments_twice_in_an_epoch(self, stage: Stage) -> None:
        """Sums over different clients under one key would tell their difference."""
        nodes = federation()
        nodes.deliver(nodes.until(stage))
        unfinished = epoch_of(nodes).identity
        plan = nodes.play(2, nodes.ids[:11])
        assert plan.epoch != unfinished
        assert [r.stage for r in plan.stages][:4] == ["join", "keygen", "register", "moments"]
        told = [(e.node_id, e.request["epoch"]) for e in nodes.exchanges if e.stage == "moments"]
        assert len(set(told)) == len(told)
        assert (plan.num_registered, plan.notes, nodes.errors) == (11, (), [])

    def test_a_step_can_be_repeated_from_a_stored_state(self) -> None:
        """The same replies to the same state give the same outcome, at every stage."""
        nodes = federation(
            determination="grouped",
            num_participants=3,
            group_size=3,
            thresholds="search",
            block_size=4,
        )
        outcome = nodes.begin(1)
        stages = []
        while isinstance(outcome, Batch):
            stages.append(outcome.header.stage)
            stored, replies = nodes.state, nodes.deliver(outcome)
            outcome = nodes.step(replies)
            assert nodes.selector.step(stored, replies)[1] == outcome
        assert stages == list(Stage)[1:]


def test_as_many_volunteer_as_train() -> None:
    """Calibrated probabilities add up to K, between the floor and certainty."""
    nodes = federation()
    nodes.play(1)
    found = probabilities(nodes)
    assert found.min() + 1e-6 >= 0.1 * 4 / NUM_CLIENTS
    assert found.max() <= 1.0
    assert found.sum() == pytest.approx(4, abs=1e-4)
