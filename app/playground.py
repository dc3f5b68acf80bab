"""The start page: the same requests under two allocators, side by side on one clock.

Python runs the simulator and hands the player one replay; the player needs nothing more from here while it
is played.
"""

import hashlib
from typing import Any

import streamlit as st

from app.payload import replay_payload
from app.player import standalone_html
from app.player.component import show_player
from app.sidebar import choose_sides, choose_trace, restore_from_address, write_address
from sim import Config, InputError, Trace, simulate


@st.cache_data(max_entries=16, show_spinner="Serving the trace under both policies ...")
def replay_of(_trace: Trace, key: str, _sides: tuple[Config, Config]) -> dict[str, Any]:
    """The replay of `_trace` under both sides; `key` says which one that is."""
    return {"id": key, **replay_payload([simulate(_trace, config) for config in _sides])}


def key_of(trace: Trace, sides: tuple[Config, Config]) -> str:
    """A name for what is shown: the same for equal requests and equal dials."""
    return hashlib.sha256(repr((trace.name, trace.requests, sides)).encode()).hexdigest()[:16]


def asked_moment() -> int | None:
    """The moment that the address named when this session began."""
    if "moment" not in st.session_state:
        text = st.query_params.get("step", "")
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        st.session_state["moment"] = int(text) if is_number else None
    return st.session_state["moment"]


@st.fragment
def show_replay(replay: dict[str, Any]) -> None:
    """The player. Only this is run again when it reports where it came to rest."""
    view = show_player(
        data={"replay": replay, "moment": asked_moment()},
        default={"step": None},
        on_step_change=lambda: None,
        key="player",
    )
    if view.step is not None:
        st.query_params["step"] = str(view.step)


def page() -> None:
    """The start page, top to bottom."""
    problems = restore_from_address()
    with st.sidebar:
        st.title("PageLab", help="How LLM servers manage KV-cache memory: the same requests, two allocators.")
        for problem in problems:
            st.warning(problem)
        trace = choose_trace()
        sides = choose_sides()
        write_address()
    if trace is None or sides is None:
        st.info("The replay appears once the message at the side is settled.")
        return
    try:
        replay = replay_of(trace, key_of(trace, sides), sides)
    except InputError as error:
        st.error(str(error))
        return
    show_replay(replay)
    st.download_button(
        "Save as one HTML page",
        lambda: standalone_html(replay),
        file_name=f"pagelab-{replay['trace']['name']}.html",
        mime="text/html",
        on_click="ignore",
        help="The replay above, to open offline or to put on any web page.",
    )
