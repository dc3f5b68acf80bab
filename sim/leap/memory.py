"""The pool while leaping. A request goes by its place in the order of arrival: its `index`.

A *round* is a step in which every decoding sequence stores one token. `rounds` counts those done, so a
decoding sequence has `offset + rounds` tokens stored, with an offset that never changes.
"""

from itertools import chain
from typing import Protocol

from sim.alloc import RESERVATIONS, ContiguousAllocator, Traffic
from sim.config import Config
from sim.events import NullLog
from sim.request import Request


class LeapMemory(Protocol):
    """What the server asks. Nothing changes where the answer is False."""

    free: int  # blocks or slots
    traffic: Traffic

    def admit(self, index: int, num_pending: int, num_tokens: int, *, is_busy: bool) -> bool:
        """Takes room for a waiting request's first `num_tokens` if all its pending ones would fit."""
        ...

    def extend(self, stored: int, num_tokens: int) -> int:
        """What a chunk of a prefill needs on top of what `stored` tokens hold."""
        ...

    def growth(self, rounds: int) -> int:
        """What the next round needs."""
        ...

    def fitting_rounds(self, rounds: int, num_decoding: int, limit: int) -> int:
        """How many rounds fit from here, `limit` at most."""
        ...

    def grow(self, rounds: int, count: int, num_decoding: int) -> None:
        """Takes what the next `count` rounds need, which must be free."""
        ...

    def start_decoding(self, offset: int) -> None: ...

    def stop_decoding(self, offset: int) -> None: ...

    def release(self, index: int, stored: int) -> None:
        """Gives back all that a sequence with `stored` tokens holds."""
        ...

    def swap_out(self, stored: int) -> int:
        """Blocks copied to host memory, or 0 if that has no room. Frees nothing."""
        ...

    def swap_in(self, stored: int) -> int:
        """Blocks copied back, with room for one more token, or 0 if they do not fit."""
        ...

    def is_stranded(self, index: int) -> bool:
        """Whether the free slots would be enough for a waiting request, but not as they are placed."""
        ...


def make_memory(config: Config, requests: list[Request]) -> LeapMemory:
    """An empty pool for `requests`, which can all run."""
    if config.allocator not in RESERVATIONS:
        return BlockCounts(config)
    allocator = config.make_allocator(NullLog())
    assert isinstance(allocator, ContiguousAllocator)
    return Ranges(allocator, requests)


class BlockCounts:
    """Paged memory. Any free block is as good as any other, so it is enough to count them."""

    def __init__(self, config: Config) -> None:
        self.block_size = config.block_size
        self.free = config.num_pool_blocks
        self.host_free = config.num_host_blocks
        self.traffic = Traffic()
        self._watermark = int(config.watermark * config.num_pool_blocks)
        # [p]: decoding sequences that start a new block in the rounds that leave p when divided by block_size
        self._phases = [0] * config.block_size

    def admit(self, index: int, num_pending: int, num_tokens: int, *, is_busy: bool) -> bool:
        available = self.free - self._watermark if is_busy else self.free
        if -(-num_pending // self.block_size) > available:
            return False
        self.free -= -(-num_tokens // self.block_size)
        return True

    def extend(self, stored: int, num_tokens: int) -> int:
        return -(-(stored + num_tokens) // self.block_size) + -stored // self.block_size

    def growth(self, rounds: int) -> int:
        return self._phases[rounds % self.block_size]

    def fitting_rounds(self, rounds: int, num_decoding: int, limit: int) -> int:
        if (limit // self.block_size + 1) * num_decoding <= self.free:
            return limit
        cycles, left = divmod(self.free, num_decoding)  # in block_size rounds each sequence takes one block
        fitting = cycles * self.block_size
        if fitting >= limit:
            return limit
        phase = rounds % self.block_size
        for needed in chain(self._phases[phase:], self._phases[:phase]):
            left -= needed
            if left < 0:
                break
            fitting += 1
        return min(fitting, limit)

    def grow(self, rounds: int, count: int, num_decoding: int) -> None:
        cycles, rest = divmod(count, self.block_size)
        phase = rounds % self.block_size
        end = phase + rest
        self.free -= cycles * num_decoding + sum(self._phases[phase:end])
        if end > self.block_size:
            self.free -= sum(self._phases[: end - self.block_size])

    def start_decoding(self, offset: int) -> None:
        self._phases[-offset % self.block_size] += 1

    def stop_decoding(self, offset: int) -> None:
        self._phases[-offset % self.block_size] -= 1

    def release(self, index: int, stored: int) -> None:
        self.free += -(-stored // self.block_size)

    def swap_out(self, stored: int) -> int:
        blocks = -(-stored // self.block_size)
        if blocks > self.host_free:
            return 0
        self.host_free -= blocks
        self.traffic.swapped_out_blocks += blocks
        return blocks

    def swap_in(self, stored: int) -> int:
        needed = stored // self.block_size + 1
        if needed > self.free:
            return 0
        blocks = -(-stored // self.block_size)
        self.free -= needed
        self.host_free += blocks
        self.traffic.swapped_in_blocks += blocks
        return blocks

    def is_stranded(self, index: int) -> bool:
        return False  # free blocks that have enough slots are enough blocks


class Ranges:
    """Contiguous reservations, with real addresses and holes. What is held never grows."""

    def __init__(self, allocator: ContiguousAllocator, requests: list[Request]) -> None:
        self.placement = allocator.placement
        self.free = allocator.num_free_slots
        self.traffic = allocator.traffic
        self.lengths = [allocator.reservation(request) for request in requests]  # by index
        self._starts: dict[int, int] = {}  # by index, of those that hold a range
        self._watermark = allocator.num_watermark_slots

    def renumber(self, new_index: dict[int, int], lengths: list[int]) -> None:
        """The same ranges, held by the same requests under other numbers; `lengths` are by those."""
        self._starts = {new_index[index]: start for index, start in self._starts.items()}
        self.lengths = lengths

    def admit(self, index: int, num_pending: int, num_tokens: int, *, is_busy: bool) -> bool:
        length = self.lengths[index]
        available = self.free - self._watermark if is_busy else self.free
        start = self.placement.place(length) if self.placement.rounded(length) <= available else None
        if start is None:
            return False
        self._starts[index] = start
        self.free = self.placement.num_free
        return True

    def extend(self, stored: int, num_tokens: int) -> int:
        return 0

    def growth(self, rounds: int) -> int:
        return 0

    def fitting_rounds(self, rounds: int, num_decoding: int, limit: int) -> int:
        return limit

    def grow(self, rounds: int, count: int, num_decoding: int) -> None: ...

    def start_decoding(self, offset: int) -> None: ...

    def stop_decoding(self, offset: int) -> None: ...

    def release(self, index: int, stored: int) -> None:
        self.placement.release(self._starts.pop(index), self.lengths[index])
        self.free = self.placement.num_free

    def swap_out(self, stored: int) -> int:
        raise AssertionError("a reservation made in full at admission is never preempted")

    def swap_in(self, stored: int) -> int:
        raise AssertionError("a reservation made in full at admission is never preempted")

    def is_stranded(self, index: int) -> bool:
        length = self.lengths[index]
        return 0 < self.free >= length and self.placement.find(length) is None
