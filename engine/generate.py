"""Text from a real model over managed memory: the simulator's scheduler, the engine's kernels, no observer.

Prompts are requests that arrive together. How long each answer will be, nobody knows: `max_tokens` is the
ceiling that the scheduler is told, and an end token ends a request earlier (`sim.request.SequenceGroup`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from engine.agreement import compare_steps
from engine.attend import Reading
from engine.choose import Speech
from engine.drafting import make_drafter
from engine.executor import TorchExecutor
from engine.graphs import DecodeGraphs
from engine.histories import Histories
from engine.holes import Stranding
from engine.model import LlamaModel
from engine.physical import Pool
from engine.probe import Probe
from engine.sampling import make_chooser
from engine.setup import make_dropping
from engine.threads import threads_for
from sim.config import Config
from sim.errors import InputError
from sim.events import EventLog, Kind
from sim.request import Request, SequenceGroup
from sim.run import Run
from sim.serve import OnStep, serve
from sim.trace.trace import Trace


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoding:
    """How answers are made. Raises InputError for what contradicts itself."""

    max_tokens: int = 64
    n: int = 1  # samples of each prompt
    beam: int = 1
    temperature: float = 0.0  # 0: greedy
    top_k: int | None = None
    top_p: float | None = None
    length_penalty: float = 1.0
    seed: int = 0
    draft: str | None = None  # what proposes, with speculation: ngram (if not said), or early-exit
    draft_layers: int | None = None  # after which early-exit leaves the model (if not said, half of them)

    def __post_init__(self) -> None:
        for name in ("max_tokens", "n", "beam"):
            if getattr(self, name) < 1:
                raise InputError(f"{name.replace('_', ' ')} {getattr(self, name)}: must be at least 1")
        make_chooser(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed)
        if self.beam > 1 and (self.n > 1 or self.temperature > 0):
            raise InputError(
                f"--beam {self.beam} with --n {self.n} and --temperature {self.temperature:g}: a beam search "
                "draws nothing; drop one of them"
            )
        if self.n > 1 and self.temperature == 0:
            raise InputError(f"--n {self.n} at temperature 0: all would be the same; give --temperature 0.7")


@dataclass(frozen=True, slots=True)
class Said:
    """One answer. `score` is a beam's rank: its log-probability over its length to the penalty."""

    tokens: list[int]  # without the end token
    has_ended: bool  # by an end token, not by the ceiling
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """All answers to one prompt, the best first where they are ranked; none to one that was rejected."""

    id: str
    prompt: list[int]
    said: list[Said]
    reject_reason: str | None
    hit_tokens: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class Generated:
    """What came of a call of `generate`. `run` is the scheduler's account of it; seconds are measured.

    `agreement` is what `engine.agreement.compare_steps` found in memory, if it was looked for.
    """

    answers: list[Answer]
    run: Run
    seconds: float
    agreement: dict[str, Any] | None

    @property
    def num_tokens(self) -> int:
        """Tokens of all answers, end tokens included, those of beams that were given up not."""
        return sum(len(said.tokens) + said.has_ended for answer in self.answers for said in answer.said)


class ClosingLog(EventLog):
    """An event log that lets the executor carry out what follows a step's writes."""

    executor: TorchExecutor

    def emit(self, kind: Kind, request: str | None, why: str, **changes: Any) -> None:
        """Appends the event; one that closes a step, after the executor has closed it too."""
        if kind is Kind.STEP:
            self.executor.close()
        super().emit(kind, request, why, **changes)


def generate(
    prompts: Sequence[Sequence[int]],
    config: Config,
    decoding: Decoding,
    model: LlamaModel,
    pool: Pool,
    *,
    end_ids: frozenset[int] = frozenset(),
    max_tokens: Sequence[int] | None = None,
    backend: str = "auto",
    graphs: DecodeGraphs | None = None,
    check: bool = False,
    on_step: OnStep | None = None,
) -> Generated:
    """Answers `prompts`, token ids each, all served together over `pool`, which is empty before and after.

    `max_tokens` are ceilings of each answer, in place of `decoding`'s one for all. `graphs` are those of this
    model and pool (`engine.graphs.make_graphs`). With `check`, the allocator's books are verified after every
    step, and block tables and ledger are read from memory and held against the log: `pool` must be marked.
    Raises InputError for an allocator whose definition is to know how long answers will be.
    """
    if config.allocator in ("oracle", "pow2"):
        raise InputError(
            f"allocator {config.allocator}: reserves by the true length of an answer, which nobody knows "
            "while it is written; use paged, max, grow, slab or virtual"
        )
    ceilings = [decoding.max_tokens] * len(prompts) if max_tokens is None else max_tokens
    requests = [
        _request(index, ids, ceiling, decoding, model.spec.vocab)
        for index, (ids, ceiling) in enumerate(zip(prompts, ceilings, strict=True))
    ]
    chooser = make_chooser(
        temperature=decoding.temperature, top_k=decoding.top_k, top_p=decoding.top_p, seed=decoding.seed
    )
    speech = Speech(decoding.seed, chooser, end_ids, decoding.length_penalty)
    log = ClosingLog()
    histories = Histories(config.seed, model.spec.vocab, config.speculate)
    dropping = make_dropping(config, model.device)
    reading = Reading(backend, config.window, config.sinks or 0, dropping.tensor if dropping else None)
    drafts = make_drafter(
        decoding.draft,
        decoding.draft_layers,
        config,
        model,
        pool,
        histories=histories,
        chooser=chooser,
        reading=reading,
    )
    by_id = {request.id: request for request in requests}
    probe = None
    if check:
        probe = Probe(pool, by_id, Stranding.of(config), num_known=histories.num_known, reading=reading)
    executor = log.executor = TorchExecutor(
        model,
        pool,
        log,
        probe,
        histories=histories,
        choice=speech,
        reading=reading,
        drafts=drafts,
        graphs=graphs,
        dropping=dropping,
    )
    trace = Trace("prompts", tuple(requests))
    started = perf_counter()
    with threads_for(model):
        run = serve(
            trace, config, executor, log, source="measured", clock="measured", check=check, on_step=on_step
        )
        executor.settle()
    seconds = perf_counter() - started
    emitted = histories.emitted
    answers = [_answer(group, emitted, speech, end_ids) for group in run.groups]
    agreement = compare_steps(run, executor.observations) if check else None
    return Generated(answers, run, seconds, agreement)


def warm_up(config: Config, model: LlamaModel, pool: Pool, backend: str = "auto") -> None:
    """Compiles what a run needs, so that its seconds are its own; leaves the pool as it was."""
    plain = replace(config, prefix_cache="off", eviction=None, speculate=0, accept=None)
    generate([[0, 0]], plain, Decoding(max_tokens=2), model, pool, backend=backend)


def _request(index: int, ids: Sequence[int], ceiling: int, decoding: Decoding, vocab: int) -> Request:
    if not ids or not all(0 <= token < vocab for token in ids):
        raise InputError(f"prompt {index}: must be at least one token id, each from 0 to {vocab - 1}")
    return Request(
        id=f"p{index}",
        arrival_s=0.0,
        prompt=len(ids),
        output=ceiling,
        max_tokens=ceiling,
        n=decoding.n,
        beam=decoding.beam,
        tokens=tuple(ids),
    )


def _answer(
    group: SequenceGroup, emitted: Mapping[str, list[int]], speech: Speech, end_ids: frozenset[int]
) -> Answer:
    request = group.request
    if group.reject_reason is not None:
        said: list[Said] = []
    elif request.beam > 1:
        found = speech.searches[request.id].finished
        said = [_cut(list(beam.tokens), end_ids, beam.value) for beam in found]
    else:
        said = [_cut(emitted[sequence.name], end_ids) for sequence in group.sequences]
    return Answer(
        id=request.id,
        prompt=list(request.tokens or ()),
        said=said,
        reject_reason=group.reject_reason,
        hit_tokens=group.hit_tokens,
        preemptions=group.preemptions,
    )


def _cut(tokens: list[int], end_ids: frozenset[int], score: float | None = None) -> Said:
    end = next((place for place, token in enumerate(tokens) if token in end_ids), None)
    return Said(tokens if end is None else tokens[:end], end is not None, score)
