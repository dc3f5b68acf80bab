"""Tokens that the server computed, and what for: counts over a whole run."""

from collections.abc import Iterable
from dataclasses import dataclass, fields


@dataclass(slots=True)
class Work:
    """All counts are tokens, except `decodes`.

    A token is computed again when its keys and values were stored before a preemption gave them up; one
    that is found in the prefix cache on return is not.
    """

    computed: int = 0
    lost: int = 0  # stored when a preemption gave them up
    again: int = 0
    decodes: int = 0  # chunks that decoded: one sequence in one step
    emitted_by_decodes: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def thrash_rate(self) -> float:
        """Tokens computed again / all tokens computed."""
        return self.again / self.computed if self.computed else 0.0

    @property
    def draft_acceptance(self) -> float | None:
        """Accepted / proposed drafts; None where nothing was proposed."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_decode(self) -> float | None:
        """Tokens that a sequence emits in a decode step: 1 without speculation."""
        return self.emitted_by_decodes / self.decodes if self.decodes else None

    @classmethod
    def of_all(cls, works: Iterable["Work"]) -> "Work":
        """The sums over several servers."""
        works = list(works)
        return cls(**{item.name: sum(getattr(work, item.name) for work in works) for item in fields(cls)})
