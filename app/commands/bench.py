"""`pagelab bench`: measurements of this machine that other commands take."""

from pathlib import Path
from typing import Any

import click
import orjson

from app.commands.measure import ENGINE_DEFAULTS, engine_options
from app.help import SectionedCommand
from app.interrupt import listening
from app.options import config_options, make_config
from app.output import progress
from engine.calibrate import Calibration, calibrate
from engine.experiments import design
from sim.files import new_file
from sim.fit import FITTED, as_document, cross_validate, fit
from sim.version import VERSION

NAMED = ("model", "kv_dtype", "allocator", "block_size", "max_seqs")  # dials that a timing file remembers


@click.group()
def bench() -> None:
    """Measure this machine."""


@bench.command(
    "calibrate", cls=SectionedCommand, short_help="time the engine's steps and fit a timing model to them"
)
@click.option(
    "--out", default="timing.json", show_default=True, help="the FILE that --timing takes", metavar="FILE"
)
@click.option(
    "--repeats", type=click.IntRange(1, 100), default=5, show_default=True, help="rounds; medians are taken"
)
@click.option(
    "--most-tokens",
    type=click.IntRange(64, 2**20),
    default=1024,
    show_default=True,
    help="longest prompt that is tried; longer ones follow the line of the last two",
)
@click.option("--json", "as_json", is_flag=True, help="the FILE's content on standard output as well")
@click.option("--quiet", is_flag=True, help="no progress, no table")
@config_options(skip=("tensor_parallel", "timing"))
@engine_options
def calibrate_command(
    out: str,
    repeats: int,
    most_tokens: int,
    as_json: bool,
    quiet: bool,
    device: str,
    backend: str,
    **dials: Any,
) -> None:
    """Time designed batches (no trace), fit costs of a step to them, and write FILE.

    Its error is by cross-validation: every batch is foretold by a fit that never saw it. The machine should
    have nothing else to do meanwhile. Ctrl-C ends it after the present batch; whole rounds are kept.
    """
    config = make_config(dials, **ENGINE_DEFAULTS)
    num_runs = repeats * len(design(config, most_tokens))
    # The file is opened first, so that minutes of measuring are not lost on a path that cannot be written.
    with (
        listening() as interrupt,
        new_file(Path(out)) as file,
        progress("calibrate", num_runs, shown=not quiet) as on_progress,
    ):
        done = calibrate(
            config,
            repeats=repeats,
            most_tokens=most_tokens,
            device=device,
            backend=backend,
            on_experiment=on_progress,
            is_over=interrupt,
        )
        document = timing_document(done)
        file.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    if as_json:
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    elif not quiet:
        show(document)
        click.echo(f"timing: {out}")
    interrupt.end(f"the file holds the whole rounds ({done.repeats})")


def timing_document(done: Calibration) -> dict[str, Any]:
    """What the timing FILE holds: costs, their error, what they were measured with, and every step."""
    timing, error = fit(done.steps), cross_validate(done.steps)
    return as_document(
        timing,
        error,
        pagelab=VERSION,
        config={name: getattr(done.config, name) for name in NAMED},
        repeats=done.repeats,
        engine=done.facts,
        steps=[
            {"experiment": step.experiment, **step.totals._asdict(), "seconds": step.seconds}
            for step in done.steps
        ],
    )


def show(document: dict[str, Any]) -> None:
    """The costs and their error, for people."""
    for name in FITTED:
        if cost := document["seconds"][name]:
            click.echo(f"{name.replace('_', ' '):<16}{cost * 1e6:>14.4g} us")
    for tokens, seconds in document["curve"]:
        click.echo(f"{f'{tokens:.0f} tokens':<16}{seconds * 1e6:>14.4g} us more")
    error = document["cross_validation"]
    click.echo(
        f"{error['num_steps']} steps, each foretold by a fit that did not see its batch: off by "
        f"{error['median_percent']:.1f} % (median), {error['p95_percent']:.1f} % (P95), "
        f"{error['total_percent']:+.1f} % in sum"
    )
