"""Free blocks on loan to a neighbour (the idea of Infinite-LLM, arXiv 2401.02669, in its simplest form).

A replica that is short, to admit or to grow, first asks its neighbours; only what they cannot give makes it
wait or preempt. Who has requests waiting lends nothing. A loan moves the blocks from the lender's pool into
the borrower's, so that every slot of the fleet is in exactly one pool, and in one class of one ledger. The
borrower fills its own blocks first, and a borrowed block goes home as soon as nobody uses it; a lender cannot
call it back. With n blocks each, a replica knows its own blocks as 0 to n - 1, and

    n * (1 + k) + b    block b of replica k

Attention reads borrowed blocks over the link between devices. That time adds to the step's: it is what the
copy into local memory would take. What the lender's own memory traffic suffers is left out.
"""

from collections import Counter
from collections.abc import Iterable

from sim.alloc import BlockPool, Granted, PagedAllocator, Short
from sim.alloc.fresh import FreshStack
from sim.batch import Batch
from sim.closed_timing import TimingModel
from sim.config import Config
from sim.events import Kind, Sink
from sim.hardware import get_hardware
from sim.make import table_shape
from sim.request import Sequence, SequenceGroup
from sim.server import Server


class LoanStack(FreshStack):
    """A free list from whose far end blocks leave and to which they come."""

    def take_last(self, count: int) -> list[int]:
        """Takes out the `count` blocks that would be used last."""
        taken = self[:count]
        del self[:count]
        return taken

    def put_last(self, blocks: list[int]) -> None:
        """More blocks, to be used last."""
        self[:0] = blocks

    def take_all(self, wanted: set[int]) -> list[int]:
        """Takes out those of `wanted` that are free."""
        taken = [block for block in self if block in wanted]
        if taken:
            self[:] = [block for block in self if block not in wanted]
        return taken


class LendingPool(BlockPool):
    """A pool whose free blocks may leave it, and in which blocks of others may be."""

    def __init__(self, num_blocks: int, num_replicas: int) -> None:
        self._stack = LoanStack(num_blocks)
        super().__init__(num_blocks, fresh=self._stack)
        self.num_refs = [0] * (num_blocks * (1 + num_replicas))
        self.lent: set[int] = set()
        self.borrowed: set[int] = set()

    def lend(self, count: int) -> list[int]:
        """Takes `count` free blocks out, those that would be used last."""
        blocks = self._stack.take_last(count)
        self.lent.update(blocks)
        return blocks

    def take_back(self, blocks: list[int]) -> None:
        """Lent blocks are home again."""
        self.lent.difference_update(blocks)
        self._stack.put_last(blocks)

    def receive(self, blocks: list[int]) -> None:
        """Blocks of a neighbour, by the numbers they have here; they are used last."""
        self.borrowed.update(blocks)
        self._stack.put_last(blocks)

    def give_back(self) -> list[int]:
        """Takes borrowed blocks out that nobody uses."""
        idle = self._stack.take_all(self.borrowed)
        self.borrowed.difference_update(idle)
        return idle

    def check(self, tables: Iterable[list[int]]) -> None:
        owners = Counter(block for table in tables for block in table)
        counted = {block: count for block, count in enumerate(self.num_refs) if count}
        assert counted == dict(owners), "reference counts differ from the tables"
        here = (set(range(self.num_blocks)) - self.lent) | self.borrowed
        assert sorted([*self._stack, *owners]) == sorted(here), "a block is lost, doubled or not here"


class BorrowingAllocator(PagedAllocator):
    """A paged allocator that asks its neighbours before it says `Short`."""

    def __init__(self, config: Config, log: Sink, index: int, market: "Market") -> None:
        super().__init__(
            config.num_pool_blocks,
            config.block_size,
            log,
            num_host_blocks=config.num_host_blocks,
            watermark=config.watermark,
            table_shape=table_shape(config),
        )
        self.index = index
        self.device = self.pool = LendingPool(config.num_pool_blocks, market.num_replicas)
        self._market = market

    def admit(self, group: SequenceGroup, num_tokens: int, *, keep_watermark: bool) -> Granted | Short:
        answer = super().admit(group, num_tokens, keep_watermark=keep_watermark)
        if isinstance(answer, Short) and self._market.lend(self, answer, group.request.id):
            return super().admit(group, num_tokens, keep_watermark=keep_watermark)
        return answer

    def grow(self, sequence: Sequence, num_tokens: int) -> Granted | Short:
        answer = super().grow(sequence, num_tokens)
        if isinstance(answer, Short) and self._market.lend(self, answer, sequence.name):
            return super().grow(sequence, num_tokens)
        return answer

    def swap_in(self, group: SequenceGroup, tokens: list[int], why: str) -> Granted | Short:
        answer = super().swap_in(group, tokens, why)
        if isinstance(answer, Short) and self._market.lend(self, answer, group.request.id):
            return super().swap_in(group, tokens, why)
        return answer

    def num_borrowed_tokens(self, sequence: Sequence, start: int, stop: int) -> int:
        """Positions in [start, stop) of the sequence that lie in borrowed blocks."""
        size, borrowed = self.block_size, self.pool.borrowed
        places = [place for place, block in enumerate(self.tables[sequence]) if block in borrowed]
        return sum(max(0, min(stop, (place + 1) * size) - max(start, place * size)) for place in places)


class Market:
    """Moves free blocks between the pools of `servers`, which are set before the first step."""

    def __init__(self, num_replicas: int) -> None:
        self.num_replicas = num_replicas
        self.servers: list[Server] = []
        self.num_loans = 0  # blocks lent, each time anew
        self.peak_on_loan = 0  # blocks on loan at once

    def lend(self, borrower: BorrowingAllocator, short: Short, who: str) -> bool:
        """Gets `borrower` what it lacks, from whoever has most; False, and nothing moves, if none has."""
        missing = short.needed - short.available
        lenders = [self._pool_of(server) for server in self.servers if not server.scheduler.waiting]
        lenders = [lender for lender in lenders if lender is not borrower and lender.pool.num_free]
        if missing > sum(lender.pool.num_free for lender in lenders):
            return False
        why = f"where {who} needs {short.needed} blocks and {short.available} are free"
        for lender in sorted(lenders, key=lambda one: (-one.pool.num_free, one.index)):
            if count := min(missing, lender.pool.num_free):
                self._move(lender, borrower, count, why)
                missing -= count
        self.peak_on_loan = max(self.peak_on_loan, sum(len(self._pool_of(s).pool.lent) for s in self.servers))
        return True

    def settle(self, borrower: BorrowingAllocator) -> None:
        """Borrowed blocks that nobody uses go home."""
        num_blocks = borrower.pool.num_blocks
        going: dict[int, list[int]] = {}
        for block in borrower.pool.give_back():
            going.setdefault(block // num_blocks - 1, []).append(block % num_blocks)
        for owner, blocks in sorted(going.items()):
            lender = self._pool_of(self.servers[owner])
            lender.pool.take_back(blocks)
            self._resize(lender, borrower, -len(blocks))
            self._note(Kind.FREE, lender, borrower, blocks, f"come back from replica {borrower.index}")

    def _move(self, lender: BorrowingAllocator, borrower: BorrowingAllocator, count: int, why: str) -> None:
        blocks = lender.pool.lend(count)
        first = lender.pool.num_blocks * (1 + lender.index)
        borrower.pool.receive([first + block for block in blocks])
        self._resize(lender, borrower, count)
        self.num_loans += count
        self._note(Kind.ALLOC, lender, borrower, blocks, f"lent to replica {borrower.index}, {why}")

    def _resize(self, lender: BorrowingAllocator, borrower: BorrowingAllocator, num_blocks: int) -> None:
        lender.num_slots -= num_blocks * lender.block_size
        borrower.num_slots += num_blocks * lender.block_size

    def _note(
        self,
        kind: Kind,
        lender: BorrowingAllocator,
        borrower: BorrowingAllocator,
        blocks: list[int],
        why: str,
    ) -> None:
        """In the lender's log a loan is held by nobody's request."""
        log = self.servers[lender.index].log
        log.time = self.servers[borrower.index].log.time
        log.emit(kind, None, f"{len(blocks)} free blocks {why}", blocks=blocks, replica=borrower.index)

    def _pool_of(self, server: Server) -> BorrowingAllocator:
        assert isinstance(server.allocator, BorrowingAllocator)
        return server.allocator


class LinkExecutor:
    """What `timing` says, and what borrowed blocks cost: each of their tokens crosses the link.

    As many as attention reads, and those that are written. Under `unit` timing a step lasts 1 s all the same.
    """

    def __init__(self, config: Config, timing: TimingModel, allocator: BorrowingAllocator) -> None:
        kv_bytes = config.rank_spec.kv_bytes_per_token(config.kv_dtype)
        link = get_hardware(config.hardware).peer_bytes_per_s
        self._seconds_per_token = 0.0 if config.timing == "unit" else kv_bytes / link
        self._timing = timing
        self._allocator = allocator

    def execute(self, batch: Batch) -> float:
        return self._timing.seconds(batch) + self._seconds_per_token * self._num_tokens(batch)

    def _num_tokens(self, batch: Batch) -> int:
        if not self._allocator.pool.borrowed:
            return 0
        spans = [(chunk.sequence, chunk.start, chunk.context) for chunk in batch.chunks]
        spans += [(sequence, sequence.stored, sequence.stored + 1) for sequence in batch.decodes]
        count = self._allocator.num_borrowed_tokens
        return sum(count(sequence, 0, stop) + count(sequence, start, stop) for sequence, start, stop in spans)
