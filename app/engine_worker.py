"""The process in which the engine runs for a page: reads what is `Asked`, tells every `Step`, then `Told`.

Objects are pickled one after another; whatever else prints goes to standard error.
"""

import os
import pickle
import sys
from typing import IO, Any

from app.engine_job import Asked, Refused, Step, Told
from sim import InputError, simulate
from sim.series import Row


def main() -> None:
    """Serves one comparison."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    asked: Asked = pickle.load(sys.stdin.buffer)
    try:
        say(out, serve(asked, out))
    except InputError as error:
        say(out, Refused(str(error)))


def say(out: IO[bytes], what: Any) -> None:
    """One object, at once."""
    pickle.dump(what, out)
    out.flush()


def serve(asked: Asked, out: IO[bytes]) -> Told:
    """Simulates to know how many steps there will be, executes, and puts both side by side."""
    from app.comparison import compare_with, execute  # these load PyTorch
    from app.measured_report import tell

    num_steps = simulate(asked.trace, asked.config, record=False).num_steps
    say(out, Step(0.0, "filling the pool with the sentinel, compiling kernels"))

    def on_step(row: Row, num_ended: int) -> None:
        ended = f"{num_ended} of {asked.trace.num_requests} requests ended"
        say(out, Step(row.step / max(num_steps, row.step), f"step {row.step:,} of {num_steps:,}, {ended}"))

    measured = execute(asked.trace, asked.config, on_step=on_step)
    say(out, Step(1.0, "comparing every step"))
    return tell(compare_with(measured, asked.trace, asked.config))


if __name__ == "__main__":
    main()
