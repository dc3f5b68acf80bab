"""Who waits: preempted requests that lost their memory, in front of new ones in order of arrival."""

from bisect import bisect_right

from sim.leap.clock import LazyClock


class Waiting:
    """A queue that asks the clock who has arrived only when nobody else is known to wait."""

    def __init__(self, arrivals_ps: list[int], clock: LazyClock) -> None:
        self._arrivals_ps = arrivals_ps  # by index, in order
        self._clock = clock
        self.returned: list[int] = []  # the last is the first to go
        self._next_new = 0
        self._num_arrived = 0  # as far as known

    def head(self) -> int | None:
        """The index of the request that is first in the queue."""
        if self.returned:
            return self.returned[-1]
        next_new = self._next_new
        if next_new == self._num_arrived:
            if next_new == len(self._arrivals_ps):
                return None
            now_ps = self._clock.now_ps()
            if self._arrivals_ps[next_new] > now_ps:
                return None
            self._num_arrived = bisect_right(self._arrivals_ps, now_ps, lo=next_new)
        return next_new

    def pop(self) -> None:
        """Takes the head out of the queue."""
        if self.returned:
            self.returned.pop()
        else:
            self._next_new += 1

    def push_front(self, index: int) -> None:
        """Puts a preempted request in front of all others."""
        self.returned.append(index)

    @property
    def num_taken(self) -> int:
        """How many requests have been admitted at least once: all before that place."""
        return self._next_new

    def take_up(self, num_taken: int) -> None:
        """Where another queue left off: the first `num_taken` have been admitted before."""
        self._next_new = self._num_arrived = num_taken

    def next_new(self) -> int | None:
        """The first of those that never ran, arrived or not."""
        return self._next_new if self._next_new < len(self._arrivals_ps) else None

    def next_arrival_ps(self) -> int | None:
        """When the next request comes; None where somebody waits, or nobody comes any more.

        Ask `head` first: who has arrived is not looked up again.
        """
        if self.returned or self._next_new < self._num_arrived or self._next_new == len(self._arrivals_ps):
            return None
        return self._arrivals_ps[self._next_new]
