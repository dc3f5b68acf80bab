"""`pagelab kv-events`: what a real vLLM server cached, from the events that it published."""

from pathlib import Path

import click
import orjson

from app.files import write_text
from app.kv_events import Chains, read_stream, run_of
from app.payload import replay_payload
from app.player import standalone_html
from app.rows import write_events
from sim import Run
from sim.files import refuse_place


@click.command("kv-events")
@click.argument("stream", type=click.Path(path_type=Path))
@click.option("--blocks", type=int, help="blocks of the server's pool; if not given, the most ever cached")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="write the player as one page")
@click.option(
    "--events",
    type=click.Path(dir_okay=False, path_type=Path),
    help="write it as our event log: .jsonl, .parquet",
)
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else")
def kv_events(
    stream: Path, blocks: int | None, html: Path | None, events: Path | None, as_json: bool
) -> None:
    """Read STREAM, batches that vLLM published with --kv-events-config, as msgpack or as JSON.

    A stream names no requests: what the player shows as one is a chain of blocks, each behind its parent.
    """
    for path in (html, events):
        if path:
            refuse_place(path)
    run, chains = run_of(stream.name, read_stream(stream), blocks)
    if events:
        write_events(run, events)
    if html:
        write_text(html, standalone_html(replay_payload([run])))
    numbers = describe(run, chains)
    if as_json:
        click.echo(orjson.dumps(numbers, option=orjson.OPT_INDENT_2))
        return
    for name, number in numbers.items():
        click.echo(f"{name.replace('_', ' '):<24}{number:,}")


def describe(run: Run, chains: Chains) -> dict[str, int | float]:
    """Counts of the stream; blocks unless the name says otherwise."""
    return {
        "batches": run.num_steps,
        "seconds": round(run.time_s, 6),
        "block_size": chains.block_size,
        "chains": len(chains.chains),
        "stored": chains.num_stored,
        "removed": chains.num_removed,
        "most_at_once": chains.num_blocks,
        "at_the_end": chains.ledgers[-1][4],
        "begun_in_shared_blocks": chains.num_hits,
        "elsewhere_than_on_gpu": chains.num_elsewhere,
        "unknown": chains.num_unknown,
    }
