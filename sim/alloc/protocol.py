"""What the scheduler asks of memory, and the two answers it can get."""

from dataclasses import dataclass
from typing import Protocol

from sim.request import Request, Sequence


@dataclass(frozen=True, slots=True)
class Granted:
    """The memory is held now."""


@dataclass(frozen=True, slots=True)
class Short:
    """The memory is not there, and nothing was changed. Both counts are in the allocator's `unit`."""

    needed: int
    available: int


GRANTED = Granted()


@dataclass(frozen=True, slots=True)
class Held:
    """The slots a sequence holds, by why it holds them.

    [0, stored)              written
    [stored, num_reserved)   empty, within what was asked for
    [num_reserved, num_held) only because the placement rounds up
    """

    num_reserved: int
    num_held: int


@dataclass(slots=True)
class Traffic:
    """What an allocator has moved since the start of the run."""

    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    copies: int = 0  # blocks copied on write
    moved_tokens: int = 0  # tokens copied to another range

    @property
    def swapped_blocks(self) -> int:
        return self.swapped_out_blocks + self.swapped_in_blocks


class KVAllocator(Protocol):
    """Decides which slots of the pool a sequence holds. Knows no tensors and no time.

    Emits `alloc`, `free`, `swap_out` and `swap_in` events that alone define every block table.
    """

    num_slots: int  # the whole pool
    unit: str  # what `Short` and `never_fits` count: "blocks" or "slots"
    traffic: Traffic

    @property
    def num_free_slots(self) -> int: ...

    def never_fits(self, request: Request) -> Short | None:
        """Why `request` could not run even with the pool to itself, or None."""
        ...

    def admit(self, sequence: Sequence, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        """Takes room for the next `num_tokens` tokens of a waiting sequence, which holds nothing.

        Short, with nothing changed, unless *all* its pending tokens would fit, above the watermark if
        that is to be kept.
        """
        ...

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        """Makes room for `num_tokens` more than the stored ones. Changes nothing when `Short`."""
        ...

    def release(self, sequence: Sequence, why: str) -> None:
        """Gives back all that the sequence holds."""
        ...

    def host_has_room(self, sequence: Sequence) -> bool:
        """Whether `swap_out` may be called."""
        ...

    def swap_out(self, sequence: Sequence, why: str) -> None:
        """Moves what the sequence has written to host memory, which must have room."""
        ...

    def swap_in(self, sequence: Sequence, num_tokens: int, why: str) -> Granted | Short:
        """Brings it back, with room for `num_tokens` more. Changes nothing when `Short`."""
        ...

    def table_bytes(self) -> int:
        """Bytes of the block tables or range tables that exist now, at 4 bytes an entry."""
        ...

    def held(self, sequence: Sequence) -> Held:
        """What the sequence holds now."""
        ...

    def is_stranded(self, sequence: Sequence) -> bool:
        """Whether the free slots are enough in total for a waiting sequence, yet cannot hold it as placed."""
        ...

    def check(self) -> None:
        """Raises AssertionError when the allocator's own books disagree."""
        ...
