"""Tests of the random generators that a checkpoint keeps."""

import random
from typing import Any

import numpy as np
import pytest

from dubhe_flwr.adapter.packing import generator_states, restore_generators
from dubhe_flwr.errors import CheckpointError

torch = pytest.importorskip("torch")


def numbers() -> list[float]:
    """Return numbers of each generator; an odd number of normal ones leaves half a pair."""
    return [
        random.gauss(0, 1),
        random.random(),
        float(np.random.normal()),  # noqa: NPY002 - the generator that Flower uses
        float(np.random.random()),  # noqa: NPY002 - the generator that Flower uses
        float(torch.rand(())),
    ]


def test_all_three_generators_go_on_where_they_were() -> None:
    """Python's, numpy's and torch's, with what they hold back for the next call."""
    numbers()
    states = generator_states()
    first = numbers()
    assert numbers() != first
    restore_generators(states)
    assert numbers() == first


@pytest.mark.parametrize(
    ("name", "damage"),
    [("python", None), ("python", {}), ("numpy", {"state": 1}), ("torch", np.zeros(3))],
)
def test_damaged_states_are_refused(name: str, damage: Any) -> None:
    """With a typed error that says what to do, whatever is wrong with them."""
    with pytest.raises(CheckpointError, match=r"cannot be restored .* empty checkpoint_dir"):
        restore_generators({**generator_states(), name: damage})
