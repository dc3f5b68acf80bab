"""What a leaping server writes down: little enough to cost nothing, and all that the report needs."""

from array import array


def _column() -> "array[int]":
    return array("q")


class Journal:
    """Spans of time in which a sequence runs, and what happened between them. Steps count from 0.

    A span is a stretch of steps [first, end) in which a sequence stores `tokens` tokens in the first
    step, `stored` with those, and one more in every later round. A chunk that does not finish its prefill is
    a span of one step.
    """

    def __init__(self, num_requests: int) -> None:
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

    def open(self, index: int, step: int, tokens: int, stored: int) -> int:
        """Starts a span; returns its number."""
        self.sequences.append(index)
        self.firsts.append(step)
        self.ends.append(step + 1)
        self.tokens.append(tokens)
        self.stored.append(stored)
        return len(self.ends) - 1

    def strand(self, step: int, is_stranded: bool) -> None:
        """From `step` on, the head of `waiting` is stranded or not, if there is a head."""
        if is_stranded != self.stranded[-1][1]:
            self.stranded.append((step, is_stranded))
