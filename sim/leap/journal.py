"""What a leaping server writes down: little enough to cost nothing, and all that the report needs."""

from array import array


def _column() -> "array[int]":
    return array("q")


class Journal:
    """Spans in which sequences run, and what happened between them. Steps count from 0.

    `num_steps` is the number of steps done, and so the one in the making.

    A span is the steps [first, end) in which a sequence stores `tokens` tokens in the first step, `stored`
    with those, and one more in every later round. A chunk that leaves some of its prefill for later is a
    span of one step.
    """

    def __init__(self, num_requests: int) -> None:
        self.num_steps = 0
        self.sequences = _column()  # by span: index of the request
        self.firsts = _column()
        self.ends = _column()
        self.tokens = _column()
        self.stored = _column()
        self.stalls = _column()  # steps that were no round: they ran prompts only
        self.recomputed = _column()  # steps that sent a sequence back to `waiting`, one entry each
        self.swapped_out = _column()
        self.swapped_in = _column()
        self.idle: list[tuple[int, int]] = []  # (step, picoseconds without work before it)
        self.stranded: list[tuple[int, bool]] = [(0, False)]  # from a step on: would the head be stranded?
        self.first_token_steps = [0] * num_requests  # by index, the step at whose end it came
        self.finish_steps = [0] * num_requests
        self.preemptions = [0] * num_requests
        self.later_prefills: list[tuple[int, int]] = []  # (index, tokens) of admissions after the first
        self.carried_stored: list[int] = []  # of the first spans: see `carry`
        self.num_in_service = 0  # requests that were running before all these steps
        self._open_spans = [0] * num_requests

    def open(self, index: int, tokens: int, stored: int) -> None:
        """Starts a span with this step, and ends it there unless it is closed later."""
        self._open_spans[index] = len(self.ends)
        self.sequences.append(index)
        self.firsts.append(self.num_steps)
        self.ends.append(self.num_steps + 1)
        self.tokens.append(tokens)
        self.stored.append(stored)

    def carry(self, index: int, stored: int) -> None:
        """Starts the span of a sequence that was running, with `stored` tokens, before all these steps.

        Whether the first step stores one of its tokens is not known yet: `sim.leap.series` adds it.
        """
        self.open(index, 0, stored)
        self.carried_stored.append(stored)

    def close(self, index: int) -> None:
        """Ends the span that the request is in: this step has no part in it."""
        self.ends[self._open_spans[index]] = self.num_steps

    def strand(self, is_stranded: bool) -> None:
        """From this step on, the head of `waiting` is stranded or not, if there is a head."""
        if is_stranded != self.stranded[-1][1]:
            self.stranded.append((self.num_steps, is_stranded))
