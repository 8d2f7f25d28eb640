"""Tests of what all vaults share."""

from dataclasses import replace

import pytest

from dubhe_flwr.errors import RefusedError, SealError
from dubhe_flwr.he.layout import Slots
from dubhe_flwr.he.sealing import RecipientKey
from dubhe_flwr.protocol.vaults import Seat
from dubhe_flwr.protocol.vaults.plain import Plain
from dubhe_flwr.protocol.wire.messages import JoinRequest, RegisterRequest, Roster
from dubhe_flwr.rules import Prices

KEY = RecipientKey.generate()
ANNOUNCED = JoinRequest("prices", Prices().to_json(), 20, 2048, 100, 3, 100)
FIELDS = {"a": Slots(3, 1)}
FIRST, CONTINUED = (Plain(replace(ANNOUNCED, continues=of), FIELDS) for of in (None, bytes(16)))


def seat(state: bytes) -> Seat:
    """Return a node that knows how the last epoch ended, or not."""
    return Seat(bytes(16), KEY.to_bytes(), None, state)


def test_a_node_that_settled_passes_on_how() -> None:
    """Sealed under the epoch's key; without a last epoch, there is nothing to pass on."""
    sealed = CONTINUED.sealed_state(seat(b"prices"), b"key")
    request = RegisterRequest(3, state=sealed)
    assert CONTINUED.opened_state(request, b"key") == b"prices"
    with pytest.raises(SealError):
        CONTINUED.opened_state(request, b"another key")
    with pytest.raises(RefusedError, match="did not settle in the last epoch"):
        CONTINUED.sealed_state(seat(b""), b"key")
    assert FIRST.sealed_state(seat(b"prices"), b"key") is None
    assert FIRST.opened_state(request, b"key") == b""


@pytest.mark.parametrize("weighted", [True, False])
def test_a_roster_has_samples_in_weighted_epochs_only(*, weighted: bool) -> None:
    """A server cannot weight nodes that agreed to equal weights, or the reverse."""
    vault = Plain(replace(ANNOUNCED, weighted=weighted), FIELDS)
    keys = bytes(range(96))
    rosters = [Roster(keys, num_examples, None, None) for num_examples in (None, (5, 5, 5))]
    vault.check_nodes(rosters[weighted], least=1)
    with pytest.raises(RefusedError, match="belong to weighted epochs only"):
        vault.check_nodes(rosters[not weighted], least=1)
