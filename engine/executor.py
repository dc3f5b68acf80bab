"""The real executor: memory events become copies and table entries, a batch becomes a forward pass.

    execute   events of the schedule | forward pass | tokens of requests with one sequence
    close     events that follow the step's writes | tokens of forks and beams | what memory shows

Between the two the scheduler books the step: what is accepted, who forks, which beams go on. It decides that
from the trace and its seed, the engine then finds out whether the tensors say the same.
"""

from collections import defaultdict
from collections.abc import Mapping

import torch
from torch import Tensor

from engine.attend import Reading
from engine.carry_out import carry_out, parents_after
from engine.choose import Emission, TokenChoice
from engine.drafts import Draft, Drafter
from engine.dropping import Dropping
from engine.flat import FlatBatch, flatten
from engine.graphs import DecodeGraphs
from engine.histories import Histories
from engine.model import Attend, LlamaModel
from engine.physical import Pool
from engine.probe import Observation, Probe
from engine.sampling import Place
from engine.stopwatch import Stopwatch
from engine.verify import verify
from sim.batch import Batch, Chunk
from sim.closed_timing import TimingModel
from sim.events import Event, EventLog, Kind
from sim.ledger import Ledger
from sim.request import SequenceGroup


class TorchExecutor:
    """Runs batches with real tensors. Implements `sim.batch.Executor`.

    `probe` None: nobody looks into memory, and there are no observations.
    `timing` None: a step takes what the clock says. Otherwise the schedule follows the modelled time,
    and the measured seconds stand beside it in `observations`.
    `graphs` None: every step is launched kernel by kernel.
    `dropping`: which tokens `reading` leaves out, kept up to date here.
    """

    def __init__(
        self,
        model: LlamaModel,
        pool: Pool,
        log: EventLog,
        probe: Probe | None,
        *,
        histories: Histories,
        choice: TokenChoice,
        reading: Reading,
        drafts: Drafter | None = None,
        timing: TimingModel | None = None,
        graphs: DecodeGraphs | None = None,
        dropping: Dropping | None = None,
    ) -> None:
        self.observations: list[Observation] = []
        self.histories = histories
        self._probe = probe
        self._model = model
        self._pool = pool
        self._log = log
        self._choice = choice
        self._reading = reading
        self._drafts = drafts
        self._timing = timing
        self._graphs = graphs
        self._dropping = dropping
        self._ran: list[SequenceGroup] = []  # in this step
        self._num_seen = 0  # events carried out
        self._emissions: list[Emission] = []  # of this step, by requests with several sequences
        self._proposed: dict[str, Draft] = {}  # of this step, by sequence
        self._num_confirmed: dict[str, int] = {}  # of them, by request
        self._margin = torch.full((), torch.inf, device=model.device)
        self._watch = Stopwatch(pool.device)  # of the step; what follows one is paid for by the next
        self._step, self._seconds = 0, 0.0

    @property
    def last_ledger(self) -> Ledger:
        """The measured ledger of the last step."""
        return self.observations[-1].ledger

    @property
    def min_margin(self) -> float:
        """The smallest lead of a likeliest token's logit over the runner-up's, in the whole run.

        Numerical differences well below it cannot have changed a token that was chosen greedily.
        """
        return float(self._margin)

    def execute(self, batch: Batch) -> float:
        """Carries out the step's memory events, then the batch; returns its seconds."""
        watch = self._watch
        carry_out(self._new_events(), self._pool, watch)
        for chunk in batch.chunks:
            self.histories.begin(chunk.sequence)
        with watch:
            self._pool.flush()
            if self._dropping:
                self._dropping.before(batch.chunks, self._pool.rows)
            self._propose([chunk for chunk in batch.chunks if chunk.num_drafts])
            flat = flatten(batch.chunks, self.histories.tokens, self._pool.rows, self._pool.device)
            kv = self._pool.bind(flat, self._reading)
            logits = self._forward(flat, kv)
            self._emit(flat, logits)
        self._note_margin(logits)
        self._step, self._seconds = batch.step, watch.seconds
        self._ran = list({chunk.group: None for chunk in batch.chunks})
        self._watch = Stopwatch(self._pool.device)
        return self._seconds if self._timing is None else self._timing.seconds(batch)

    def close(self) -> None:
        """Carries out what follows the step's writes, and observes memory."""
        events = self._new_events()
        self._check_drafts(events)
        parents = parents_after(events, self._pool) if self._emissions else {}
        carry_out(events, self._pool, self._watch)
        with self._watch:
            self._pool.flush()
            if self._dropping:
                self._dropping.after(self._ran, self._pool.rows)
            for emission in self._emissions:
                self._emit_group(emission, parents)
        self._emissions = []
        if self._probe:
            self.observations.append(self._probe.observe(self._step, self._seconds))

    def settle(self) -> None:
        """Carries out what was logged after the last step: the last requests give up their memory."""
        carry_out(self._new_events(), self._pool, self._watch)
        self._pool.flush()

    def _new_events(self) -> list[Event]:
        events = self._log.events[self._num_seen :]
        self._num_seen += len(events)
        if self._probe:
            for event in events:
                self._probe.note(event)
        return events

    def _propose(self, chunks: list[Chunk]) -> None:
        if not chunks:
            return
        assert self._drafts is not None
        for chunk, draft in zip(chunks, self._drafts.propose(chunks), strict=True):
            self.histories.propose(chunk.sequence.name, draft.tokens)
            self._proposed[chunk.sequence.name] = draft

    def _forward(self, flat: FlatBatch, kv: Attend) -> Tensor:
        if self._graphs is not None:
            return self._graphs.forward(flat, kv)
        return self._model.forward(flat.token_ids, flat.positions, kv, flat.emitting)

    def _emit(self, flat: FlatBatch, logits: Tensor) -> None:
        """Appends what requests with one sequence emit; keeps the logits of the others until they fork."""
        plain: list[tuple[int, Chunk]] = []
        wide: dict[str, list[tuple[int, Chunk]]] = defaultdict(list)
        row = 0
        for chunk in flat.emitting_chunks:
            if chunk.num_drafts:
                self._verify(chunk, logits[row : row + chunk.num_drafts + 1])
            elif chunk.group.request.width > 1:
                wide[chunk.group.request.id].append((row, chunk))
            else:
                plain.append((row, chunk))
            row += chunk.num_drafts + 1
        self._emit_plain(plain, logits)
        self._announce_drafts(flat.emitting_chunks)
        for members in wide.values():
            members.sort(key=lambda member: member[1].sequence.index)
            rows, chunks = [row for row, _ in members], [chunk for _, chunk in members]
            first = chunks[0]
            count = len(first.group.sequences)
            parents = list(range(count)) if len(chunks) == count else [0] * count
            emission = Emission(first.group, logits[rows], first.context, parents)
            self._choice.before_fork(emission)
            self._emissions.append(emission)

    def _emit_plain(self, plain: list[tuple[int, Chunk]], logits: Tensor) -> None:
        if not plain:
            return
        rows = [row for row, _ in plain]
        chosen = logits if len(rows) == len(logits) else logits[rows]
        places = [Place(chunk.group.request.id, 0, chunk.context) for _, chunk in plain]
        tokens = self._choice.chooser.choose(chosen, places)
        for (_, chunk), token in zip(plain, tokens, strict=True):
            self.histories.append(chunk.sequence.name, [token])
            self._choice.note(chunk.group, [token])

    def _emit_group(self, emission: Emission, parents: Mapping[tuple[str, int], int]) -> None:
        request, names = emission.group.request.id, emission.names
        whose = [parents.get((request, index), index) for index in range(len(names))]
        if len(emission.logits) > 1:  # else all go on from the one that ran
            emission.parents = whose
        self.histories.branch(names, [names[parent] for parent in whose])
        tokens = self._choice.of_group(emission)
        for name, token in zip(names, tokens, strict=True):
            self.histories.append(name, [token])
        if emission.group.request.beam == 1:
            self._choice.note(emission.group, tokens)

    def _verify(self, chunk: Chunk, logits: Tensor) -> None:
        assert self._drafts is not None
        sequence, request = chunk.sequence, chunk.group.request.id
        first = Place(request, 0, chunk.context - chunk.num_drafts)
        draft = self._proposed.pop(sequence.name)
        emitted = verify(self._choice.chooser, logits, draft, first, most=sequence.num_left - 1)
        emitted = self._choice.up_to_end(emitted)
        self.histories.append(sequence.name, emitted)
        self._choice.note(chunk.group, emitted[-1:])
        self._num_confirmed[request] = len(emitted) - 1
        if not self._drafts.follows_schedule:
            chunk.group.num_accepted = len(emitted) - 1

    def _announce_drafts(self, chunks: list[Chunk]) -> None:
        """Tells the scheduler how many drafts there are for the next step of those that have emitted."""
        for chunk in chunks:
            if self._drafts is not None and chunk.group.request.width == 1:
                chunk.group.num_drafts = self._drafts.num_ready(chunk.sequence)

    def _check_drafts(self, events: list[Event]) -> None:
        for event in events:
            if event.kind is Kind.DECODE and "accepted" in event.changes:
                found, scheduled = self._num_confirmed[event.request or ""], event.changes["accepted"]
                if found != scheduled:
                    raise RuntimeError(
                        f"{event.request}: the model confirms {found} of its drafts, the schedule "
                        f"accepts {scheduled}"
                    )
        self._num_confirmed.clear()

    def _note_margin(self, logits: Tensor) -> None:
        if self._probe and len(logits):
            first, second = logits.float().topk(2).values.unbind(dim=-1)
            self._margin = torch.minimum(self._margin, (first - second).min())
