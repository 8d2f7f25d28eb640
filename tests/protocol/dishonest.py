"""Nodes whose registrations are no registry and no distribution, for the tests of blocks."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from protocol.federation import Federation, secret_key, session_state

from dubhe_flwr.core import FIXED_POINT_SCALE
from dubhe_flwr.protocol import CoordinatorState, Fields, SessionState, Stage
from dubhe_flwr.protocol.parameters import epoch_parameters

Spoil = Callable[[NDArray[np.object_]], NDArray[np.object_]]


def plus(slot: int, value: int) -> Spoil:
    """Return what adds a number to a slot, whatever it is then."""

    def spoil(values: NDArray[np.object_]) -> NDArray[np.object_]:
        changed = values.copy()
        changed[slot] += value
        return changed

    return spoil


KINDS: Final[dict[str, tuple[str, Spoil]]] = {
    "in two categories": ("registry", lambda v: 0 * v + (np.arange(len(v)) < 2)),
    "in all categories": ("registry", lambda v: 0 * v + 1),
    "in no category": ("registry", lambda v: 0 * v),
    "twice": ("registry", lambda v: 2 * v),
    "a negative slot": ("registry", lambda v: -v),
    "a negative first slot": ("registry", lambda v: plus(0, -1)(0 * v)),
    "a negative last slot": ("registry", lambda v: plus(-1, -1)(0 * v)),
    "a huge slot": ("registry", lambda v: 10**6 * v),
    "a slot that overflows": ("registry", lambda v: 3 * 2**40 * v),
    "a number as long as the key": ("registry", plus(-1, 2**480)),
    "half a distribution": ("distribution", lambda v: v // 2),
    "a distribution and a bit": ("distribution", plus(0, 1)),
    "two distributions": ("distribution", lambda v: 2 * v),
    "no distribution": ("distribution", lambda v: 0 * v),
    "a negative share": ("distribution", plus(0, -(2**50))),
    "a huge share": ("distribution", plus(0, 1000 * FIXED_POINT_SCALE)),
    "a huge square": ("distribution", plus(-1, 1000 * FIXED_POINT_SCALE)),
}


def forged(state: SessionState, field: str, vector: bytes, spoil: Spoil) -> bytes:
    """Return a vector under the epoch's key with other slots, such as no honest node packs."""
    layout, key = epoch_parameters(state.parameters).layout, secret_key(state)
    width, step = layout.slot_bits(field), layout.slots_per_ciphertext(field)
    values = spoil(layout.unpack(field, key.decrypt(vector), layout.max_clients).astype(object))
    slots = values.tolist()
    return key.encrypt(
        [
            sum(slot << (i * width) for i, slot in enumerate(slots[start : start + step]))
            % key.public_key.n
            for start in range(0, len(slots), step)
        ]
    )


def make_dishonest(nodes: Federation[CoordinatorState], kinds: Mapping[int, str]) -> None:
    """Let some nodes register what is no registration, each in its way."""

    def alter(stage: str, node_id: int, reply: Fields) -> Fields:
        if stage != Stage.REGISTER or node_id not in kinds:
            return reply
        field, spoil = KINDS[kinds[node_id]]
        vector: Any = reply[field]
        return {**reply, field: forged(session_state(nodes, node_id), field, vector, spoil)}

    nodes.alter_reply = alter
