"""The tokens of every sequence: its prompt, what it emitted, and drafts that are yet to be verified.

[0, num_prompt)          prompt
[num_prompt, known)      emitted
[known, ...)             room: for what is still to come, and for drafts
"""

import numpy as np
from numpy.typing import NDArray

from engine.prompts import prompt_ids
from sim.request import Request, Sequence


class Histories:
    """Token ids by sequence. `num_drafts` is how many drafts a step may hold beyond the last token."""

    def __init__(self, seed: int, vocab: int, num_drafts: int = 0) -> None:
        self.tokens: dict[str, NDArray[np.int64]] = {}  # [prompt + output + num_drafts]
        self._known: dict[str, int] = {}
        self._num_prompt: dict[str, int] = {}
        self._seed = seed
        self._vocab = vocab
        self._num_drafts = num_drafts

    @property
    def emitted(self) -> dict[str, list[int]]:
        """What each sequence has emitted so far."""
        return {
            name: ids[self._num_prompt[name] : self._known[name]].tolist()
            for name, ids in self.tokens.items()
        }

    def begin(self, sequence: Sequence) -> None:
        """Draws the prompt of a sequence that is seen for the first time."""
        if sequence.name not in self.tokens:
            self._begin(sequence.name, sequence.request)

    def num_known(self, request: Request) -> int:
        """Tokens of the prompt and those that the request's first sequence has emitted."""
        name = request.id if request.width == 1 else f"{request.id}/0"
        return self._known.get(name, request.prompt)

    def known(self, name: str) -> int:
        """Tokens of the sequence's prompt and those that it has emitted."""
        return self._known[name]

    def append(self, name: str, tokens: list[int]) -> None:
        """The sequence emitted these."""
        known = self._known[name]
        self.tokens[name][known : known + len(tokens)] = tokens
        self._known[name] = known + len(tokens)

    def propose(self, name: str, drafts: list[int]) -> None:
        """Drafts stand where the next tokens will, and count for nothing until they are appended."""
        known = self._known[name]
        self.tokens[name][known : known + len(drafts)] = drafts

    def branch(self, names: list[str], parents: list[str]) -> None:
        """Each sequence goes on from what its parent knows."""
        before = {name: (self.tokens[name], self._known[name]) for name in {*parents}}
        for name, parent in zip(names, parents, strict=True):
            if name != parent:
                ids, self._known[name] = before[parent]
                self.tokens[name] = ids.copy()
                self._num_prompt[name] = self._num_prompt[parent]

    def _begin(self, name: str, request: Request) -> None:
        prompt = prompt_ids(request, self._seed, self._vocab)
        room = np.zeros(request.output + self._num_drafts, dtype=np.int64)
        self.tokens[name] = np.concatenate([prompt, room])
        self._known[name] = self._num_prompt[name] = len(prompt)
