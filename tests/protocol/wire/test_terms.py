"""Tests of what both sides derive from the terms of an epoch."""

from dataclasses import replace
from typing import Any

import pytest
from protocol.federation import paillier

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.protocol.wire.messages import JoinRequest
from dubhe_flwr.protocol.wire.terms import Terms, terms_of
from dubhe_flwr.rules import Paper, Prices


def announced(rule: Paper | Prices, **changes: Any) -> JoinRequest:
    """Return what is announced of an epoch under a rule."""
    return replace(JoinRequest(rule.name, rule.to_json(), 20, 2048, 1000, 3, 1000), **changes)


ANNOUNCED = announced(Paper((1, 2, 10)))


def test_rule_and_layout() -> None:
    """The paper's registry of 56 slots fits one ciphertext, and so does a distribution."""
    terms = terms_of(ANNOUNCED, 10)
    assert terms.rule.announced() == Paper((1, 2, 10), {1: 0.7, 2: 0.1}).announced()
    layout = paillier(terms).layout
    assert (layout.key_bits, layout.max_clients) == (2048, 1000)
    fields = [(name, slots.number, slots.largest) for name, slots in layout.fields.items()]
    assert fields == [("registration", 56, 1), ("distribution", 11, 2**20)]
    assert layout.field_bytes("registration") == layout.field_bytes("distribution") == 512


def test_a_search_has_one_more_field() -> None:
    """A registry for each candidate, and then the expected data of each."""
    terms = terms_of(announced(Paper((1, 2, 10), "search")), 10)
    fields = [(name, slots.number) for name, slots in paillier(terms).layout.fields.items()]
    assert fields == [("registration", 504), ("distribution", 11), ("settlement", 99)]
    numbers = map(paillier(terms).layout.num_ciphertexts, ("registration", "distribution"))
    assert sum(numbers) == 4


@pytest.mark.parametrize(
    ("change", "num_classes"),
    [
        *(({}, number) for number in (9, 11, 4097)),
        *(({"key_bits": bits}, 10) for bits in (2047, 496, -2048, 8208, 2**40)),
        *(({"max_clients": number}, 10) for number in (2**42, 2**63 - 1)),
        ({"rule": "nearest"}, 10),
        ({"rule_settings": Paper((1, 3, 26), "search").to_json(), "key_bits": 512}, 26),
    ],
)
def test_terms_that_cannot_work_are_refused(change: dict[str, Any], num_classes: int) -> None:
    """They cause neither a crash nor endless work."""
    with pytest.raises(RefusedError):
        Terms(replace(ANNOUNCED, **change), num_classes)


@pytest.mark.parametrize(
    ("change", "num_classes"),
    [
        ({"key_bits": 8192}, 10),
        ({"key_bits": 512}, 10),
        ({"max_clients": 2**42 - 1}, 10),
        ({"rule_settings": Paper((4096,)).to_json()}, 4096),
    ],
)
def test_terms_at_the_limit_work(change: dict[str, Any], num_classes: int) -> None:
    """The limits themselves are allowed."""
    assert Terms(replace(ANNOUNCED, **change), num_classes).vault
