"""The real executor: memory events become copies and table entries, a batch becomes a forward pass.

The order of the log is the order of the device. Blocks freed by one sequence may be given to the next
within one schedule, so events are carried out one after another, and all of them before the step writes:

    swap_out   copy to host          the blocks are still whole: their `free` follows
    free       fill with sentinel    part of the measurement, so not timed
    alloc      extend the table row
    swap_in    copy from host        into blocks whose `alloc` came before
    -- then the step's own writes --
"""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.flat import FlatBatch, flatten
from engine.model import Attend, LlamaModel
from engine.probe import Observable, Observation, Probe
from engine.prompts import prompt_ids
from engine.stopwatch import Stopwatch
from sim.batch import Batch
from sim.events import Event, EventLog, Kind
from sim.ledger import Ledger
from sim.request import Request
from sim.timing import TimingModel


class Pool(Observable, Protocol):
    """Physical memory for keys and values, and the table tensor that says whose they are."""

    device: torch.device

    @property
    def num_bytes(self) -> int:
        """Bytes of all slots on the device."""
        ...

    def alloc(self, request: str, event: Event) -> None:
        """Adds to the request's row of the table."""
        ...

    def free(self, request: str, event: Event) -> None:
        """Empties the request's row and fills what it held with the sentinel."""
        ...

    def swap_out(self, event: Event) -> None:
        """Copies blocks to host memory."""
        ...

    def swap_in(self, event: Event) -> None:
        """Copies blocks back."""
        ...

    def flush(self) -> None:
        """Brings the table tensor up to date with all events so far."""
        ...

    def bind(self, batch: FlatBatch, backend: str) -> Attend:
        """The cache as one step's attention sees it."""
        ...


class TorchExecutor:
    """Runs batches with real tensors. Implements `sim.batch.Executor`.

    `timing` None: a step takes what the clock says. Otherwise the schedule follows the modelled time,
    and the measured seconds stand beside it in `observations`.
    """

    def __init__(
        self,
        model: LlamaModel,
        pool: Pool,
        log: EventLog,
        probe: Probe,
        *,
        backend: str = "auto",
        timing: TimingModel | None = None,
    ) -> None:
        self.observations: list[Observation] = []
        self._model = model
        self._pool = pool
        self._log = log
        self._probe = probe
        self._backend = backend
        self._timing = timing
        self._num_seen = 0  # events carried out
        self._tokens: dict[str, NDArray[np.int64]] = {}  # [prompt + output]: prompt, then what was emitted
        self._num_prompt: dict[str, int] = {}
        self._margin = torch.full((), torch.inf, device=model.device)

    @property
    def tokens(self) -> dict[str, list[int]]:
        """What each request emitted. After the run: all of it."""
        return {request: ids[self._num_prompt[request] :].tolist() for request, ids in self._tokens.items()}

    @property
    def last_ledger(self) -> Ledger:
        """The measured ledger of the last step."""
        return self.observations[-1].ledger

    @property
    def min_margin(self) -> float:
        """The smallest lead of a chosen token's logit over the runner-up's, in the whole run.

        Numerical differences well below it cannot have changed a token.
        """
        return float(self._margin)

    def execute(self, batch: Batch) -> float:
        """Carries out the step's memory events, then the batch; returns its seconds."""
        watch = Stopwatch(self._pool.device)
        self._carry_out_events(watch)
        for chunk in batch.chunks:
            self._know(chunk.sequence.request)
        with watch:
            self._pool.flush()
            flat = flatten(batch.chunks, self._tokens, self._pool.rows, self._pool.device)
            kv = self._pool.bind(flat, self._backend)
            logits = self._model.forward(flat.token_ids, flat.positions, kv, flat.emitting)
            emitted = logits.argmax(dim=-1).tolist()
        self._append(flat, emitted)
        self._note_margin(logits)
        self.observations.append(self._probe.observe(batch.step, watch.seconds))
        return watch.seconds if self._timing is None else self._timing.seconds(batch)

    def settle(self) -> None:
        """Carries out what was logged after the last batch: the last requests give up their memory."""
        self._carry_out_events(Stopwatch(self._pool.device))
        self._pool.flush()

    def _carry_out_events(self, watch: Stopwatch) -> None:
        for event in self._log.events[self._num_seen :]:
            self._probe.note(event)
            self._carry_out(event, watch)
        self._num_seen = len(self._log)

    def _carry_out(self, event: Event, watch: Stopwatch) -> None:
        match event.kind:
            case Kind.ALLOC:
                with watch:
                    self._pool.alloc(event.request or "", event)
            case Kind.FREE:
                self._pool.free(event.request or "", event)
            case Kind.SWAP_OUT:
                with watch:
                    self._pool.swap_out(event)
            case Kind.SWAP_IN:
                with watch:
                    self._pool.swap_in(event)
            case Kind.FORK | Kind.COPY | Kind.MOVE | Kind.EVICT | Kind.ROLLBACK | Kind.HIT:
                raise NotImplementedError(f"the engine does not carry out {event.kind} events yet")
            case _:
                pass

    def _know(self, request: Request) -> None:
        """Draws the prompt of a request that is seen for the first time."""
        if request.id in self._tokens:
            return
        prompt = prompt_ids(request, self._model.seed, self._model.spec.vocab)
        self._num_prompt[request.id] = len(prompt)
        self._tokens[request.id] = np.concatenate([prompt, np.zeros(request.output, dtype=np.int64)])

    def _append(self, flat: FlatBatch, emitted: list[int]) -> None:
        for chunk, token in zip(flat.emitting_chunks, emitted, strict=True):
            # The chunk's context is all that is known; the new token comes right after it.
            self._tokens[chunk.sequence.request.id][chunk.context] = token

    def _note_margin(self, logits: Tensor) -> None:
        if len(logits):
            first, second = logits.float().topk(2).values.unbind(dim=-1)
            self._margin = torch.minimum(self._margin, (first - second).min())
