"""Which slots that paged sequences hold are live, and whether the empty ones will be filled."""

from collections.abc import Iterable, Mapping

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
    sequences = [sequence for group in groups for sequence in group.active]
    if has_shared:
        return _shared_usage(tables, sequences, block_size)
    live = held = reserved = 0
    for sequence in sequences:
        num_slots = len(tables[sequence]) * block_size
        held += num_slots
        live += sequence.stored
        reserved += min(num_slots, sequence.request.final_tokens) - sequence.stored
    return Usage(live=live, reserved=reserved, internal=held - live - reserved)


def _shared_usage(tables: Mapping[Sequence, list[int]], sequences: list[Sequence], block_size: int) -> Usage:
    stored: dict[int, int] = {}  # block -> slots written
    final: dict[int, int] = {}  # block -> slots written or still to be written by one of its owners
    for sequence in sequences:
        last = max(sequence.stored, sequence.request.final_tokens)
        for place, block in enumerate(tables[sequence]):
            start = place * block_size
            stored[block] = max(stored.get(block, 0), min(block_size, max(0, sequence.stored - start)))
            final[block] = max(final.get(block, 0), min(block_size, max(0, last - start)))
    live, filled = sum(stored.values()), sum(final.values())
    return Usage(live=live, reserved=filled - live, internal=len(stored) * block_size - filled)
