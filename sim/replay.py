"""The event log as a picture: every block table and queue at any step, from the log alone.

A keyframe every `KEYFRAME_STEPS` steps makes stepping back as cheap as stepping forward.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Listing

from sim.errors import InputError
from sim.events import Event, Kind
from sim.state import State
from sim.tables import BlockTable, SlotRange

__all__ = ["KEYFRAME_STEPS", "BlockTable", "Replay", "SlotRange", "State"]

KEYFRAME_STEPS = 64


class Replay:
    """A log that can be looked at from any step. Building it reads the log once."""

    def __init__(self, events: Listing[Event]) -> None:
        self.events = events
        self._ends: list[int] = []  # index after each step's `step` event
        self._keyframes: list[tuple[int, State]] = [(0, State())]  # (index, state before that event)
        state = State()
        for index, event in enumerate(events):
            state.apply(event)
            if event.kind is Kind.STEP:
                self._ends.append(index + 1)
                if len(self._ends) % KEYFRAME_STEPS == 0:
                    self._keyframes.append((index + 1, state.copy()))

    @property
    def num_steps(self) -> int:
        return len(self._ends)

    def at(self, step: int) -> State:
        """The state after the writes of `step`; 0 is before anything. InputError outside the run."""
        self._check(step)
        start, keyframe = self._keyframes[step // KEYFRAME_STEPS]
        return self._fold(keyframe, self.events[start : self._ends[step - 1] if step else 0])

    def at_end(self) -> State:
        """The state once the last requests have left: nobody holds anything."""
        start, keyframe = self._keyframes[-1]
        return self._fold(keyframe, self.events[start:])

    def states(self) -> Iterator[State]:
        """The state of every step in order. Each is changed into the next: look, but do not keep."""
        state = State()
        for event in self.events:
            state.apply(event)
            if event.kind is Kind.STEP:
                yield state

    def events_of(self, step: int) -> Listing[Event]:
        """The events that led from the state of `step - 1` to that of `step`; none for step 0.

        Those by which finished requests leave a step come first among the events of the next one; after
        the last step they are `events_after_end`.
        """
        self._check(step)
        if step == 0:
            return []
        return self.events[self._ends[step - 2] if step > 1 else 0 : self._ends[step - 1]]

    def events_after_end(self) -> Listing[Event]:
        """The events after the last step's writes."""
        return self.events[self._ends[-1] if self._ends else 0 :]

    def _check(self, step: int) -> None:
        if not 0 <= step <= self.num_steps:
            recorded = f"the run has steps 1 to {self.num_steps}" if self._ends else "the run kept no events"
            raise InputError(f"step {step}: {recorded}")

    @staticmethod
    def _fold(keyframe: State, events: Listing[Event]) -> State:
        state = keyframe.copy()
        for event in events:
            state.apply(event)
        return state
