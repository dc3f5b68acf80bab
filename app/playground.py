"""The start page: the same requests on two sides, on one clock.

Python runs the simulator (or the engine, for the measured side) and hands the player one replay; the player
needs nothing more from here while it is played.
"""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app import address
from app.engine_job import Asked, Told, start
from app.exports import all_files
from app.fields import tell_beside
from app.job_view import show_job
from app.jobs import Job, Phase
from app.look import put_style, say
from app.play import play
from app.player import standalone_html
from app.presets import PRESETS, preset_of
from app.replays import key_of, replay_of
from app.sidebar import choose, keep_hidden_controls
from app.trace_input import choose_requests
from sim import Config, InputError, Trace, simulate
from sim.trace.native import json_line

MOST_MEASURED = 100


def page() -> None:
    """The start page, top to bottom."""
    problems = address.restore()
    keep_hidden_controls()
    put_style()
    with st.sidebar:
        st.title("PageLab", help="How LLM servers manage KV-cache memory, and what it costs.", anchor=False)
        for problem in problems:
            st.warning(problem)
        chosen = choose()
    choose_preset()
    trace, rows = choose_requests(chosen.trace, chosen.first)
    address.write(rows)
    if trace is not None and chosen.sides is not None:
        try:
            show(trace, chosen.sides, is_measured=chosen.is_measured)
            return
        except InputError as error:
            tell_beside(error, chosen.places)
    say("The replay appears once what is asked for above or at the side is settled.", "quiet")


def show(trace: Trace, sides: tuple[Config, ...], *, is_measured: bool) -> None:
    """The replay, and its files. Raises InputError where a side cannot serve the trace."""
    if is_measured:
        show_measured(trace, sides[0])
        return
    replay = replay_of(trace, sides)
    play(replay)
    show_exports(trace, replay, lambda: all_files([simulate(trace, config) for config in sides]))


def choose_preset() -> None:
    """Shortcuts that set trace, sides and pool together, and the point of the one that is on."""
    st.session_state["preset"] = preset_of(st.session_state)
    st.pills("Start from", list(PRESETS), key="preset", on_change=_apply, label_visibility="collapsed")
    if name := preset_of(st.session_state):
        say(PRESETS[name].point, "quiet")


def _apply() -> None:
    """Sets what the preset sets, and everything else back to its default."""
    if (name := st.session_state["preset"]) is not None:
        preset = PRESETS[name]
        st.session_state.update({**address.defaults(preset.trace), **preset.settings})


def show_measured(trace: Trace, config: Config) -> None:
    """Runs the engine on request, then shows the simulated side beside the measured one."""
    if trace.num_requests > MOST_MEASURED:
        trace = trace.first(MOST_MEASURED)
        say(f"The engine takes the first {MOST_MEASURED} requests.", "quiet")
    key = key_of(trace, (config,))
    job: Job[Told] | None = st.session_state.get("playground_job")
    if job is None or st.session_state.get("playground_job_key") != key:
        if job is not None:
            job.stop()
        say("Simulated beside measured: the engine serves these requests with real tensors on this machine.")
        if st.button("Run the engine", type="primary"):
            st.session_state.update(playground_job=start(Asked(trace, config)), playground_job_key=key)
            st.rerun()
        return
    show_job(job, "playground")
    if job.phase is not Phase.DONE or job.result is None:
        return
    told = job.result
    say(told.sentence)
    if told.replay is None:
        st.info(told.note)
        return
    replay = {"id": f"measured-{key}", **told.replay}
    play(replay)
    show_exports(trace, replay, lambda: told.files)


def show_exports(trace: Trace, replay: dict[str, Any], files: Callable[[], dict[str, bytes]]) -> None:
    """What is shown, as files; a link is in the player's menu. A file is made when its button is pressed."""
    name = trace.name.replace(" ", "-").replace("/", "-")
    with st.popover("Export", icon=":material/download:"):
        save(
            "Replay, one offline page (HTML)",
            f"pagelab-{name}.html",
            lambda: standalone_html(replay).encode(),
        )
        save("Trace (JSON Lines)", f"{name}.jsonl", lambda: native(trace))
        save("Spans for Perfetto (JSON)", f"{name}-perfetto.json", lambda: nth(files(), "perfetto", 0))
        for place, letter in enumerate("AB"[: len(replay["sides"])]):
            events, series = f"{name}-{letter}-events.jsonl", f"{name}-{letter}-series.csv"
            save(f"Events of {letter} (JSON Lines)", events, lambda n=place: nth(files(), "events", n))
            save(f"Ledger of {letter} by step (CSV)", series, lambda n=place: nth(files(), "series", n))


def save(label: str, file_name: str, make: Callable[[], bytes]) -> None:
    """A button that makes a file when it is pressed."""
    st.download_button(label, make, file_name=file_name, on_click="ignore", width="stretch")


def nth(files: dict[str, bytes], kind: str, place: int) -> bytes:
    """Of the files of one kind, that of side `place`."""
    return [data for name, data in files.items() if name.startswith(kind)][place]


def native(trace: Trace) -> bytes:
    """The requests in PageLab's own format."""
    return "".join(json_line(request) + "\n" for request in trace.requests).encode()
