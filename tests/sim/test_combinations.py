"""Dials that do not go together are refused with a sentence that names both and says why."""

import pytest

from sim import Config, InputError

REFUSED = [
    (dict(allocator="max", prefix_cache="hash"), "--prefix-cache hash with --allocator max: a prefix is shared"),
    (dict(allocator="virtual", prefix_cache="radix"), "--prefix-cache radix with --allocator virtual"),
    (dict(allocator="grow", preempt="swap"), "--preempt swap with --allocator grow"),
    (dict(allocator="slab", preempt="swap"), "--preempt swap with --allocator slab"),
    (dict(allocator="virtual", preempt="swap"), "--preempt swap with --allocator virtual"),
    (dict(allocator="grow", table="two-level"), "--table two-level with --allocator grow: a range has one entry"),
    (dict(allocator="virtual", table="two-level"), "--table two-level with --allocator virtual: the GPU keeps"),
    (dict(compaction="on-shortage"), "--compaction on-shortage with --allocator paged: its pieces go anywhere"),
    (dict(allocator="slab", compaction="on-shortage"), "--compaction on-shortage with --allocator slab: chunks"),
    (dict(growth="4"), "--growth with --allocator paged: that is a dial of grow"),
    (dict(allocator="max", page_size="64KiB"), "--page-size with --allocator max: that is a dial of virtual"),
    (dict(allocator="grow", size_classes="2048"), "--size-classes with --allocator grow"),
    (dict(large_block_size=64), "--large-block-size with --allocator paged: that is a dial of mixed"),
    (dict(allocator="mixed", large_block_size=40), "--large-block-size 40 with --block-size 16"),
    (dict(allocator="mixed", large_block_size=16), "a large block is a run of at least two"),
    (dict(allocator="grow", growth="0"), "growth '0': must be double, or a number of slots"),
    (dict(allocator="slab", size_classes="64,32"), "size classes '64,32': must be pow2, or rising sizes"),
    (dict(allocator="slab", size_classes="64,1024"), "--size-classes 64,1024 with --max-len 2048"),
    (dict(allocator="slab", size_classes="48,2048"), "--size-classes 48,2048 with --placement buddy"),
    (dict(allocator="virtual", page_size="2 pages"), "size '2 pages'"),
]  # fmt: skip


@pytest.mark.parametrize(("dials", "sentence"), REFUSED, ids=[sentence[:50] for _, sentence in REFUSED])
def test_a_pair_that_does_not_go_together_is_refused(dials, sentence):
    with pytest.raises(InputError) as error:
        Config(**dials)
    assert sentence in str(error.value)


def test_size_classes_start_at_the_block_size_and_end_with_one_that_holds_the_longest_sequence():
    from sim.make import size_classes

    assert size_classes(Config(allocator="slab", block_size=24, max_len=300)) == [32, 64, 128, 256, 512]
    config = Config(allocator="slab", size_classes="48,2048", placement="best-fit")
    assert size_classes(config) == [48, 2048]
