"""Looking into a run while it happens."""

from collections.abc import Callable
from typing import Any

import pytest

import sim.serve
from sim import Config, Run, Trace, simulate
from sim.scheduler import Scheduler

Serve = Callable[..., tuple[Run, list[Any]]]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """`watched(trace, config, look)`: the run, and `look(scheduler)` after the writes of each step."""

    def serve(trace: Trace, config: Config, look: Callable[[Scheduler], Any]) -> tuple[Run, list[Any]]:
        seen: list[Any] = []

        class Watched(Scheduler):
            def retire(self):
                seen.append(look(self))
                return super().retire()

        monkeypatch.setattr(sim.serve, "Scheduler", Watched)
        return simulate(trace, config, check=True, step_by_step=True), seen

    return serve
