"""Which beams go on: as the trace says, or by a seeded stand-in for the model's scores."""

from random import Random

from sim.request import SequenceGroup

# Of a language model's scores only their ratio decides how soon one beam's offspring displace another's. A
# ratio of 8 saves about what the paper's Figure 15 shows (`pagelab paper 15`).
SURPRISE = 0.25  # mean fall of a beam's score by a token, in nats
RUNNER_UP = 2.0  # how much less likely than its best continuation a beam's others are, in nats


class BeamModel:
    """Chooses the parents of a group's next beams.

    Without `beam_parents` each beam has a score (a log-probability) and offers `beam` continuations whose
    scores fall by exponentially distributed amounts, all but the first by `RUNNER_UP` more; the best `beam`
    of all go on. Seeded by request.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._scores: dict[str, list[float]] = {}
        self._random: dict[str, Random] = {}

    def parents(self, group: SequenceGroup) -> list[int]:
        """Parent index of each beam, after the group's beams emitted in a decode step."""
        request = group.request
        if request.beam_parents is not None:
            return list(request.beam_parents[group.sequences[0].emitted - 2])
        if request.id not in self._random:
            self._random[request.id] = Random(f"{self._seed} {request.id}")
            self._scores[request.id] = [0.0] * request.beam
        random, scores = self._random[request.id], self._scores[request.id]
        offers = [
            (score - random.expovariate(1.0 / SURPRISE) - RUNNER_UP * (place > 0), beam)
            for beam, score in enumerate(scores)
            for place in range(len(scores))
        ]
        best = sorted(offers, reverse=True)[: request.beam]
        best.sort(key=lambda offer: offer[1])  # a beam that goes on keeps its place where it can
        self._scores[request.id] = [score for score, _ in best]
        return place_survivors([beam for _, beam in best])

    def forget(self, group: SequenceGroup) -> None:
        """The group has ended. A server lives long: nothing of it may stay."""
        self._scores.pop(group.request.id, None)
        self._random.pop(group.request.id, None)


def place_survivors(chosen: list[int]) -> list[int]:
    """The same parents, each in its own place if it goes on, so that no table changes without need."""
    parents: list[int | None] = [beam if beam in chosen else None for beam in range(len(chosen))]
    extra = list(chosen)
    for parent in parents:
        if parent is not None:
            extra.remove(parent)
    return [extra.pop(0) if parent is None else parent for parent in parents]
