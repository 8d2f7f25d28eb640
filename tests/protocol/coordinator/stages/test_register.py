"""Tests of the stage `register`: the server adds up what the nodes encrypt."""

from typing import Any

import pytest
from protocol.server import altered, failed, federation, lost


@pytest.mark.parametrize(("spoil", "times"), [(lost, 1), (failed, 3)])
def test_silence_does_not_mean_that_a_key_did_not_open(spoil: Any, times: int) -> None:
    """Another key does not help a silent node."""
    nodes = federation()
    with altered(nodes, "register", spoil, nodes.ids[:3]):
        assert nodes.play(1).num_registered == 9
    assert nodes.stages().count("keygen") == times
