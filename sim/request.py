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
    def width(self) -> int:
        """Sequences that run at once: samples or beams."""
        return max(self.n, self.beam)

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
    """One sample or beam of a request while it is served.

        [0, stored)                 written: keys and values are in the cache
        [stored, input_tokens)      prompt (or recomputed) tokens still to be prefilled
        [0, prompt + emitted)       all tokens known so far

    In decode `stored == prompt + emitted - 1`: the last emitted token is stored by the next step.
    When a forked group comes back after a preemption, all but its first sequence count the prompt's full
    blocks as stored at once: they share them, and the first computes them before any other runs.
    """

    request: Request
    index: int = 0  # among the samples of the request
    stored: int = 0
    emitted: int = 0
    input_tokens: int = 0  # what this admission has to prefill: prompt + emitted at that time
    most_stored: int = 0  # at any time so far: what lies below was in the cache once

    @property
    def name(self) -> str:
        """The request's id, with `/index` where it has several sequences."""
        return self.request.id if self.request.width == 1 else f"{self.request.id}/{self.index}"

    @property
    def is_prefilling(self) -> bool:
        """Whether part of its input is not stored yet."""
        return self.stored < self.input_tokens

    @property
    def num_known(self) -> int:
        """Tokens of the prompt and those emitted: all that is certain."""
        return self.request.prompt + self.emitted

    @property
    def num_pending(self) -> int:
        """Known tokens that are not stored yet: the rest of a prefill, or 1 in decode."""
        return self.num_known - self.stored

    @property
    def num_left(self) -> int:
        """Tokens until the model says that it has ended (the true output length: for what a step emits)."""
        return self.request.output - self.emitted


@dataclass(slots=True, eq=False)
class SequenceGroup:
    """A request while it is served: all its sequences, admitted, preempted and resumed together.

    Only the first sequence runs until the prompt is stored; then the others are forked from it, and all
    of them emit one token in every step in which the group runs.
    """

    request: Request
    order: int  # place in the trace's order of arrival: says who is older
    sequences: list[Sequence] = field(default_factory=list[Sequence])
    is_forked: bool = False
    hit_tokens: int = 0  # found in the prefix cache at the first admission
    preemptions: int = 0
    prefills: list[int] = field(default_factory=list[int])  # tokens computed by each admission
    first_token_s: float | None = None
    finish_s: float | None = None
    reject_reason: str | None = None
    # A real model knows better than the trace. Only an executor sets these, in the step that it executes:
    has_ended: bool = False  # an end token is out, before `request.output` of them
    beam_parents: list[int] | None = None  # where each next beam comes from, by the model's own scores
    num_drafts: int | None = None  # that a draft model has for the next step; None: as many as are asked for
    num_accepted: int | None = None  # of the step's drafts, by the model that verified them

    def __post_init__(self) -> None:
        self.sequences = [Sequence(self.request, index) for index in range(self.request.width)]
        self.is_forked = len(self.sequences) == 1

    @property
    def active(self) -> list[Sequence]:
        """The sequences that run: the first alone, until the others are forked from it."""
        return self.sequences if self.is_forked else self.sequences[:1]

    @property
    def num_pending(self) -> int:
        """Known tokens of all active sequences that are not stored yet."""
        return sum(sequence.num_pending for sequence in self.active)

    def num_written(self, sequence: Sequence) -> int:
        """Tokens of the sequence whose keys and values are there.

        Sequences that come back from a preemption share the prompt's full blocks, which the first one fills
        chunk by chunk. Until it has, they count as stored for the others, which wait for it, but are empty.
        """
        return min(sequence.stored, self.sequences[0].stored)

    @property
    def emitted(self) -> int:
        """Tokens emitted by all sequences."""
        return sum(sequence.emitted for sequence in self.sequences)

    @property
    def is_finished(self) -> bool:
        """Whether the last token is out: the trace's last, or one with which the model ended."""
        return self.has_ended or self.sequences[0].emitted == self.request.output
