"""Dials that do not go together are refused with a sentence that names both and says why."""

import pytest

from sim import Config, InputError

REFUSED = [
    ({"allocator": "max", "prefix_cache": "hash"}, "--prefix-cache hash with --allocator max: a prefix"),
    ({"allocator": "virtual", "prefix_cache": "radix"}, "--prefix-cache radix with --allocator virtual"),
    ({"allocator": "grow", "preempt": "swap"}, "--preempt swap with --allocator grow"),
    ({"allocator": "slab", "preempt": "swap"}, "--preempt swap with --allocator slab"),
    ({"allocator": "virtual", "preempt": "swap"}, "--preempt swap with --allocator virtual"),
    ({"allocator": "grow", "table": "two-level"}, "--table two-level with --allocator grow: a range has one"),
    ({"allocator": "virtual", "table": "two-level"},
     "--table two-level with --allocator virtual: a range has one entry, and pages are kept by the GPU"),
    ({"compaction": "on-shortage"}, "--compaction on-shortage with --allocator paged: blocks and"),
    ({"allocator": "slab", "compaction": "on-shortage"}, "--compaction on-shortage with --allocator slab"),
    ({"growth": "4"}, "--growth 4 with --allocator paged: its ranges do not"),
    ({"allocator": "max", "page_size": "64KiB"}, "--page-size 64KiB with --allocator max: it has no pages"),
    ({"allocator": "grow", "size_classes": "2048"}, "--size-classes 2048 with --allocator grow: it has no"),
    ({"large_block_size": 64},
     "--large-block-size 64 with --allocator paged: it has blocks of one size; drop it, "
     "or use --allocator mixed"),
    ({"allocator": "mixed", "large_block_size": 40}, "--large-block-size 40 with --block-size 16"),
    ({"allocator": "mixed", "large_block_size": 16}, "a large block is a run of at least two"),
    ({"allocator": "grow", "growth": "0"}, "growth '0': must be double, or a number of slots"),
    ({"allocator": "slab", "size_classes": "64,32"}, "size classes '64,32': must be pow2, or rising sizes"),
    ({"allocator": "slab", "size_classes": "64,1024"}, "--size-classes 64,1024 with --max-len 2048"),
    ({"allocator": "slab", "size_classes": "48,2048"}, "--size-classes 48,2048 with --placement buddy"),
    ({"allocator": "virtual", "page_size": "2 pages"}, "size '2 pages'"),
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
