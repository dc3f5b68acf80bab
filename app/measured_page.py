"""The visualizer's page "Simulated vs measured": the engine runs on this machine, next to the simulator."""

from functools import partial
from typing import Any

import streamlit as st

from app.engine_job import Asked, Told, start
from app.fields import FIELDS, parse, show_dial, tell_beside
from app.job_view import show_job
from app.jobs import Job, Phase
from app.linked import check, one_of, settle, whole
from app.look import page_head, say, show_ledgers, show_table
from app.play import play
from app.sidebar import ENGINE
from sim import Config, InputError, Trace
from sim.alloc import ALLOCATORS
from sim.scopes import applies

# Traces that end within a minute or so on a laptop, and the pool and length that each was made for.
TRACES = {
    "demo": (20, 4096, 512),
    "four-requests": (5, 4096, 2048),
    "fragmentation": (20, 4096, 512),
    "shared-prefix": (20, 4096, 512),
    "parallel-sampling": (8, 4096, 512),
    "thrashing": (12, 4096, 1024),
}
MOST_REQUESTS = 100
DIALS = ("pool_tokens", "block_size", "max_len", "prefix_cache", "preempt", "kv_dtype", "timing", "seed")


def page() -> None:
    """Choose, run, compare."""
    page_head(
        "Simulated vs measured",
        "One trace, one scheduler, one allocator: the simulator says what memory holds; the engine computes "
        "with real tensors, then looks, slot by slot. What is left between the two is listed with its cause.",
    )
    asked = choose()
    job: Job[Told] | None = st.session_state.get("engine_job")
    is_busy = job is not None and job.is_active
    if st.button("Run the engine", type="primary", disabled=asked is None or is_busy) and asked is not None:
        st.session_state["engine_job"] = start(asked)
        st.rerun()
    if job is None:
        say("Nothing has been measured yet. The run above takes some seconds.", "quiet")
        return
    show_job(job, "engine")
    if job.phase is Phase.DONE and job.result is not None:
        show_result(job.result)


def show_result(told: Told) -> None:
    """Top to bottom: the sentence, the bars, the table, the machine, the replay."""
    say(told.sentence)
    show_ledgers(told.sides)
    if told.residuals:
        st.header("What is left between the two", anchor=False)
        headings = ("quantity", "simulated", "measured", "left", "because")
        show_table(headings, told.residuals, numeric=(1, 2))
        st.header("Where it was measured", anchor=False)
        show_table((), told.machine)
    st.header("Both on one clock", anchor=False)
    if told.replay is None:
        st.info(told.note)
        return
    play({"id": f"engine-{id(told)}", **told.replay}, key="engine_player")


def usual(trace: str) -> dict[str, Any]:
    """Every field's value when nobody has touched it; the trace brings some along."""
    first, pool, length = TRACES[trace]
    dials = {name: ENGINE.get(name, FIELDS[name].default) for name in DIALS}
    return {**dials, "first": first, "pool_tokens": pool, "max_len": length}


def suggest() -> None:
    """A trace brings the number of requests, the pool and the length that it was made for."""
    values = usual(st.session_state["run_trace"])
    st.session_state.update({f"run_{name}": values[name] for name in ("first", "pool_tokens", "max_len")})


def choose() -> Asked | None:
    """What to run, or None with the reason said beside the field."""
    check(run_trace=one_of(TRACES), run_allocator=one_of(ALLOCATORS))
    one, two, three = st.columns(3)
    trace = one.selectbox("Trace", list(TRACES), key="run_trace", on_change=suggest, bind="query-params")
    allocator = two.selectbox(
        "Allocator",
        list(ALLOCATORS),
        index=list(ALLOCATORS).index("paged"),
        key="run_allocator",
        bind="query-params",
    )
    values = usual(trace)
    settle("run_first", "run_first", values["first"], whole(1, MOST_REQUESTS))
    first = three.number_input(
        "Requests, from the first on", 1, MOST_REQUESTS, key="run_first", persist_state="session"
    )
    places: dict[str, Any] = {}
    columns = st.columns(3)
    for column, name in zip(columns, DIALS[:3], strict=True):
        places[name] = column.container()
    with st.expander("More dials"):
        for column, name in zip(st.columns(len(DIALS) - 3), DIALS[3:], strict=True):
            places[name] = column.container()
    for name, place in places.items():
        key = f"run_{name}"
        settle(key, key, values[name], partial(parse, name))
        with place:
            values[name] = show_dial(name, key, persist_state="session")
    given = {name: values[name] for name in DIALS if values[name] is not None and applies(name, allocator)}
    try:
        config = Config(allocator=allocator, **{**ENGINE, **given})
        return Asked(Trace.read(trace).first(first), config)
    except InputError as error:
        tell_beside(error, places)
        return None
