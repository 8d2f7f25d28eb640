"""Tests of what both sides derive from the parameters of an epoch."""

from dataclasses import replace
from typing import Any

import pytest

from dubhe_flwr.errors import RefusedError
from dubhe_flwr.he import generate_secret_key
from dubhe_flwr.protocol.messages import JoinRequest
from dubhe_flwr.protocol.parameters import EpochParameters, epoch_parameters, sealing_context

ANNOUNCED = JoinRequest((1, 2, 10), (0.7, 0.1), 20, 2048, 1000, 3, 1000, 500, -1)


def test_codebook_thresholds_and_layout() -> None:
    """The paper's registry of 56 slots fits one ciphertext, and so does a distribution."""
    parameters = epoch_parameters(ANNOUNCED)
    assert parameters.announced == ANNOUNCED
    assert parameters.codebook.reference_set == (1, 2, 10)
    assert parameters.candidates == ({1: 0.7, 2: 0.1},)
    layout = parameters.layout
    assert (layout.key_bits, layout.max_clients) == (2048, 1000)
    fields = [(f.name, f.num_slots, f.max_value) for f in layout.fields]
    assert fields == [
        ("registry", 56, 1),
        ("distribution", 11, 2**20),
        ("moments", 56 * 11, 2**20),
        ("probabilities", 56, 2**20),
        ("expectations", 11, 2**20),
    ]
    assert layout.field_bytes("registry") == layout.field_bytes("distribution") == 512
    assert layout.field_bytes("probabilities") == 512


@pytest.mark.parametrize(
    "change",
    [
        {"thresholds": (float("nan"), 0.1)},
        {"thresholds": (0.7, float("inf"))},
        {"thresholds": (-0.1, 0.1)},
        {"thresholds": (0.7, 1.1)},
        {"reference_set": (0, 1, 10)},
        {"reference_set": (-1, 2, 10)},
        {"reference_set": (10, 2, 1)},
        {"reference_set": (2, 2, 10)},
        {"reference_set": (1, 10, 10)},
        {"reference_set": (1, 5, 62)},
        {"reference_set": (1,), "thresholds": ()},
        {"key_bits": 2047},
        {"key_bits": 496},
        {"key_bits": 0},
        {"key_bits": -2048},
        {"key_bits": 8208},
        {"key_bits": 2**40},
        {"max_clients": 2**42},
        {"max_clients": 2**63 - 1},
    ],
)
def test_parameters_that_cannot_work_are_refused(change: dict[str, Any]) -> None:
    """Each of them is a refusal of its own, not a crash."""
    with pytest.raises(RefusedError):
        EpochParameters(replace(ANNOUNCED, **change))


@pytest.mark.parametrize(
    "reference_set", [(2**61, 2**62), (1, 4097), (2**62 - 1, 2**62, 2**63 - 1)]
)
def test_a_codebook_beyond_counting_is_refused_at_once(reference_set: tuple[int, ...]) -> None:
    """A server cannot keep a node busy with the binomials of huge numbers."""
    announced = replace(
        ANNOUNCED, reference_set=reference_set, thresholds=(0.5,) * (len(reference_set) - 1)
    )
    with pytest.raises(RefusedError, match="at most 4096 classes and keys of 8192 bits"):
        EpochParameters(announced)


@pytest.mark.parametrize(
    "change",
    [
        {"key_bits": 8192},
        {"key_bits": 512},
        {"max_clients": 2**42 - 1},
        {"reference_set": (4096,), "thresholds": ()},
    ],
)
def test_parameters_at_the_limit_work(change: dict[str, Any]) -> None:
    """The limits themselves are within."""
    assert EpochParameters(replace(ANNOUNCED, **change)).announced


def test_parameters_are_computed_once() -> None:
    """All nodes of a simulation share them."""
    assert epoch_parameters(ANNOUNCED) is epoch_parameters(replace(ANNOUNCED))


def test_a_sealed_key_is_bound_to_everything() -> None:
    """Epoch, agent, modulus and layout each change what a seal is bound to."""
    layouts = [epoch_parameters(replace(ANNOUNCED, max_clients=n)).layout for n in (10, 11)]
    keys = [generate_secret_key(512).public_key for _ in range(2)]
    contexts = {
        sealing_context(epoch, agent, key, layout).info(bytes(32))
        for epoch in (bytes(16), b"e" * 16)
        for agent in (bytes(32), b"a" * 32)
        for key in keys
        for layout in layouts
    }
    assert len(contexts) == 16
    assert all(b"dubhe/1" in context for context in contexts)
