"""Which slots that sequences hold are live, and whether the empty ones will be filled."""

from collections.abc import Callable, Iterable, Mapping

from sim.alloc.protocol import Usage
from sim.horizon import Horizon
from sim.request import Sequence, SequenceGroup
from sim.tables import HOLE


def paged_usage(
    tables: Mapping[Sequence, list[int]],
    groups: Iterable[SequenceGroup],
    block_size: int,
    horizon: Horizon,
    *,
    has_shared: bool,
) -> Usage:
    """Usage of block tables; with `has_shared` every block is looked at, so that none counts twice."""
    if has_shared and horizon.is_total:
        return _shared_usage(tables, groups, block_size)
    if has_shared:
        return _shared_usage_by_slot(tables, groups, block_size, horizon)
    live = num_blocks = reserved = 0
    for sequence in (sequence for group in groups for sequence in group.active):
        table = tables[sequence]
        num_blocks += len(table) if horizon.is_total else len(table) - table.count(HOLE)
        live += sequence.stored - horizon.num_dropped(sequence.stored, is_prefilling=sequence.is_prefilling)
        reserved += min(len(table) * block_size, sequence.request.final_tokens) - sequence.stored
    internal = num_blocks * block_size - live - reserved
    return Usage(live=live, reserved=reserved, internal=internal, blocks=num_blocks, table_entries=num_blocks)


def _shared_usage(
    tables: Mapping[Sequence, list[int]], groups: Iterable[SequenceGroup], block_size: int
) -> Usage:
    """A slot of a shared block is written if any owner has written it, and will be if any owner will."""
    stored: dict[int, int] = {}  # block -> slots written
    final: dict[int, int] = {}  # block -> slots written or still to be written by one of its owners
    num_entries = 0
    members = [(sequence, group.num_written(sequence)) for group in groups for sequence in group.active]
    for sequence, num_written in members:
        table, num_final = tables[sequence], sequence.request.final_tokens
        num_entries += len(table)
        num_full = min(num_written, num_final) // block_size
        for block in table[:num_full]:
            stored[block] = final[block] = block_size
        for place, block in enumerate(table[num_full:], start=num_full):
            start = place * block_size
            stored[block] = max(stored.get(block, 0), min(block_size, max(0, num_written - start)))
            final[block] = max(final.get(block, 0), min(block_size, max(0, num_final - start)))
    live, filled = sum(stored.values()), sum(final.values())
    internal = len(stored) * block_size - filled
    return Usage(
        live=live, reserved=filled - live, internal=internal, blocks=len(stored), table_entries=num_entries
    )


def _shared_usage_by_slot(
    tables: Mapping[Sequence, list[int]],
    groups: Iterable[SequenceGroup],
    block_size: int,
    horizon: Horizon,
) -> Usage:
    """A slot is live if any owner of its block reads it, empty if none has written it."""
    live: dict[int, int] = {}  # block -> bits of its slots that are live
    empty: dict[int, int] = {}  # block -> bits of its slots that are empty and will be filled
    written: dict[int, int] = {}  # block -> bits of its slots that are written
    num_entries = 0
    members = [(sequence, group.num_written(sequence)) for group in groups for sequence in group.active]
    for sequence, num_written in members:
        for place, block in enumerate(tables[sequence]):
            if block == HOLE:
                continue
            num_entries += 1
            start = place * block_size
            stored = _first(min(block_size, max(0, num_written - start)))
            final = _first(min(block_size, max(0, sequence.request.final_tokens - start)))
            dropped = 0 if horizon.is_total else _dropped_slots(sequence, start, block_size, horizon)
            live[block] = live.get(block, 0) | (stored & ~dropped)
            written[block] = written.get(block, 0) | stored
            empty[block] = empty.get(block, 0) | final
    num_live = sum(bits.bit_count() for bits in live.values())
    reserved = sum((bits & ~written[block]).bit_count() for block, bits in empty.items())
    internal = len(live) * block_size - num_live - reserved
    return Usage(
        live=num_live, reserved=reserved, internal=internal, blocks=len(live), table_entries=num_entries
    )


def _first(count: int) -> int:
    """Bits of the first `count` slots."""
    return (1 << count) - 1


def _dropped_slots(sequence: Sequence, start: int, block_size: int, horizon: Horizon) -> int:
    """Bits of the slots of the block at `start` whose tokens the sequence does not read any more."""
    count = horizon.num_dropped(sequence.stored, is_prefilling=sequence.is_prefilling)
    return sum(
        1 << offset
        for offset in range(block_size)
        if horizon.is_dropped(sequence.request, start + offset, start + offset + 1, count)
    )


def range_usage(
    ranges: Mapping[Sequence, tuple[int, int]],
    groups: Iterable[SequenceGroup],
    rounded: Callable[[int], int],
    *,
    grows: bool,
) -> Usage:
    """Usage of ranges (start, slots asked for), each rounded up by its placement.

        live | reserved: will be filled | internal: asked for in vain | rounding: not asked for

    A sequence that `grows` uses its whole range, so what it will fill of the rounding is reserved.
    """
    live = reserved = internal = rounding = 0
    for sequence in (sequence for group in groups for sequence in group.sequences):
        _, length = ranges[sequence]
        taken = rounded(length)
        filled = min(taken if grows else length, sequence.request.final_tokens)
        live += sequence.stored
        reserved += filled - sequence.stored
        internal += max(0, length - filled)
        rounding += taken - max(length, filled)
    return Usage(live=live, reserved=reserved, internal=internal, rounding=rounding)


def page_usage(
    tables: Mapping[Sequence, list[int]], groups: Iterable[SequenceGroup], page_tokens: int
) -> Usage:
    """Usage of pages that nobody shares: what no token will ever fill is there because pages round up."""
    live = held = filled = 0
    for sequence in (sequence for group in groups for sequence in group.sequences):
        num_slots = len(tables[sequence]) * page_tokens
        held += num_slots
        live += sequence.stored
        filled += min(num_slots, sequence.request.final_tokens)
    return Usage(live=live, reserved=filled - live, rounding=held - filled)
