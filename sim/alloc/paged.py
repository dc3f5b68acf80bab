"""Paged allocation: blocks on demand, one block table per sequence (vLLM; paper section 4.2)."""

from sim.alloc.protocol import GRANTED, Granted, Held, Short, Traffic
from sim.events import Kind, Sink
from sim.request import Request, Sequence


class BlockPool:
    """Interchangeable blocks with a last-in, first-out free list.

    A released table enters its last block first, so that the next owner gets the first block first.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free = list(range(num_blocks - 1, -1, -1))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """`count` blocks, which must be free."""
        assert count <= len(self._free), f"take {count} of {len(self._free)} free blocks"
        if count == 0:
            return []
        taken = self._free[-count:]
        del self._free[-count:]
        taken.reverse()
        return taken

    def give_back(self, blocks: list[int]) -> None:
        """Frees `blocks` in the order given."""
        self._free.extend(blocks)

    def check(self, tables: list[list[int]]) -> None:
        """Every block is either free or in exactly one of `tables`."""
        owned = [block for table in tables for block in table]
        everything = sorted(owned + self._free)
        assert everything == list(range(self.num_blocks)), (
            f"{len(owned)} owned and {len(self._free)} free of {self.num_blocks} blocks: "
            "some block is lost or has two owners"
        )


class PagedAllocator:
    """Holds `ceil(tokens / block_size)` blocks for each sequence, wherever they are."""

    unit = "blocks"

    def __init__(
        self, num_blocks: int, block_size: int, log: Sink, *, num_host_blocks: int = 0, watermark: float = 0.0
    ) -> None:
        self.block_size = block_size
        self.num_slots = num_blocks * block_size
        self.device = BlockPool(num_blocks)
        self.host = BlockPool(num_host_blocks)
        self.num_watermark_blocks = int(watermark * num_blocks)
        self.tables: dict[Sequence, list[int]] = {}
        self.host_tables: dict[Sequence, list[int]] = {}
        self.traffic = Traffic()
        self._log = log

    @property
    def num_free_slots(self) -> int:
        return self.device.num_free * self.block_size

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens fill, the last one perhaps in part."""
        return -(-num_tokens // self.block_size)

    def never_fits(self, request: Request) -> Short | None:
        needed = self.blocks_for(request.worst_case_tokens)
        return Short(needed, self.device.num_blocks) if needed > self.device.num_blocks else None

    def admit(self, sequence: Sequence, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        needed = self.blocks_for(sequence.num_pending)
        available = self.device.num_free - (self.num_watermark_blocks if keep_watermark else 0)
        if needed > available:
            return Short(needed, max(available, 0))
        self.tables[sequence] = []
        self._append(sequence, self.blocks_for(num_tokens), f"{num_tokens} tokens")
        return GRANTED

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        needed = self.blocks_for(sequence.stored + num_tokens) - len(self.tables[sequence])
        if needed <= 0:
            return GRANTED
        if needed > self.device.num_free:
            return Short(needed, self.device.num_free)
        held = len(self.tables[sequence])
        self._append(sequence, needed, f"{sequence.stored} + {num_tokens} tokens do not fit {held} blocks")
        return GRANTED

    def release(self, sequence: Sequence, why: str) -> None:
        blocks = self.tables.pop(sequence)[::-1]
        self.device.give_back(blocks)
        self._log.emit(Kind.FREE, sequence.request.id, why, blocks=blocks)

    def host_has_room(self, sequence: Sequence) -> bool:
        return self.blocks_for(sequence.stored) <= self.host.num_free

    def swap_out(self, sequence: Sequence, why: str) -> None:
        written = self.tables[sequence][: self.blocks_for(sequence.stored)]
        self.host_tables[sequence] = self.host.take(len(written))
        self._log.emit(
            Kind.SWAP_OUT, sequence.request.id, why, blocks=written, host_blocks=self.host_tables[sequence][:]
        )
        self.traffic.swapped_out_blocks += len(written)
        self.release(sequence, f"swapped to {len(written)} host blocks")

    def swap_in(self, sequence: Sequence, num_tokens: int, why: str) -> Granted | Short:
        needed = self.blocks_for(sequence.stored + num_tokens)
        if needed > self.device.num_free:
            return Short(needed, self.device.num_free)
        host_blocks = self.host_tables.pop(sequence)
        self.tables[sequence] = []
        self._append(sequence, needed, f"back from host with {sequence.stored} + {num_tokens} tokens")
        self._log.emit(
            Kind.SWAP_IN,
            sequence.request.id,
            why,
            blocks=self.tables[sequence][: len(host_blocks)],
            host_blocks=host_blocks,
        )
        self.traffic.swapped_in_blocks += len(host_blocks)
        self.host.give_back(host_blocks[::-1])
        return GRANTED

    def table_bytes(self) -> int:
        return 4 * sum(len(table) for table in self.tables.values())

    def held(self, sequence: Sequence) -> Held:
        num_slots = len(self.tables[sequence]) * self.block_size
        return Held(num_slots, num_slots)

    def is_stranded(self, sequence: Sequence) -> bool:
        return (
            sequence.num_pending <= self.num_free_slots
            and self.blocks_for(sequence.num_pending) > self.device.num_free
        )

    def check(self) -> None:
        self.device.check(list(self.tables.values()))
        self.host.check(list(self.host_tables.values()))

    def _append(self, sequence: Sequence, count: int, why: str) -> None:
        blocks = self.device.take(count)
        self.tables[sequence].extend(blocks)
        self._log.emit(
            Kind.ALLOC,
            sequence.request.id,
            f"{why}: {count} blocks of {self.block_size}, {self.device.num_free} left free",
            blocks=blocks,
        )
