"""One allocator, simulated and really executed on one schedule: `pagelab compare`, and the app's page."""

from dataclasses import dataclass, replace
from typing import Any

from app.commands.measure import ENGINE_DEFAULTS
from engine import EngineFault, MeasuredRun, measure
from engine.agreement import agreement, disagreement
from sim import Config, Run, Trace, simulate
from sim.series import Row
from sim.serve import IsOver, OnProgress, OnStep

# A step of the tiny model is so short, by the roofline, that no two requests of a trace would ever meet.
DEFAULTS = {**ENGINE_DEFAULTS, "timing": "unit"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of one config. `verdict` is an entry of the report's `agreement` (DESIGN section 8)."""

    simulated: Run
    measured: MeasuredRun | None  # None where the engine stopped; the verdict says in which step and why
    verdict: dict[str, Any]

    @property
    def runs(self) -> list[Run]:
        """The sides that there are, simulated first."""
        return [self.simulated, self.measured] if self.measured else [self.simulated]


def execute(
    trace: Trace,
    config: Config,
    *,
    backend: str = "auto",
    device: str = "auto",
    check: bool = False,
    on_step: OnStep | None = None,
    is_over: IsOver | None = None,
) -> MeasuredRun | EngineFault:
    """The measured side, on the modelled clock so that the same requests meet in the same steps."""
    try:
        return measure(
            trace,
            config,
            backend=backend,
            device=device,
            clock="modelled",
            check=check,
            on_step=on_step,
            is_over=is_over,
        )
    except EngineFault as fault:
        return fault


def compare_with(
    measured: MeasuredRun | EngineFault,
    trace: Trace,
    config: Config,
    *,
    check: bool = False,
    on_progress: OnProgress | None = None,
) -> Comparison:
    """The simulated side beside what `execute` gave, and whether the two agree as far as that went."""
    config = pool_of(measured, config)
    if isinstance(measured, MeasuredRun) and measured.is_stopped:
        until = After(measured.num_steps)
        simulated = simulate(trace, config, check=check, on_step=until.count, is_over=until)
    else:
        simulated = simulate(trace, config, check=check, on_progress=on_progress)
    if isinstance(measured, EngineFault):
        return Comparison(simulated, None, disagreement(simulated, measured))
    return Comparison(simulated, measured, agreement(simulated, measured))


class After:
    """Says that a run is over after so many steps."""

    def __init__(self, num_steps: int) -> None:
        self._left = num_steps

    def count(self, row: Row, num_ended: int) -> None:
        self._left -= 1

    def __call__(self) -> bool:
        return self._left <= 0


def pool_of(measured: MeasuredRun | EngineFault, config: Config) -> Config:
    """`config` with the pool that the engine really had: two pools of different size prove nothing."""
    if isinstance(measured, EngineFault):
        return config
    num_slots = measured.meta["engine"]["num_slots"]
    if num_slots == config.num_slots:  # pages that hold no whole number of tokens do not give their size back
        return config
    return replace(config, pool_tokens=num_slots, pool_blocks=None, memory=None)
