"""The time of a leaping run."""

from array import array

import numpy as np
from numpy.typing import NDArray

from sim.clock import all_step_ps, step_ps
from sim.closed_timing import ClosedTiming

MANY = 48  # steps from which arrays are faster than numbers
MOST = 1 << 16  # steps in one leap, and about as many are worked out at once
_LARGEST = 1 << 62


class Load:
    """What the step in the making will cost: see the properties of `Batch`."""

    __slots__ = ("context", "pairs", "sequences", "swapped", "tokens")

    def __init__(self) -> None:
        self.tokens = self.sequences = self.context = self.pairs = self.swapped = 0

    def start(self, num_decoding: int, sum_stored: int) -> None:
        """A new step, with its decodes; blocks swapped out on its behalf stay counted."""
        self.tokens = self.sequences = num_decoding
        self.context = self.pairs = sum_stored + num_decoding

    def add(self, start: int, num_tokens: int) -> None:
        """A chunk of one sequence."""
        self.tokens += num_tokens
        self.sequences += 1
        self.context += start + num_tokens
        self.pairs += num_tokens * start + num_tokens * (num_tokens + 1) // 2


class LazyClock:
    """Takes stretches of steps as they run, and works out how long they took once somebody asks."""

    def __init__(self, timing: ClosedTiming) -> None:
        self.durations: array[int] = array("q")  # picoseconds of each step worked out
        self._timing = timing
        self._now_ps = 0
        self._usual_ps = 1  # the last decode step that was worked out on its own: a guess at the next
        self._stretches: list[int] = []  # six numbers each: a count and a load
        self._num_steps = 0  # of all stretches

    def run(self, load: Load, count: int = 1) -> None:
        """Runs `count` steps, the first with this load; in each later one every sequence has grown by one."""
        self._stretches += (count, load.tokens, load.sequences, load.context, load.pairs, load.swapped)
        self._num_steps += count
        if self._num_steps > MOST:
            self.now_ps()

    def now_ps(self) -> int:
        """The time now, all steps run so far included."""
        if not self._stretches:
            return self._now_ps
        if self._num_steps == 1:
            self._settle_one(*self._stretches)
        elif self._num_steps < MANY:
            self._settle_one_by_one()
        else:
            self._settle_at_once()
        self._stretches.clear()
        self._num_steps = 0
        return self._now_ps

    def skip(self, idle_ps: int) -> None:
        """Lets time pass without steps, after all that were run so far."""
        self._now_ps = self.now_ps() + idle_ps

    def run_until(self, deadline_ps: int, load: Load, count: int) -> int:
        """Runs up to `count` decode steps, but none that starts at `deadline_ps` or later.

        Returns how many; these may be fewer than would fit.
        """
        tokens, context = load.tokens, load.context
        left_ps = deadline_ps - self.now_ps()
        count = min(count, left_ps // self._usual_ps + 1)
        if count < MANY:
            durations = self._timing.decode_ps(tokens, context, count)
            total = sum(durations)
            while total - durations[-1] >= left_ps:  # the last one starts too late
                total -= durations.pop()
            self.durations.fromlist(durations)
            self._now_ps += total
            self._usual_ps = durations[0]
            return len(durations)
        contexts = np.arange(context, context + count * tokens, tokens)
        durations = _few_enough(all_step_ps(self._timing.cost(tokens, tokens, contexts, contexts)))
        durations = durations[: 1 + int(np.searchsorted(np.cumsum(durations), min(left_ps, _LARGEST)))]
        self._book(durations)
        self._usual_ps = int(durations[0])
        return len(durations)

    def _settle_one(
        self, count: int, tokens: int, sequences: int, context: int, pairs: int, swapped: int
    ) -> None:
        if count > 1:
            durations = self._timing.decode_ps(tokens, context, count)
            self.durations.fromlist(durations)
            self._now_ps += sum(durations)
        else:
            duration = step_ps(self._timing.cost(tokens, sequences, context, pairs, swapped))
            self.durations.append(duration)
            self._now_ps += duration

    def _settle_one_by_one(self) -> None:
        numbers = iter(self._stretches)
        for stretch in zip(*[numbers] * 6, strict=True):
            self._settle_one(*stretch)

    def _settle_at_once(self) -> None:
        counts, tokens, sequences, context, pairs, swapped = np.array(self._stretches).reshape(-1, 6).T
        firsts = np.cumsum(counts) - counts
        tokens_of, steps = np.repeat(tokens, counts), np.arange(self._num_steps)
        sequences_of = np.repeat(sequences, counts)
        grown = tokens_of * steps  # less what had grown before the stretch began
        context_of = np.repeat(context - tokens * firsts, counts) + grown
        pairs_of = np.repeat(pairs - tokens * firsts, counts) + grown
        swapped_of = np.repeat(swapped, counts) if swapped.any() else 0
        durations = all_step_ps(self._timing.cost(tokens_of, sequences_of, context_of, pairs_of, swapped_of))
        while len(durations):
            self._book(some := _few_enough(durations))
            durations = durations[len(some) :]

    def _book(self, durations: NDArray[np.int64]) -> None:
        self.durations.frombytes(durations.tobytes())
        self._now_ps += int(durations.sum())


def _few_enough(durations: NDArray[np.int64]) -> NDArray[np.int64]:
    """As many of the first `durations` as cannot overflow when they are added up."""
    longest = int(durations.max())
    assert 0 < longest < _LARGEST, f"a step of {longest} ps"
    return durations[: max(1, _LARGEST // longest)]
