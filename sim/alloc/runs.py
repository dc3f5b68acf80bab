"""Two block sizes in one pool: small blocks, and large ones that are whole aligned runs of small ones.

A large block saves table entries and gives kernels long stretches to read; a small one wastes less at the
end of a sequence. Of the ways to have both, this one teaches most, since it is the one that CPUs took for
superpages (Navarro et al., "Practical, Transparent Operating System Support for Superpages", OSDI 2002),
and it costs no copies:

    reserve   the first small block of a run is taken from a run that is free as a whole
    fill      a sequence goes on in the run in which it is, while the next small block there is free
    promote   once one sequence has the whole run in order, its small blocks count as one large block
    break     when no whole run is free, others take small blocks: from spoilt runs first, then from the
              reservation with most left, which cannot become a large block any more

    ids       0   1   2   3 | 4   5   6   7 | 8   9  10  11
    holder    A   A   A   A | B   B   .   . | C   A   .   .      A: one large block, one spoilt

Nothing can be stranded, because small blocks always do. The other way, layers of different kinds with
blocks of different sizes (vLLM's hybrid models), mixes tokens of different worth into one pool.
"""

from collections.abc import Iterator

Run = int  # number of a run: its blocks are [run * run_blocks, (run + 1) * run_blocks)


class FreshRuns:
    """Fresh blocks by run.

    whole       all its blocks are fresh
    reserved    begun by one sequence, and still in order
    spoilt      a block was taken or given back out of order: good for small blocks only
    """

    def __init__(self, num_blocks: int, run_blocks: int) -> None:
        self.run_blocks = run_blocks
        self._num_fresh = num_blocks
        num_runs = -(-num_blocks // run_blocks)
        self._fresh = [set(range(run * run_blocks, (run + 1) * run_blocks)) for run in range(num_runs)]
        self._whole = list(range(num_runs - 1, -1, -1))
        self._reserved: dict[Run, None] = {}
        self._spoilt: dict[Run, None] = {}
        if num_blocks % run_blocks:  # the end of the pool is too short for a large block
            self._fresh[-1] = set(range(num_blocks - num_blocks % run_blocks, num_blocks))
            self._spoilt[self._whole.pop(0)] = None

    def __len__(self) -> int:
        return self._num_fresh

    def __iter__(self) -> Iterator[int]:
        return (block for blocks in self._fresh for block in blocks)

    def take(self, count: int, place: int, after: int | None) -> list[int]:
        taken: list[int] = []
        for offset in range(count):
            after = self._take_one(place + offset, after)
            taken.append(after)
        return taken

    def put(self, block: int) -> None:
        run = block // self.run_blocks
        self._fresh[run].add(block)
        self._num_fresh += 1
        self._reserved.pop(run, None)
        self._spoilt[run] = None
        if len(self._fresh[run]) == self.run_blocks:
            del self._spoilt[run]
            self._whole.append(run)

    def _take_one(self, place: int, after: int | None) -> int:
        starts_run = place % self.run_blocks == 0
        if after is not None and not starts_run:
            run = after // self.run_blocks
            if (after + 1) in self._fresh[run]:  # never in the next run: there is none free behind an end
                return self._remove(after + 1)
        if starts_run and self._whole:
            run = self._whole.pop()
            self._reserved[run] = None
            return self._remove(run * self.run_blocks)
        return self._break()

    def _break(self) -> int:
        """A small block where it does least harm."""
        if self._spoilt:
            run = next(iter(self._spoilt))
        elif self._reserved:
            run = max(self._reserved, key=lambda run: len(self._fresh[run]))
            del self._reserved[run]
            self._spoilt[run] = None
        else:
            run = self._whole.pop()
            self._spoilt[run] = None
        return self._remove(min(self._fresh[run]))

    def _remove(self, block: int) -> int:
        run = block // self.run_blocks
        self._fresh[run].remove(block)
        self._num_fresh -= 1
        if not self._fresh[run]:
            self._reserved.pop(run, None)
            self._spoilt.pop(run, None)
        return block


def is_large(table: list[int], place: int, run_blocks: int) -> bool:
    """Whether `table` has one whole run in order from `place` on, which is a multiple of `run_blocks`."""
    first = table[place]
    run = list(range(first, first + run_blocks))
    return first % run_blocks == 0 and table[place : place + run_blocks] == run
