"""What is served: a request as the trace gives it, and its state while the server works on it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One row of a trace. Token counts are integers, `arrival_s` is seconds from the trace's start.

    `output` is what really happened. No scheduler or allocator may look at it, except the Oracle
    and Pow2 baselines, whose definition it is. `max_tokens` is what the client asked for.

    What the prompt holds, for prefix sharing, is known from `tokens` or from `blocks`, or only its start
    from `prefix`; where `prefix` stands beside one of the others, the two agree (`sim.trace.check`).
    """

    id: str
    arrival_s: float
    prompt: int
    output: int
    max_tokens: int
    n: int = 1  # samples of one prompt; 1 where `beam` is above 1
    beam: int = 1  # beam width
    beam_parents: tuple[tuple[int, ...], ...] | None = None  # [output - 1][beam]: parent index by decode step
    tokens: tuple[int, ...] | None = None  # [prompt] token ids
    blocks: tuple[int, ...] | None = None  # [ceil(prompt / block_tokens)] ids, each of a whole prefix
    block_tokens: int | None = None  # tokens of one of `blocks`
    prefix: str | None = None  # the first `prefix_tokens` are those of every request with this prefix
    prefix_tokens: int = 0
    session: str | None = None
    priority: int = 0

    @property
    def worst_case_tokens(self) -> int:
        """Slots that may be needed at most: the last token emitted is never stored."""
        return self.prompt + self.max_tokens - 1

    @property
    def final_tokens(self) -> int:
        """Slots that will really be needed at the end (looks at the true output length)."""
        return self.prompt + self.output - 1


@dataclass(slots=True, eq=False)
class Sequence:
    """One sample of a request while it is served.

        [0, stored)                 written: keys and values are in the cache
        [stored, input_tokens)      prompt (or recomputed) tokens still to be prefilled
        [0, prompt + emitted)       all tokens known so far

    In decode `stored == prompt + emitted - 1`: the last emitted token is stored by the next step.
    """

    request: Request
    order: int  # place in the trace's order of arrival; with `request.arrival_s` it says who is older
    stored: int = 0
    emitted: int = 0
    input_tokens: int = 0  # what this admission has to prefill: prompt + emitted at that time
    preemptions: int = 0
    prefills: list[int] = field(default_factory=list[int])  # tokens computed by each admission
    first_token_s: float | None = None
    finish_s: float | None = None
    reject_reason: str | None = None

    @property
    def is_prefilling(self) -> bool:
        return self.stored < self.input_tokens

    @property
    def num_pending(self) -> int:
        """Known tokens that are not stored yet: the rest of a prefill, or 1 in decode."""
        return self.request.prompt + self.emitted - self.stored

    @property
    def is_finished(self) -> bool:
        return self.emitted == self.request.output
