"""`pagelab replay`: recorded runs as one page that works offline, from what other commands wrote."""

from pathlib import Path

import click

from app.files import write_text
from app.payload import replay_payload
from app.player import standalone_html
from app.stored import read_runs


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN [RUN]")
@click.option("--html", required=True, type=click.Path(path_type=Path), help="the page to write")
@click.option("--side", "sides", multiple=True, help="which run of a folder, such as paged; at most two")
@click.option("--seed", type=int, default=0, show_default=True, help="which questions the page asks")
def replay(runs: tuple[Path, ...], html: Path, sides: tuple[str, ...], seed: int) -> None:
    """Write RUN as a page to play, step back in, and predict from.

    RUN is a folder that `--out` wrote, or an event log that `--events` wrote. Two logs of the same requests
    stand side by side; of a folder with more, the run that wastes most beside the one that wastes least.
    """
    payload = replay_payload(read_runs(runs, sides), seed=seed)
    write_text(html, standalone_html(payload))
    click.echo(f"{payload['verdict']}\nreplay: {html}")
