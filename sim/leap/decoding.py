"""Who decodes: one number a sequence, and nothing to do for it from round to round."""

from bisect import insort
from heapq import heappop, heappush

STOPPED = -1  # the end round of a sequence that does not decode


class Decoding:
    """The sequences that store one token in every round.

    Of each only `offset = stored - rounds` is kept, which does not change while `rounds`, the rounds done,
    goes on. It ends after round `final - offset`, with `final` tokens stored.
    """

    def __init__(self, final: list[int]) -> None:
        self.rounds = 0
        self.count = 0
        self.sum_stored = 0
        self._final = final  # by index
        self._offsets = [0] * len(final)
        self._end_rounds = [STOPPED] * len(final)
        self._ends: list[int] = []  # heap of end round x number of requests + index; some have stopped since
        self._by_age: list[int] = []  # oldest first, with some that have stopped

    def start(self, index: int, stored: int) -> int:
        """A sequence joins, which has `stored` tokens after the rounds done; returns its offset."""
        offset = stored - self.rounds
        end_round = self._final[index] - offset
        self._offsets[index] = offset
        self._end_rounds[index] = end_round
        heappush(self._ends, end_round * len(self._final) + index)
        self.count += 1
        self.sum_stored += stored
        by_age = self._by_age
        if len(by_age) > 2 * self.count + 256:
            by_age[:] = [one for one in by_age if self._end_rounds[one] != STOPPED]
        if by_age and index < by_age[-1]:
            insort(by_age, index)
        else:
            by_age.append(index)
        return offset

    def stop(self, index: int, stored: int) -> int:
        """A sequence leaves, with `stored` tokens; returns its offset."""
        self._end_rounds[index] = STOPPED
        self.count -= 1
        self.sum_stored -= stored
        return self._offsets[index]

    def members(self) -> list[tuple[int, int]]:
        """Who decodes, oldest first, and the tokens that each has stored."""
        present = sorted({index for index in self._by_age if self._end_rounds[index] != STOPPED})
        return [(index, self._offsets[index] + self.rounds) for index in present]

    def run(self, num_rounds: int) -> None:
        """Every sequence stores `num_rounds` tokens."""
        self.rounds += num_rounds
        self.sum_stored += num_rounds * self.count

    def rounds_to_end(self) -> int:
        """Rounds in which nobody can end but in the last."""
        return self._ends[0] // len(self._final) - self.rounds

    def pop_ended(self) -> int | None:
        """One that has stored all it ever will, oldest first; it still has to `stop`."""
        ends, num_requests = self._ends, len(self._final)
        while ends and ends[0] < (self.rounds + 1) * num_requests:
            end_round, index = divmod(heappop(ends), num_requests)
            if self._end_rounds[index] == end_round:  # else it was preempted since
                return index
        return None

    def pop_youngest(self) -> tuple[int, int]:
        """The request that arrived last, and its stored tokens; it still has to `stop`."""
        index = self._by_age.pop()
        while self._end_rounds[index] == STOPPED:
            index = self._by_age.pop()
        return index, self._offsets[index] + self.rounds
