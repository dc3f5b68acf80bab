"""Which cached block goes first, by hash and in a radix tree."""

import pytest

from sim.cache import Chain, RadixCache
from tests.sim.test_prefix_cache import BOTH, hits, request, run_of


def who_is_left(used_again: str, *, eviction: str, kind: str) -> str:
    """ "a" and "b" are cached in this order; then one is used again, and "c" needs the room of one block."""
    return "".join(name for name in "ab" if is_left(name, used_again, eviction, kind))


def is_left(name: str, used_again: str, eviction: str, kind: str) -> bool:
    tokens = {"a": [1] * 5, "b": [2] * 5}
    rows = (
        request("a", tokens["a"], output=1),
        request("b", tokens["b"], output=1, arrival=1.0),
        request("again", tokens[used_again], output=1, arrival=2.0),
        request("c", [3] * 8, output=2, arrival=3.0),
        request("asked", tokens[name], output=1, arrival=6.0),
    )
    return hits(run_of(*rows, pool_blocks=4, eviction=eviction, prefix_cache=kind))[-1] == 4


@BOTH
def test_lru_spares_what_was_used_last_and_fifo_what_came_last(kind):
    assert who_is_left("a", eviction="lru", kind=kind) == "a"
    assert who_is_left("b", eviction="lru", kind=kind) == "b"
    assert who_is_left("a", eviction="fifo", kind=kind) == "b"
    assert who_is_left("b", eviction="fifo", kind=kind) == "b"


@BOTH
@pytest.mark.parametrize("eviction", ["lru", "fifo"])
def test_only_the_tail_goes_where_a_chain_loses_a_block(kind, eviction):
    # "a" leaves 3 cached blocks, "c" takes 1 of them. FIFO by hash takes the head, and with it the chain
    rows = (
        request("a", range(12), output=1),
        request("c", [99] * 8, output=1, arrival=1.0),
        request("a2", range(13), output=1, arrival=2.0),
    )
    found = hits(run_of(*rows, pool_blocks=4, prefix_cache=kind, eviction=eviction))[2]
    assert found == (0 if (kind, eviction) == ("hash", "fifo") else 8)


def test_a_radix_tree_whose_leaves_are_all_in_use_gives_up_a_branch():
    """Two requests computed the same block in turn; the one that goes on holds its own, not the tree's. With
    the tree's block the only free one, the pool found no leaf to evict and stopped."""
    rows = (
        request("a", range(4), output=1),
        request("b", range(4), output=12),
        request("c", range(50, 58), output=2, arrival=5.0),
    )
    run = run_of(*rows, pool_blocks=5, prefix_cache="radix")
    assert run.report()["requests"]["finished"] == 3


def test_a_radix_tree_takes_no_node_without_its_parent():
    cache, root = RadixCache(), Chain(None, None)
    parent = root.extend("parent")
    child = parent.extend("child")
    cache.add(1, child)
    assert not cache.holds(1)
    cache.add(0, parent)
    cache.add(1, child)
    assert cache.holds(1)
    cache.forget(0)
    assert not cache.holds(1)
