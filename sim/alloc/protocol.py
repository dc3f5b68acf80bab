"""What the scheduler asks of memory, and the two answers it can get."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from sim.request import Request, Sequence, SequenceGroup


@dataclass(frozen=True, slots=True)
class Granted:
    """The memory is held now."""


@dataclass(frozen=True, slots=True)
class Short:
    """The memory is not there, and nothing was changed. The counts are in the allocator's `unit`."""

    needed: int
    available: int
    asked: int | None = None  # of a reservation: what it asks for before its placement rounds that up


GRANTED = Granted()


@dataclass(frozen=True, slots=True)
class Usage:
    """Slots that sequences hold, by class of the ledger; a shared slot counts once."""

    live: int = 0
    reserved: int = 0
    internal: int = 0
    rounding: int = 0
    blocks: int = 0  # different blocks in all tables; 0 where there are none
    table_entries: int = 0  # blocks in all tables, shared ones as often as they stand there

    def __add__(self, other: "Usage") -> "Usage":
        """Of both together, if they share nothing."""
        return Usage(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(slots=True)
class Traffic:
    """What an allocator has moved since the start of the run."""

    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    copies: int = 0  # blocks, or whole ranges, copied so that two sequences can go different ways
    copied_tokens: int = 0
    moved_tokens: int = 0  # tokens copied to another range because theirs had become too small

    @property
    def swapped_blocks(self) -> int:
        """Blocks that crossed the host link, either way."""
        return self.swapped_out_blocks + self.swapped_in_blocks


class KVAllocator(Protocol):
    """Decides which slots of the pool a sequence holds. Knows no tensors and no time.

    Emits the memory events that alone define every block table (`sim.events`).
    """

    num_slots: int  # the whole pool
    unit: str  # what `Short` and `never_fits` count: "blocks" or "slots"
    traffic: Traffic

    @property
    def num_free_slots(self) -> int:
        """Slots that could be handed out, cached ones included."""
        ...

    @property
    def num_cached_slots(self) -> int:
        """Those of them whose content could still be found."""
        ...

    def never_fits(self, request: Request) -> Short | None:
        """Why `request` could not run even with the pool to itself, or None."""
        ...

    def uncached_tokens(self, group: SequenceGroup) -> int:
        """Tokens that a waiting group, admitted now, would compute: without what it hits or shares."""
        ...

    def admit(self, group: SequenceGroup, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        """Takes room for the first chunk, of `num_tokens` tokens after the hit, of a waiting group.

        Sets `stored` to what it hits. Short, with nothing changed, unless *all* pending tokens would fit,
        above the watermark if that is to be kept.
        """
        ...

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        """Makes room to write `num_tokens` more than the stored ones, copying a shared block first.

        Changes nothing when `Short`.
        """
        ...

    def settle(self, sequence: Sequence, before: int, *, was_prefilling: bool) -> None:
        """A step has stored [before, stored), of which nothing will be rolled back any more.

        Gives back what no later query reads. Called where there are drafts, or a horizon that forgets.
        """
        ...

    def fork(self, group: SequenceGroup) -> None:
        """Gives the group's other sequences what the first one has stored."""
        ...

    def reorder(self, group: SequenceGroup, parents: list[int]) -> None:
        """Sequence `i` goes on from what sequence `parents[i]` has stored (beam search)."""
        ...

    def release(self, group: SequenceGroup, why: str) -> None:
        """Gives back all that the group holds."""
        ...

    def host_has_room(self, group: SequenceGroup) -> bool:
        """Whether `swap_out` may be called."""
        ...

    def swap_out(self, group: SequenceGroup, why: str) -> None:
        """Moves what the group has written to host memory, which must have room."""
        ...

    def swap_in(self, group: SequenceGroup, tokens: list[int], why: str) -> Granted | Short:
        """Brings it back, with room for `tokens[i]` more in sequence `i`. Changes nothing when `Short`."""
        ...

    def table_bytes(self) -> int:
        """Bytes of the block tables or range tables that exist now, at 4 bytes an entry."""
        ...

    def usage(self, groups: Iterable[SequenceGroup]) -> Usage:
        """What the groups, which are all that hold memory, hold now, by class."""
        ...

    def is_stranded(self, group: SequenceGroup) -> bool:
        """Whether the free slots are enough in total for a waiting group, yet cannot hold it as placed."""
        ...

    def check(self) -> None:
        """Raises AssertionError when the allocator's own books disagree."""
        ...
