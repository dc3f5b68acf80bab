"""Drafts without a model: prompt lookup (Saxena 2023), which servers call ngram.

... the cache holds | keys and values ...  ... the cache holds | ?
                      ^ followed then, proposed now
"""

from engine.drafts import Draft
from engine.histories import Histories
from sim.batch import Chunk
from sim.request import Sequence


class NgramDrafts:
    """Looks the last tokens up in what came before, the longest match first; the last place where it stood.

    Each n-gram is noted once, when its next token is known, so a step costs what is new and not the context.
    """

    follows_schedule = False
    longest = 3

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self._after: dict[str, dict[tuple[int, ...], int]] = {}  # by sequence: n-gram -> place after it
        self._num_noted: dict[str, int] = {}

    def num_ready(self, sequence: Sequence) -> int | None:
        """See `Drafter`."""
        place = self._find(sequence.name)
        return 0 if place is None else self._histories.known(sequence.name) - place

    def propose(self, chunks: list[Chunk]) -> list[Draft]:
        """See `Drafter`."""
        return [Draft(self._draft(chunk)) for chunk in chunks]

    def _draft(self, chunk: Chunk) -> list[int]:
        name, place = chunk.sequence.name, self._find(chunk.sequence.name)
        assert place is not None, f"{name}: {chunk.num_drafts} drafts are scheduled, none was announced"
        return self._histories.tokens[name][place : place + chunk.num_drafts].tolist()

    def _find(self, name: str) -> int | None:
        """Where what followed the last tokens begins, or None if they never stood before."""
        tokens, known = self._histories.tokens[name], self._histories.known(name)
        after = self._after.setdefault(name, {})
        for place in range(self._num_noted.get(name, 1), known):
            for length in range(1, min(self.longest, place) + 1):
                after[tuple(tokens[place - length : place].tolist())] = place
        self._num_noted[name] = known
        for length in range(min(self.longest, known), 0, -1):
            place = after.get(tuple(tokens[known - length : known].tolist()))
            if place is not None:
                return place
        return None
