"""Tests of what wrapping a strategy checks of its arguments, in either API."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import flwr.server.strategy
import flwr.serverapp.strategy
import pytest
from flwr.server.strategy import FedAvg

from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol import Plan
from dubhe_flwr.protocol.plan import StageReport
from dubhe_flwr.server import Dubhe
from dubhe_flwr.serverapp import Dubhe as MessageDubhe


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"evaluate_on": "none"}, r"evaluate_on='none' must be one of \('all', 'selected'\)"),
        ({"wait_timeout": -1}, "wait_timeout=-1 must be a number of seconds from 0 up"),
        ({"wait_timeout": None}, "wait_timeout=None must be a number of seconds from 0 up"),
        ({"wait_timeout": float("nan")}, "wait_timeout=nan must be a number of seconds"),
        ({"wait_timeout": float("inf")}, "wait_timeout=inf must be a number of seconds"),
        ({"stage_timeout": -0.5}, "stage_timeout=-0.5 must be a number of seconds from 0 up"),
        ({"stage_timeout": "60"}, "stage_timeout='60' must be a number of seconds from 0 up"),
        ({"stage_timeout": float("nan")}, "stage_timeout=nan must be a number of seconds"),
        ({"expected_nodes": -3}, "expected_nodes=-3 must be a whole number from 0 up"),
        ({"expected_nodes": "20"}, "expected_nodes='20' must be a whole number from 0 up"),
        ({"checkpoint_dir": 5}, "checkpoint_dir=5 must be the path of a folder"),
        ({"triess": 5}, r"triess is no setting; did you mean tries\?"),
        ({"zzz": 5}, "zzz is no setting; choose from num_participants"),
        ({"expected_nodes": 2.5}, "expected_nodes=2.5 must be a whole number from 0 up"),
    ],
)
def test_an_argument_that_cannot_work_is_refused(change: dict[str, Any], sentence: str) -> None:
    """Before the first message, and not by waiting for ever."""
    with pytest.raises(SettingsError, match=sentence):
        Dubhe(FedAvg(), num_participants=20**change)


@pytest.mark.parametrize("expected_nodes", [None, 0])
def test_nodes_are_expected_as_many_as_are_selected(expected_nodes: int | None) -> None:
    """Unless more are named; and no time for a stage means to wait for ever."""
    strategy = Dubhe(
        FedAvg(),
        num_participants=20,
        expected_nodes=expected_nodes,
        stage_timeout=None,
        wait_timeout=0,
    )
    assert strategy.expected_nodes == 20
    assert strategy.stage_timeout is None


def test_eligible_without_a_return_is_refused() -> None:
    """An override that forgot its return does not quietly mean all nodes."""

    class Forgetful(Dubhe):
        def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]:
            del server_round, node_ids
            return None  # type: ignore[return-value]

    strategy = Forgetful(FedAvg(), num_participants=20)
    with pytest.raises(SettingsError, match=r"eligible\(\) returned nothing"):
        strategy._select(1, list(range(30)), lambda _batch: {})


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(Dubhe, flwr.serverapp.strategy.FedAvg), (MessageDubhe, flwr.server.strategy.FedAvg)],
)
def test_a_strategy_of_the_other_api_is_refused(ours: Any, theirs: Any) -> None:
    """Both APIs have a FedAvg, and both of ours are called Dubhe; the sentence tells them apart."""
    with pytest.raises(SettingsError, match=r"FedAvg of flwr.* has no configure_.*flwr\.serverapp"):
        ours(theirs(), num_participants=20)


@pytest.mark.parametrize(
    ("dubhe", "wrapped"),
    [(Dubhe, FedAvg), (MessageDubhe, flwr.serverapp.strategy.FedAvg)],
    ids=["fit", "train"],
)
def test_a_class_is_no_strategy(dubhe: Any, wrapped: type) -> None:
    """Forgotten parentheses are named when the strategy is made."""
    with pytest.raises(SettingsError, match=r"FedAvg is a class; .* such as FedAvg\(\)"):
        dubhe(wrapped, num_participants=3)


@pytest.mark.parametrize(
    ("dubhe", "wrapped"),
    [(Dubhe, FedAvg), (MessageDubhe, flwr.serverapp.strategy.FedAvg)],
    ids=["fit", "train"],
)
def test_clients_are_selected_once(dubhe: Any, wrapped: type) -> None:
    """One strategy that selects is not wrapped in another."""
    inner = dubhe(wrapped(), num_participants=3)
    with pytest.raises(SettingsError, match="Dubhe selects already; wrap the strategy"):
        dubhe(inner, num_participants=3)


@pytest.mark.parametrize("wrapped", [None, "FedAvg", 3])
@pytest.mark.parametrize("dubhe", [Dubhe, MessageDubhe])
def test_what_is_no_strategy_is_refused(dubhe: Any, wrapped: object) -> None:
    """A name or nothing in the place of a strategy is named, with what is missing."""
    with pytest.raises(SettingsError, match=r"has no configure_(fit|train)"):
        dubhe(wrapped, num_participants=3)


def test_a_registration_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The line before that of the round tells a new epoch and how many nodes are in it."""
    report = StageReport("register", 4, 4, {}, bytes_down=0, bytes_up=0)
    plan = Plan(1, (1, 2, 3), ("1", "2", "3"), stages=(report,), num_registered=4)
    strategy = Dubhe(FedAvg(), num_participants=3)
    with caplog.at_level("INFO", logger="flwr"):
        strategy.log_plan(plan, 1.0)
    assert caplog.messages[-2] == "dubhe: a new epoch: 4 nodes"
    caplog.clear()
    with caplog.at_level("INFO", logger="flwr"):
        strategy.log_plan(replace(plan, stages=()), 1.0)
    assert not [line for line in caplog.messages if "epoch" in line]


def test_losses_are_logged_before_the_line_they_belong_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the singular where there is one."""
    report = StageReport("register", 4, 1, {"no reply": 1, "late": 2}, bytes_down=0, bytes_up=0)
    plan = Plan(1, (1, 2, 3), ("1", "2", "3"), stages=(report,), notes=("something is odd",))
    with caplog.at_level("INFO", logger="flwr"):
        Dubhe(FedAvg(), num_participants=3).log_plan(plan, 1.0)
    assert caplog.messages[-4:-1] == [
        "dubhe: register: 1 reply dropped: no reply",
        "dubhe: register: 2 replies dropped: late",
        "dubhe: something is odd",
    ]
    assert "3 of 0 clients selected in 1.00 s" in caplog.messages[-1]
