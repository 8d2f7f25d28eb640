"""Tests of how nodes are cut into blocks."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from dubhe_flwr.protocol.blocks import cut_blocks


@given(
    num_nodes=st.integers(4, 300),
    block_size=st.integers(4, 40),
    max_blocks=st.integers(1, 80),
    seed=st.integers(0, 2**63 - 1),
)
def test_every_node_is_in_one_block(
    num_nodes: int, block_size: int, max_blocks: int, seed: int
) -> None:
    """Blocks have the wanted size or more, differ by one at most, and there are not too many."""
    node_ids = [2**64 - 1 - 3 * number for number in range(max(num_nodes, block_size))]
    blocks = cut_blocks(node_ids, block_size, max_blocks, seed, 1)
    assert sorted(chain(*blocks)) == sorted(node_ids)
    sizes = [len(block) for block in blocks]
    assert min(sizes) >= block_size
    assert max(sizes) - min(sizes) <= 1
    assert len(blocks) == max(1, min(len(node_ids) // block_size, max_blocks))
    assert all(list(block) == sorted(block, reverse=True) for block in blocks)


def test_blocks_are_cut_anew() -> None:
    """Another round and another seed cut other blocks; the same ones cut the same."""
    first = cut_blocks(range(40), 5, 100, 7, 1)
    assert first == cut_blocks(range(40), 5, 100, 7, 1)
    assert first != cut_blocks(range(40), 5, 100, 7, 2)
    assert first != cut_blocks(range(40), 5, 100, 8, 1)
