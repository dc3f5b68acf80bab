"""What the scheduler did, as events with a sentence that says why, with the numbers."""

from typing import Any

from sim.alloc import Short
from sim.batch import Chunk
from sim.events import Kind, Sink, decode_why
from sim.request import SequenceGroup
from sim.victims import VICTIMS
from sim.words import counted


def refusal(short: Short, unit: str, rounding: str) -> str:
    """Why a request can never run: what it asks for, what that takes as placed, and what there is.

    `rounding` says who rounds slots up, such as `buddy placement rounds`.
    """
    can_give = f"the pool can give {short.available}"
    if short.asked is None:
        return f"needs {short.needed} {unit} at worst, {can_give}"
    taken = f", {short.needed} as {rounding} them" if short.asked < short.needed else ""
    return f"asks for {short.asked} {unit}{taken}, {can_give}"


class Narrator:
    """Writes the scheduler's events. Memory events are the allocator's."""

    def __init__(self, log: Sink) -> None:
        self._log = log

    def arrival(self, group: SequenceGroup) -> None:
        """A request has come."""
        request = group.request
        times = f", {request.width} sequences" if request.width > 1 else ""
        self._emit(
            Kind.ARRIVE,
            group,
            f"prompt of {request.prompt} tokens, at most {request.max_tokens} to emit{times}",
            prompt=request.prompt,
            max_tokens=request.max_tokens,
            **({"width": request.width} if request.width > 1 else {}),
        )

    def rejection(self, group: SequenceGroup, why: str, limit: Short) -> None:
        """It can never run."""
        self._emit(Kind.REJECT, group, why, needed=limit.needed, available=limit.available)

    def admission(self, group: SequenceGroup, num_tokens: int, num_now: int, budget: int) -> None:
        """It enters with `num_tokens` to compute, `num_now` of them in this step."""
        emitted = group.sequences[0].emitted
        again = f", among them {emitted} emitted before it was preempted" if emitted else ""
        hit = group.sequences[0].stored
        cached = f" after {hit} cached ones" if hit else ""
        why = f"{num_tokens} tokens to prefill{cached}{again}; {num_now} now, of a budget of {budget}"
        self._emit(Kind.ADMIT, group, why, tokens=num_tokens, hit=hit)

    def progress(self, chunk: Chunk, accepted: int) -> None:
        """A chunk was executed, and `accepted` of its drafts hold."""
        sequence = chunk.sequence
        state: dict[str, Any] = {"stored": sequence.stored, "emitted": sequence.emitted}
        if chunk.group.request.width > 1:
            state["sequence"] = sequence.index
        if not chunk.is_prefill:
            why = decode_why(sequence.emitted)
            if chunk.num_drafts:
                why = f"emits {accepted + 1} tokens: {accepted} of {chunk.num_drafts} drafts accepted"
                state |= {"drafts": chunk.num_drafts, "accepted": accepted}
            self._emit(Kind.DECODE, chunk.group, why, **state)
            return
        rest = (
            f"emits token {sequence.emitted}"
            if chunk.emits
            else f"{sequence.num_pending} of its input remain"
        )
        why = f"tokens {chunk.start} to {chunk.context - 1} of its input stored; {rest}"
        self._emit(Kind.PREFILL, chunk.group, why, tokens=chunk.num_tokens, **state)

    def rollback(self, chunk: Chunk, accepted: int) -> None:
        """Drafts were rejected: their slots are empty again, in blocks that stay with the sequence."""
        rejected = chunk.num_drafts - accepted
        why = f"{rejected} of {chunk.num_drafts} drafts rejected, their slots are empty again"
        positions = [chunk.context - rejected, chunk.context]
        self._emit(
            Kind.ROLLBACK, chunk.group, why, drafts=chunk.num_drafts, accepted=accepted, positions=positions
        )

    def shortage(
        self, needy: SequenceGroup, victim: SequenceGroup, short: Short, unit: str, victim_rule: str
    ) -> str:
        """Why a request is preempted."""
        return (
            f"{needy.request.id} needs {counted(short.needed, unit)}, {short.available} free; "
            f"request {victim.request.id} {VICTIMS[victim_rule].because}"
        )

    def preemption(self, victim: SequenceGroup, mode: str, why: str) -> None:
        """It gives up its memory."""
        stored = sum(sequence.stored for sequence in victim.active)
        self._emit(Kind.PREEMPT, victim, why, mode=mode, stored=stored, emitted=victim.emitted)

    def finish(self, group: SequenceGroup) -> None:
        """Its last token is out."""
        self._emit(Kind.FINISH, group, f"emitted all its {group.emitted} tokens", emitted=group.emitted)

    def _emit(self, kind: Kind, group: SequenceGroup, why: str, **changes: Any) -> None:
        self._log.emit(kind, group.request.id, why, **changes)
