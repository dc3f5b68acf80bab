"""Which slots that paged sequences hold are live, and whether the empty ones will be filled."""

from collections.abc import Iterable, Iterator, Mapping

from sim.alloc.protocol import Usage
from sim.request import Sequence, SequenceGroup


def paged_usage(
    tables: Mapping[Sequence, list[int]],
    groups: Iterable[SequenceGroup],
    block_size: int,
    *,
    has_shared: bool,
) -> Usage:
    """Usage of block tables; with `has_shared` every block is looked at, so that none counts twice."""
    if has_shared:
        return _shared_usage(tables, groups, block_size)
    live = held = reserved = 0
    for sequence in (sequence for group in groups for sequence in group.active):
        num_slots = len(tables[sequence]) * block_size
        held += num_slots
        live += sequence.stored
        reserved += min(num_slots, sequence.request.final_tokens) - sequence.stored
    return Usage(live=live, reserved=reserved, internal=held - live - reserved)


def _shared_usage(
    tables: Mapping[Sequence, list[int]], groups: Iterable[SequenceGroup], block_size: int
) -> Usage:
    stored: dict[int, int] = {}  # block -> slots written
    final: dict[int, int] = {}  # block -> slots written or still to be written by one of its owners
    for sequence, written in _written(groups):
        last = max(sequence.stored, sequence.request.final_tokens)
        for place, block in enumerate(tables[sequence]):
            start = place * block_size
            stored[block] = max(stored.get(block, 0), min(block_size, max(0, written - start)))
            final[block] = max(final.get(block, 0), min(block_size, max(0, last - start)))
    live, filled = sum(stored.values()), sum(final.values())
    return Usage(live=live, reserved=filled - live, internal=len(stored) * block_size - filled)


def _written(groups: Iterable[SequenceGroup]) -> Iterator[tuple[Sequence, int]]:
    """Each sequence with its tokens that are written.

    Of a group that comes back in chunks, the others count the shared prompt as stored before the first
    sequence, which runs ahead of them, has computed it.
    """
    for group in groups:
        first = group.sequences[0]
        yield from ((sequence, min(sequence.stored, first.stored)) for sequence in group.active)
