"""Tests of the arguments that the strategies of both APIs take and refuse."""

from collections.abc import Sequence
from copy import deepcopy
from inspect import signature
from typing import Any

import pytest
from apis import FIT, TRAIN, Api, in_both_apis

from dubhe_flwr.adapter.arguments import Options
from dubhe_flwr.clientapp import register_dubhe
from dubhe_flwr.errors import SettingsError
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.rules import Prices
from dubhe_lab.baselines import RandomSelector


@in_both_apis
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"equal_weights": "no"}, r"equal_weights='no' must be True or False"),
        ({"wait_timeout": -1}, "wait_timeout=-1 must be a number of seconds, at least 0"),
        ({"wait_timeout": None}, "wait_timeout=None must be a number of seconds, at least 0"),
        ({"wait_timeout": float("nan")}, "wait_timeout=nan must be a number of seconds"),
        ({"wait_timeout": float("inf")}, "wait_timeout=inf must be a number of seconds"),
        *(
            ({"stage_timeout": value}, f"stage_timeout={value!r} must be .* above 0, or None")
            for value in (0, -0.5, "60")
        ),
        ({"expected_nodes": -3}, "expected_nodes=-3 must be a whole number, at least 0"),
        ({"expected_nodes": "20"}, "expected_nodes='20' must be a whole number, at least 0"),
        ({"expected_nodes": 2.5}, "expected_nodes=2.5 must be a whole number, at least 0"),
        ({"checkpoint_dir": 5}, "checkpoint_dir=5 must be the path of a folder"),
        ({"min_cohort": 21}, "num_participants=20 is below min_cohort=21"),
        ({"quorums": 5}, r"RecordedDubhe takes no quorums; did you mean quorum\?"),
        ({"wait_timout": 5}, r"takes no wait_timout; did you mean wait_timeout\?"),
        ({"zzz": 5}, "RecordedDubhe takes no zzz; choose from num_participants, rule"),
        ({"local_skew": 1}, r"it belongs to the rule, as in rule=Prices\(local_skew=\.\.\.\)\."),
    ],
)
def test_an_argument_that_cannot_work_is_refused(api: Api, change: Any, sentence: str) -> None:
    """A value that cannot work is refused before the first message."""
    with pytest.raises(SettingsError, match=sentence):
        api.dubhe(**{"num_participants": 20, **change})


@in_both_apis
def test_missing_and_unknown_arguments_are_named(api: Api) -> None:
    """The error names the argument and the class that the operator wrote."""
    with pytest.raises(SettingsError, match=r"Dubhe was called wrongly: missing .*'num_particip"):
        api.ours.Dubhe(api.wrapped())
    with pytest.raises(
        SettingsError, match=r"too many positional arguments; pass strategy first, and the rest"
    ):
        api.ours.Dubhe(api.wrapped(), 20)
    with pytest.raises(SettingsError, match=r"Selection was called wrongly: missing .*'selector'"):
        api.ours.Selection(api.wrapped())


@in_both_apis
def test_help_and_editors_see_all_arguments(api: Api) -> None:
    """The constructor's signature has each field of both dataclasses once, with its default."""
    parameters = signature(api.ours.Dubhe).parameters
    settings, options = signature(Settings).parameters, signature(Options).parameters
    assert set(parameters) == {"strategy", *settings, *options}
    assert parameters["quorum"].default == settings["quorum"].default
    assert list(signature(api.ours.Selection).parameters) == ["strategy", "selector", *options]
    assert {"app", "label_counts", "willing"} < set(signature(register_dubhe).parameters)


@in_both_apis
def test_defaults(api: Api) -> None:
    """By default K nodes are expected, the rule is prices, and clients keep their weights.

    Flower's strategies start once a minimum of nodes is connected, and Dubhe waits for them.
    """
    strategy = api.ours.Dubhe(api.wrapped(), num_participants=20, stage_timeout=None)
    assert strategy.driver.expected_nodes == 20
    assert strategy.driver.options.stage_timeout is None
    assert not strategy.driver.options.equal_weights
    assert isinstance(strategy.settings.rule, Prices)
    wrapped = api.private("ServerSideFixed", api.wrapped(**api.wanting(least=50)))
    for given, expected in ((None, 50), (0, 0), (8, 8)):
        assert api.dubhe(wrapped, expected_nodes=given).driver.expected_nodes == expected


@in_both_apis
def test_a_strategy_can_be_copied(api: Api) -> None:
    """A copy selects by itself, with the same settings."""

    class Careful(api.ours.Dubhe):  # type: ignore[misc,name-defined]
        def eligible(self, server_round: int, node_ids: Sequence[int]) -> Sequence[int]:
            return node_ids

    strategy = Careful(api.wrapped(), num_participants=20)
    copied = deepcopy(strategy)
    assert copied.settings == strategy.settings
    assert copied.strategy is not strategy.strategy
    assert copied.driver._own_eligible().__self__ is copied


@in_both_apis
def test_unfit_strategy_is_refused(api: Api) -> None:
    """The error says what to do, and tells the two APIs apart, since both have a FedAvg."""
    of_the_other_api = (TRAIN if api.is_fit else FIT).wrapped()
    for wrapped, sentence in (
        (of_the_other_api, r"FedAvg of flwr.* has no configure_.*flwr\.serverapp"),
        (api.flower.FedAvg, r"FedAvg is a class; .* such as FedAvg\(\)"),
        (api.dubhe(), "RecordedDubhe already selects; wrap the strategy"),
        (api.flower.FedXgbCyclic(), "FedXgbBagging"),
        (3, r"int of builtins has no configure_(fit|train)"),
        ("FedAvg", r"str of builtins has no configure_(fit|train)"),
    ):
        with pytest.raises(SettingsError, match=sentence):
            api.dubhe(wrapped)
    with pytest.raises(SettingsError, match="NoneType of builtins has no configure_"):
        api.ours.Dubhe(None, num_participants=3)
    for selector in (20, RandomSelector):
        with pytest.raises(SettingsError, match=r"is not a Selector; .* or use Dubhe"):
            api.ours.Selection(api.wrapped(), selector)
