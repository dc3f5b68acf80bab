"""What a paged allocator did, as memory events with a sentence that says why, with the numbers."""

from typing import Any

from sim.cache import PrefixCache
from sim.events import Kind, Sink
from sim.request import Sequence, SequenceGroup
from sim.words import counted


class Announcer:
    """Writes the events that alone define every block table (`sim.events`)."""

    def __init__(self, log: Sink, cache: PrefixCache | None) -> None:
        self._log = log
        self._cache = cache

    def hit(self, sequence: Sequence, blocks: list[int]) -> None:
        """The start of its input was found."""
        first = f"the first {counted(len(blocks), 'blocks')} of its input"
        why = f"{first} {'is' if len(blocks) == 1 else 'are'} in the prefix cache"
        self._emit(Kind.HIT, sequence, why, blocks=blocks[:], tokens=sequence.stored)

    def alloc(self, sequence: Sequence, blocks: list[int], why: str) -> None:
        """Blocks were appended to its table."""
        self._emit(Kind.ALLOC, sequence, why, blocks=blocks[:])

    def growth(
        self, sequence: Sequence, num_held: int, num_tokens: int, blocks: list[int], size: int, left: int
    ) -> None:
        """`num_tokens` more did not fit the `num_held` blocks of its table; `left` are free now."""
        short = f"{sequence.stored} + {num_tokens} tokens do not fit {counted(num_held, 'blocks')}"
        why = f"{short}: {counted(len(blocks), 'blocks')} of {size}, {left} left free"
        self._emit(Kind.ALLOC, sequence, why, blocks=blocks)

    def evict(self, sequence: Sequence, blocks: list[int], because: str) -> None:
        """It takes blocks whose cached content is lost thereby."""
        why = f"only blocks with cached content are free; these {len(blocks)} {because}"
        self._emit(Kind.EVICT, sequence, why, blocks=blocks)

    def fork(self, parent: Sequence, child: Sequence, blocks: list[int]) -> None:
        """It goes on from what another sequence has stored."""
        shared = counted(len(blocks), "blocks")
        why = f"sequence {child.index} goes on from sequence {parent.index}: {shared} shared"
        self._emit(Kind.FORK, child, why, parent=parent.index, blocks=blocks[:], stored=child.stored)

    def copy(
        self, sequence: Sequence, place: int, source: int, destination: int, num_tokens: int, num_owners: int
    ) -> None:
        """A shared block was copied before it writes."""
        self._emit(
            Kind.COPY,
            sequence,
            f"block {source} has {num_owners} owners: its {num_tokens} tokens are copied before one writes",
            source=source,
            destination=destination,
            place=place,
            tokens=num_tokens,
        )

    def release(self, sequence: Sequence, why: str, freed: list[int], shared: list[int]) -> None:
        """Its whole table is gone; blocks that others hold stay in use."""
        changes = {"shared": shared} if shared else {}
        self._emit(Kind.FREE, sequence, why, **self._freed(freed), **changes)

    def punch(
        self, sequence: Sequence, places: list[int], freed: list[int], shared: list[int], because: str
    ) -> None:
        """Some of its logical blocks became holes."""
        blocks = "logical block" if len(places) == 1 else f"{len(places)} logical blocks, the last of them"
        changes = {"shared": shared} if shared else {}
        why = f"no later query reads {blocks} {places[0]}: {because}"
        self._emit(Kind.FREE, sequence, why, **self._freed(freed), **changes, places=places)

    def abandon(self, group: SequenceGroup, freed: list[int]) -> None:
        """Blocks of beams that were not chosen."""
        self._log.emit(Kind.FREE, group.request.id, "no beam goes on from these", **self._freed(freed))

    def swap(
        self, kind: Kind, group: SequenceGroup, why: str, blocks: list[int], host_blocks: list[int]
    ) -> None:
        """Blocks crossed the host link."""
        self._log.emit(kind, group.request.id, why, blocks=blocks, host_blocks=host_blocks)

    def _freed(self, blocks: list[int]) -> dict[str, list[int]]:
        """The fields of a `free` event: the blocks, and which of them keep content that can be found."""
        kept = [block for block in blocks if self._cache and self._cache.holds(block)]
        return {"blocks": blocks, "cached": kept} if kept else {"blocks": blocks}

    def _emit(self, kind: Kind, sequence: Sequence, why: str, **changes: Any) -> None:
        """An event of one sequence; its index is given where the request has several."""
        request = sequence.request
        if request.n > 1 or request.beam > 1:
            changes = {"sequence": sequence.index, **changes}
        self._log.emit(kind, request.id, why, **changes)
