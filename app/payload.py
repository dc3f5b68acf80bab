"""One or two finished runs as the one JSON document that a player draws without asking again.

    trace      name, requests
    requests   [[id, prompt, max_tokens, output], ...]    a request's number is its place here
    sequences  [request, ...]    the request of each sequence; several where it has samples or beams
    clock      time: seconds of each moment; frames: for each side, the frame shown at each moment
    start      the moment to open at: where the sides differ most
    verdict    one sentence with the numbers of the reports
    sides      for each run what `encode_side` says
    quiz       seed; questions: [{side, show, frame, told, step, kind, situation, ask, answer, why, choices,
               tolerance}, ...] of `app.quiz`. While it is asked the side shows frame `show`, and of what
               happened in `frame` the first `told`; then it shows all of `frame`.

Frames and deltas are explained in `app.deltas`. Policy stays on this side: a player folds and paints.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from app.frames import encode_side
from app.moments import merge_clocks, opening_moment
from app.quiz import COUNT, Question, draw, sheet_and_run
from app.recorded import Recording, names_of, recording_of
from app.rejections import refuse_empty
from sim import InputError, Run, __version__
from sim.words import counted

FORMAT = 2
MAX_EVENTS = 1_000_000

Json = dict[str, Any]


def quiz_payload(seed: int, count: int = COUNT) -> Json:
    """The replay that `pagelab quiz --seed` asks about, with the questions of its sheet."""
    questions, recording = sheet_and_run(seed, count)
    return replay_payload([recording], seed=seed, sheets=[questions])


def replay_payload(
    runs: Sequence[Run | Recording], *, seed: int = 0, sheets: Sequence[Sequence[Question]] | None = None
) -> Json:
    """The replay of `runs`, side by side on one clock. All must have served the same requests.

    `sheets` are the questions about each run; if not given, the seed draws them. Raises InputError for runs
    of different traces, without events, or too long to be drawn.
    """
    recordings = [_checked(run) for run in runs]
    first = recordings[0]
    for one in recordings:
        if _asked_for(one) != _asked_for(first):
            raise InputError(f"{one.trace} beside {first.trace}: two sides must serve the same requests")
    if sheets is None:
        sheets = [draw(one, Random(seed), COUNT // len(runs)) for one in recordings]
    names = names_of(recordings)
    encoded = [encode_side(*side) for side in zip(recordings, names, sheets, strict=True)]
    sides, times, asked = zip(*encoded, strict=True)
    moments, frames = merge_clocks(times)
    return {
        "format": FORMAT,
        "pagelab": __version__,
        "trace": {"name": first.trace, "requests": len(first.requests)},
        "requests": [[one.id, one.prompt, one.max_tokens, one.output] for one in first.requests],
        "sequences": [number for number, one in enumerate(first.requests) for _ in range(one.width)],
        "clock": {"time": [round(time, 6) for time in moments], "frames": frames},
        "start": opening_moment(sides, frames),
        "verdict": verdict(recordings),
        "sides": list(sides),
        "quiz": {
            "seed": seed,
            "questions": sorted(
                ({"side": side, **one} for side, own in enumerate(asked) for one in own),
                key=lambda one: (times[one["side"]][one["frame"]], one["side"], one["event"]),
            ),
        },
    }


def _checked(run: Run | Recording) -> Recording:
    """The run as a recording, if there is something to show. Raises InputError."""
    if isinstance(run, Run):
        refuse_empty(run)
        if not run.events:
            raise InputError(f"{run.config.allocator}: the run kept no events: there is nothing to replay")
        run = recording_of(run)
    if len(run.events) > MAX_EVENTS:
        raise InputError(
            f"{len(run.events):,} events under {run.allocator}: a replay draws {MAX_EVENTS:,} at most; "
            "take fewer requests"
        )
    return run


def _asked_for(recording: Recording) -> list[tuple[str, int, int, int]]:
    return [(one.id, one.prompt, one.max_tokens, one.width) for one in recording.requests]


def _cached(stream: Recording) -> str:
    """All that a stream can say: how much was cached. Its pool may be a guess, the most that ever was."""
    most, pool = stream.peak_blocks, stream.pool // stream.cell_slots
    of_pool = f"{most} of {counted(pool, 'blocks')}" if most < pool else counted(most, "blocks")
    held = f"{counted(len(stream.requests), 'chains')} of blocks, at most {of_pool} at a time"
    unsaid = "the events do not say who read them, nor what was wasted"
    return f"In {stream.time_s:.4g} s the cache held {held}; {unsaid}."


def verdict(runs: Sequence[Run | Recording]) -> str:
    """What the runs say about each other, in one sentence a reader can quote.

    Waste is the reports' own where nothing is cached. Cached blocks are there for whoever needs them, so
    they count as not taken.
    """
    recordings = [recording_of(run) if isinstance(run, Run) else run for run in runs]
    if any(one.is_stream for one in recordings):
        return " ".join(map(_cached, recordings))
    names = names_of(recordings)
    wastes = [f"{name} wastes {one.waste_percent:.1f} %" for name, one in zip(names, recordings, strict=True)]
    means = [f"{one.batch_mean:.1f}" for one in recordings]
    ends = [f"{one.time_s:.4g} s" for one in recordings]
    apart = ", evictable cached blocks apart" if any(one.mean("cached") for one in recordings) else ""
    text = ", ".join(wastes)
    return (
        f"{text[0].upper()}{text[1:]} of the memory it takes{apart}: {' against '.join(means)} sequences run "
        f"at a time on average, and all is done after {' against '.join(ends)}."
    )
