"""`calibrate`: how long the engine's steps take on this machine, over designed batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from engine.experiments import Experiment, design
from engine.facts import engine_facts
from engine.measure import WARM_UP, execute
from engine.setup import make_model, make_pool, pick_device, refuse_backend, refuse_impossible
from engine.threads import threads_for
from sim.batch import Batch
from sim.closed_timing import Totals
from sim.config import Config
from sim.errors import InputError
from sim.fit import Step
from sim.serve import IsOver
from sim.timing import UnitTiming

OnExperiment = Callable[[int], None]  # how many are done, over all rounds


class WatchedTiming(UnitTiming):
    """A second a step, and a note of what each step was made of."""

    def __init__(self) -> None:
        self.totals: list[Totals] = []

    def seconds(self, batch: Batch) -> float:
        """One second."""
        self.totals.append(Totals.of(batch))
        return super().seconds(batch)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the clock said of each step of each experiment, and what the engine says of itself."""

    config: Config
    repeats: int  # rounds that were finished
    steps: list[Step]
    facts: dict[str, object]


def calibrate(
    config: Config,
    *,
    repeats: int = 3,
    most_tokens: int = 2048,
    backend: str = "auto",
    device: str = "auto",
    on_experiment: OnExperiment | None = None,
    is_over: IsOver | None = None,
) -> Calibration:
    """Runs every experiment `repeats` times; a step's seconds are the median of its repeats.

    The rounds go over all experiments in turn, so that a slow minute of the machine spoils one repeat of many
    and not all repeats of one. `is_over` is asked before each experiment whether to end with the rounds that
    are finished. InputError where the pool is too small to try anything, KeyboardInterrupt where not even the
    first round was finished.
    """
    where = pick_device(device)
    refuse_backend(backend, where)
    refuse_impossible(config, where)
    config = replace(config, timing="unit")
    experiments = design(config, most_tokens)
    if len(experiments) < 10:
        raise InputError(
            f"a pool of {config.num_slots} slots, --max-seqs {config.max_seqs} and --max-len "
            f"{config.max_len}: room for {len(experiments)} experiments, and a fit needs 10 at least; "
            "use a larger pool"
        )
    model, pool = make_model(config, where), make_pool(config, where)
    small = {
        experiment.config: make_pool(experiment.config, where)
        for experiment in experiments
        if experiment.config != config
    }
    timed: list[list[Step]] = []  # experiment after experiment, round after round
    with threads_for(model):
        execute(WARM_UP, config, model, pool, backend=backend)
        for number, experiment in enumerate(experiments * repeats, start=1):
            if is_over and is_over():
                break
            watched = WatchedTiming()
            run = execute(
                experiment.trace,
                experiment.config,
                model,
                small.get(experiment.config, pool),
                backend=backend,
                timing=watched,
            )
            timed.append(_steps(experiment, watched, run.measured_seconds))
            if on_experiment:
                on_experiment(number)
    num_rounds = len(timed) // len(experiments)
    if num_rounds == 0:
        raise KeyboardInterrupt
    whole = timed[: num_rounds * len(experiments)]
    repeated = [whole[place :: len(experiments)] for place in range(len(experiments))]
    steps = [_median(same) for runs in repeated for same in zip(*runs, strict=True)]
    return Calibration(config, num_rounds, steps, engine_facts(config, model, pool, backend=backend))


def _steps(experiment: Experiment, watched: WatchedTiming, seconds: Sequence[float]) -> list[Step]:
    return [
        Step(experiment.name, totals, taken) for totals, taken in zip(watched.totals, seconds, strict=True)
    ]


def _median(same: Sequence[Step]) -> Step:
    """One step, timed several times."""
    assert len({step.totals for step in same}) == 1, "two rounds of an experiment ran different batches"
    return replace(same[0], seconds=median(step.seconds for step in same))
