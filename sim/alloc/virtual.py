"""Contiguous virtual addresses over physical pages on demand: vAttention (Prabhu et al., arXiv 2405.04437).

Each layer's K and each layer's V is one virtual tensor, in which a sequence has room for the maximum
length from the start; a page of physical memory is mapped once its first token is due. All 2 x layers
tensors of a sequence grow together, so one *page* here is the group of pages, one in each tensor, that
hold the same tokens:

    tokens per page = page bytes // (kv heads x bytes of a head's vector)       llama-3-8b: 64 KiB -> 32

The paper lets a token straddle two pages; here a page holds whole tokens, and the few bytes at its end
that hold none are not part of the pool. Kernels see plain contiguous tensors, so the block table exists
only as page-table entries of the GPU. 2 MiB is what CUDA's virtual memory calls give; smaller pages need
the paper's driver. Not modelled: the time to map a page, which the paper hides behind computing.
"""

from collections.abc import Iterable
from typing import Any

from sim.alloc.blocks import BlockPool
from sim.alloc.protocol import GRANTED, Granted, Short, Traffic, Usage
from sim.alloc.usage import page_usage
from sim.events import Kind, Sink
from sim.request import Request, Sequence, SequenceGroup

PAGE_TABLE_ENTRY_BYTES = 8


class VirtualAllocator:
    """Holds `ceil(tokens / page_tokens)` pages for each sequence, wherever they are. Nothing is shared.

    The sequences that are forked later have their pages from admission on, because a fork cannot fail.
    """

    unit = "pages"

    def __init__(
        self, num_pages: int, page_tokens: int, num_tensors: int, log: Sink, watermark: float = 0.0
    ) -> None:
        self.page_tokens = page_tokens
        self.num_slots = num_pages * page_tokens
        self.num_watermark_pages = int(watermark * num_pages)
        self.pages = BlockPool(num_pages)
        self.tables: dict[Sequence, list[int]] = {}
        self.traffic = Traffic()
        self._num_tensors = num_tensors
        self._log = log

    @property
    def num_free_slots(self) -> int:
        return self.pages.num_free * self.page_tokens

    @property
    def num_cached_slots(self) -> int:
        return 0

    def pages_for(self, num_tokens: int) -> int:
        """Pages that `num_tokens` tokens fill, the last one perhaps in part."""
        return -(-num_tokens // self.page_tokens)

    def never_fits(self, request: Request) -> Short | None:
        needed = request.width * self.pages_for(request.worst_case_tokens)
        return Short(needed, self.pages.num_blocks) if needed > self.pages.num_blocks else None

    def uncached_tokens(self, group: SequenceGroup) -> int:
        return group.num_pending

    def admit(self, group: SequenceGroup, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        num_input = group.sequences[0].num_pending
        needed = len(group.sequences) * self.pages_for(num_input)
        available = self.pages.num_free - (self.num_watermark_pages if keep_watermark else 0)
        if needed > available:
            return Short(needed, max(available, 0))
        for sequence in group.sequences:
            self.tables[sequence] = []
            comes_by_chunks = group.active == [sequence]
            self._map(sequence, num_tokens if comes_by_chunks else num_input)
        return GRANTED

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        needed = self.pages_for(sequence.stored + num_tokens) - len(self.tables[sequence])
        if needed > self.pages.num_free:
            return Short(needed, self.pages.num_free)
        self._map(sequence, sequence.stored + num_tokens)
        return GRANTED

    def _map(self, sequence: Sequence, num_tokens: int) -> None:
        """Pages for the first `num_tokens` tokens, which must be there."""
        table = self.tables[sequence]
        if (count := self.pages_for(num_tokens) - len(table)) <= 0:
            return
        pages, _ = self.pages.take(count)
        table.extend(pages)
        left = self.pages.num_free
        why = f"{num_tokens} tokens reach into {count} more pages of {self.page_tokens}, {left} left free"
        self._emit(Kind.ALLOC, sequence, why, blocks=pages)

    def fork(self, group: SequenceGroup) -> None:
        for sequence in group.sequences[1:]:
            self._copy(group.sequences[0], sequence)

    def reorder(self, group: SequenceGroup, parents: list[int]) -> None:
        # All of these copies read before any of them writes: one may fill the pages that another reads.
        for sequence, parent in zip(group.sequences, parents, strict=True):
            if parent != sequence.index:
                self._copy(group.sequences[parent], sequence)

    def _copy(self, parent: Sequence, child: Sequence) -> None:
        count = self.pages_for(parent.stored)
        self.traffic.copies += 1
        self.traffic.copied_tokens += parent.stored
        self._emit(
            Kind.COPY,
            child,
            f"sequence {child.index} goes on from sequence {parent.index}: {parent.stored} tokens copied",
            source_blocks=self.tables[parent][:count],
            destination_blocks=self.tables[child][:count],
            tokens=parent.stored,
        )

    def release(self, group: SequenceGroup, why: str) -> None:
        for sequence in group.sequences:
            freed = self.pages.drop(reversed(self.tables.pop(sequence)))
            self._emit(Kind.FREE, sequence, why, blocks=freed)

    def host_has_room(self, group: SequenceGroup) -> bool:
        return False

    def swap_out(self, group: SequenceGroup, why: str) -> None:
        raise AssertionError("pages do not swap: `host_has_room` says so")

    def swap_in(self, group: SequenceGroup, tokens: list[int], why: str) -> Granted | Short:
        raise AssertionError("pages do not swap: `host_has_room` says so")

    def settle(self, sequence: Sequence, before: int, *, was_prefilling: bool) -> None:
        raise AssertionError("windows and drafts are refused for virtual memory: they need blocks")

    def table_bytes(self) -> int:
        num_mapped = self.pages.num_blocks - self.pages.num_free
        return PAGE_TABLE_ENTRY_BYTES * self._num_tensors * num_mapped

    def usage(self, groups: Iterable[SequenceGroup]) -> Usage:
        return page_usage(self.tables, groups, self.page_tokens)

    def is_stranded(self, group: SequenceGroup) -> bool:
        return False  # any free pages will do

    def check(self) -> None:
        self.pages.check(self.tables.values())

    def _emit(self, kind: Kind, sequence: Sequence, why: str, **changes: Any) -> None:
        """An event of one sequence; its index is given where the request has several."""
        which = {"sequence": sequence.index} if sequence.request.width > 1 else {}
        self._log.emit(kind, sequence.request.id, why, **which, **changes)
