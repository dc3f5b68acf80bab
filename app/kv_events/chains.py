"""From hashes of blocks to who holds which block: the chains of a prefix cache as an event log of ours.

The stream says neither requests nor places in memory. What it says are chains: a block follows its parent.
A chain takes the place of a request here; two that begin alike share blocks, as their requests did. A block
gets the lowest number that is free, which is a place in the picture and not vLLM's. A step is one batch.
"""

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

from app.kv_events.stream import Batch, Cleared, Hash, Removed, Stored
from app.recorded import CHAIN
from sim import InputError
from sim.events import EventLog, Kind
from sim.ledger import CLASSES
from sim.words import counted

ON_DEVICE = (None, "GPU")


@dataclass(slots=True, eq=False)
class Chain:
    """Blocks of one prompt and its answer, from its start on."""

    name: str
    arrival_s: float
    hashes: list[Hash] = field(default_factory=list[Hash])
    blocks: list[int] = field(default_factory=list[int])
    most_blocks: int = 0  # at any time


class Chains:
    """Folds batches into `log`. All blocks must be of one size."""

    def __init__(self) -> None:
        self.log = EventLog()
        self.chains: list[Chain] = []  # all that ever were, in order of arrival
        self.block_size = 0
        self.num_blocks = 0  # at most so many at once
        self.num_hits = self.num_stored = self.num_removed = self.num_elsewhere = self.num_unknown = 0
        self.ledgers: list[tuple[float, float, int, int, int]] = []  # end, duration, tokens, chains, blocks
        self._alive: dict[Chain, None] = {}
        self._holders: dict[int, dict[Chain, None]] = defaultdict(dict)
        self._copies: dict[Hash, list[int]] = defaultdict(list)  # blocks of this content
        self._freed: list[int] = []
        self._fresh = count()
        self._start: float | None = None

    def take(self, batch: Batch) -> None:
        """One step: what was stored, removed and cleared, and what the cache holds after it."""
        if self._start is None:
            self._start = self._now = batch.time
        began, self._now = self._now, max(self._now, batch.time)  # clocks may be set back
        self.log.step += 1
        self.log.time = began - self._start
        num_tokens, touched = 0, dict[Chain, None]()
        for event in batch.events:
            match event:
                case Cleared():
                    for chain in list(self._alive):
                        self._cut(chain, 0, "all blocks were cleared")
                case Stored() | Removed() if event.medium not in ON_DEVICE:
                    self.num_elsewhere += len(event.hashes)
                case Stored():
                    touched[self._store(event)] = None
                    num_tokens += event.num_tokens
                case Removed():
                    for one in event.hashes:
                        self._remove(one)
        self._close_step(self._now - began, num_tokens, len(touched))

    def _store(self, event: Stored) -> Chain:
        self.block_size = self.block_size or event.block_size
        if event.block_size != self.block_size:
            raise InputError(
                f"blocks of {event.block_size} beside blocks of {self.block_size}: cannot be drawn"
            )
        chain = self._chain_of(event.parent)
        blocks = [heapq.heappop(self._freed) if self._freed else next(self._fresh) for _ in event.hashes]
        for one, block in zip(event.hashes, blocks, strict=True):
            self._copies[one].append(block)
            self._holders[block][chain] = None
        chain.hashes += event.hashes
        chain.blocks += blocks
        chain.most_blocks = max(chain.most_blocks, len(chain.blocks))
        self.num_stored += len(blocks)
        self.num_blocks = max(self.num_blocks, len(self._holders))
        full = f"{counted(len(blocks), 'blocks')} of {self.block_size}"
        why = f"{full} {'is' if len(blocks) == 1 else 'are'} full and can be found"
        self.log.emit(Kind.ALLOC, chain.name, why, blocks=blocks)
        self._tell_length(chain, event.num_tokens, f"{counted(len(chain.blocks), 'blocks')} in the chain")
        return chain

    def _chain_of(self, parent: Hash | None) -> Chain:
        """The chain that goes on behind `parent`: one that ends there, or a new one that shares up to it."""
        if parent is None:
            return self._new_chain("a prompt that nobody began with")
        copies = self._copies.get(parent)
        if not copies:
            self.num_unknown += 1
            return self._new_chain("its parent was stored before the stream began")
        owner = next(iter(self._holders[copies[-1]]))
        for chain in self._holders[copies[-1]]:
            if chain.blocks[-1] == copies[-1]:
                return chain
        shared = owner.blocks[: owner.blocks.index(copies[-1]) + 1]
        return self._new_chain(f"begins as {owner.name} does", owner.hashes[: len(shared)], shared)

    def _new_chain(
        self, why: str, hashes: list[Hash] | None = None, blocks: list[int] | None = None
    ) -> Chain:
        chain = Chain(f"{CHAIN}{len(self.chains)}", self.log.time, list(hashes or ()), list(blocks or ()))
        self.chains.append(chain)
        self._alive[chain] = None
        num_hit = len(chain.blocks) * self.block_size
        self.num_hits += len(chain.blocks)
        chain.most_blocks = len(chain.blocks)
        self.log.emit(Kind.ARRIVE, chain.name, why, prompt=max(1, num_hit), max_tokens=1)
        if chain.blocks:
            for block in chain.blocks:
                self._holders[block][chain] = None
            told = f"shares {counted(len(chain.blocks), 'blocks')} with another chain"
            self.log.emit(Kind.HIT, chain.name, told, blocks=list(chain.blocks), tokens=num_hit)
        self.log.emit(Kind.ADMIT, chain.name, why, tokens=0, hit=num_hit)
        return chain

    def _remove(self, one: Hash) -> None:
        copies = self._copies.get(one)
        if not copies:
            self.num_unknown += 1
            return
        block = copies[0]
        self.num_removed += 1
        for chain in list(self._holders[block]):
            place = chain.blocks.index(block)
            rest = chain.hashes[place + 1 :], chain.blocks[place + 1 :]
            if rest[1]:  # what follows stays in memory, though no prompt leads there any more
                self._new_chain(f"is what {chain.name} left behind", *rest)
            self._cut(chain, place, "evicted")

    def _cut(self, chain: Chain, place: int, why: str) -> None:
        """The chain ends before `place`. Blocks that nobody else holds are free."""
        gone = list(zip(chain.hashes[place:], chain.blocks[place:], strict=True))
        del chain.hashes[place:], chain.blocks[place:]
        freed: list[int] = []
        shared: list[int] = []
        for one, block in reversed(gone):
            del self._holders[block][chain]
            if self._holders[block]:
                shared.append(block)
                continue
            del self._holders[block]
            self._copies[one].remove(block)
            if not self._copies[one]:
                del self._copies[one]
            heapq.heappush(self._freed, block)
            freed.append(block)
        told = f"{why}: {counted(len(freed), 'blocks')} free, {len(shared)} held by others"
        self.log.emit(Kind.FREE, chain.name, told, blocks=freed, **({"shared": shared} if shared else {}))
        if chain.blocks:
            self._tell_length(chain, 0, f"keeps {counted(len(chain.blocks), 'blocks')}")
        else:
            del self._alive[chain]
            self.log.emit(Kind.FINISH, chain.name, "nothing of it is left", emitted=0)

    def _tell_length(self, chain: Chain, num_new: int, why: str) -> None:
        stored = len(chain.blocks) * self.block_size
        self.log.emit(Kind.PREFILL, chain.name, why, tokens=num_new, stored=stored, emitted=0)

    def _close_step(self, duration_s: float, num_tokens: int, num_touched: int) -> None:
        assert self._start is not None
        self.log.time = self._now - self._start
        num_blocks = len(self._holders)
        self.ledgers.append((self.log.time, duration_s, num_tokens, len(self._alive), num_blocks))
        live = num_blocks * self.block_size
        ledger = {"pool": 0, **dict.fromkeys(CLASSES, 0), "live": live}  # the pool is known at the end
        held = f"{counted(num_blocks, 'blocks')} in {counted(len(self._alive), 'chains')}"
        self.log.emit(
            Kind.STEP, None, f"can be found: {held}", duration=duration_s, tokens=num_tokens,
            batch=num_touched, running=len(self._alive), waiting=0, swapped=0, ledger=ledger,
        )  # fmt: skip
