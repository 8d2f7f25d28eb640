"""Tests of the interface of rules: a name on the wire, settings, and defaults."""

from math import inf
from typing import Any

import numpy as np
import pytest
from protocol.nodes import Exchanges

from dubhe_flwr.errors import RefusedError, SettingsError
from dubhe_flwr.protocol.rules.rule import announced_rule
from dubhe_flwr.protocol.settings import Settings
from dubhe_flwr.protocol.wire.terms import terms_of
from dubhe_flwr.rules import Frame, Own, Population, Prices, Rule, Settled, Unsettled, register_rule

NAME = Exchanges.name


@pytest.mark.parametrize(
    "rule",
    [
        Exchanges(2, 0.5),
        Prices(1, 2),
        Prices(np.float64(0.5), target=np.array([0.75, 0.25])),  # type: ignore[arg-type]
    ],
)
def test_a_rule_is_announced_by_name_and_settings(rule: Rule) -> None:
    """The other side rebuilds an equal rule from them, even from NumPy numbers."""
    found = announced_rule(rule.name, rule.to_json())
    assert type(found) is type(rule)
    assert found.to_json() == rule.to_json()
    assert (found.num_classes, found.local_skew) == (rule.num_classes, rule.local_skew)


def test_an_unknown_rule_is_refused() -> None:
    """The error names the remedy, and quotes no more of a long name than fits a log."""
    with pytest.raises(RefusedError, match="is not known here; import the module that") as caught:
        announced_rule("x" * 10_000, "{}")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((NAME, told) for told in ("", "[]", "null", "[" * 2**15, "9" * 5000)),
        *((NAME, told) for told in ('{"31415": 1}', '{"number": "31415"}', '{"number": -1}')),
        *(("paper", told) for told in ("{}", '{"reference_set": [1], "thresholds": [31415]}')),
        # Beyond any float, for which a rule raises another error.
        ("prices", f'{{"coverage": {10**400}}}'),
        ("prices", f'{{"target": [{10**400}, 0]}}'),
    ],
)
def test_settings_that_cannot_work_are_refused_without_a_detail(name: str, settings: str) -> None:
    """Every cause gives the same sentence."""
    with pytest.raises(RefusedError, match=f"^The settings of the rule '{name}' are invalid.$"):
        announced_rule(name, settings)


def test_two_rules_cannot_share_a_name() -> None:
    """Another class is refused; the same class may come again, as on a reload of its module."""
    with pytest.raises(SettingsError, match=f"named {NAME!r} already exists; choose another name"):
        register_rule(type("Other", (Exchanges,), {}))
    places = {name: getattr(Exchanges, name) for name in ("__module__", "__qualname__")}
    again = type("Exchanges", (Exchanges,), places)
    for rule in (again, Exchanges):
        assert register_rule(rule) is rule
        assert type(announced_rule(NAME, "{}")) is rule


def test_a_rule_works_with_a_registration_alone() -> None:
    """Any number of classes, no further exchange, no price, and a text for the log."""
    rule = Exchanges()
    assert (rule.num_classes, Rule.local_skew.fget(rule)) == (None, 0.0)  # type: ignore[attr-defined]
    frame = Frame(4, 9)
    assert (Rule.settlement_slots(rule, frame), Rule.num_sums(rule, frame)) == (None, 1)
    assert (rule.target, rule.hides_clients) == (None, False)
    population = Population(frame, 9, 3, 9)
    assert (rule.can_continue(population), rule.heaviest) == (False, inf)
    assert (rule.sum_budget(population), rule.privacy(population, 1)) == (None, None)
    with pytest.raises(RefusedError, match="cannot continue an earlier registration period"):
        rule.continued(Own(np.ones(4, int)), population, (0.5,))
    assert rule.describe((0.5,)) == repr(rule)
    assert rule.to_json() == '{"local_skew": 0.0, "number": 0}'


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"determination": 20}, r"determination=20 must be a Tries .*such as Tries\(20\)"),
        ({"vault": "comittee"}, "vault='comittee' must be 'paillier' or 'committee'"),
        ({"registration_slots": lambda *_: (2, 9)}, r"must return Slots\(number, largest\)"),
        ({"settlement_slots": lambda *_: (2, 9)}, "and settlement_slots the same or None"),
        ({"settlement_slots": lambda *_: None}, "so it also needs settlement_slots"),
    ],
)
def test_a_rule_whose_parts_do_not_fit_is_refused(
    part: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses it at the start; with a misspelt vault, one node would open its sums."""
    for name, value in {"num_sums": lambda *_: 2, **part}.items():
        monkeypatch.setattr(Exchanges, name, value)
    terms_of.cache_clear()
    with pytest.raises(SettingsError, match=message):
        Settings(num_participants=3, rule=Exchanges())


@pytest.mark.parametrize(
    "shown",
    [
        Own(np.array([31415])),
        Settled(0.31415),
        Unsettled(np.array([31415]), (0.31415,)),
    ],
)
def test_a_repr_shows_nothing_about_labels(shown: object) -> None:
    """The repr of an object with labels shows none of them, in a log or in an error."""
    assert "31415" not in repr(shown)
