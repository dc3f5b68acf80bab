"""The playground's controls: which trace, which two sides, and the dials made from `sim.Config`'s fields."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.address import MAIN_DIALS, MODES, MORE_DIALS, MOST_REQUESTS, OWN, SOURCES, defaults, trace_names
from app.fields import show_dial, tell_beside
from app.look import say
from app.sides import NAMES, config_of
from sim import Config, InputError
from sim.trace import list_builtins

# What `pagelab compare` takes where nothing else is said; the engine runs it on any machine.
ENGINE: dict[str, Any] = {"model": "tiny", "kv_dtype": "fp32", "hardware": "laptop", "timing": "unit"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the sidebar says. `sides` is None where the dials do not go together; the reason stands there.

    `places` has for each dial where something can be said about it.
    """

    trace: str
    first: int
    is_measured: bool
    sides: tuple[Config, ...] | None
    places: dict[str, Any]


def choose() -> Chosen:
    """All controls, top to bottom."""
    about = dict(list_builtins())
    trace = st.selectbox("Trace", trace_names(), format_func=_called, key="trace", on_change=_suggest)
    if trace in about:
        say(about[trace], "quiet")
    first = st.number_input("Requests, from the first on", 1, MOST_REQUESTS, key="first")
    mode = st.radio("Compare", list(MODES), format_func=MODES.__getitem__, key="mode", horizontal=True)
    names = ["a"] if mode == SOURCES else ["a", "b"]
    for column, name in zip(st.columns(len(names)), names, strict=True):
        column.selectbox(
            f"Side {name.upper()}" if len(names) > 1 else "Policy",
            list(NAMES),
            format_func=NAMES.__getitem__,
            key=name,
            help="Who decides where keys and values go.",
        )
    if mode == SOURCES:
        say(
            "The engine runs model tiny in fp32, one step a second, whatever the dials below say of it.",
            "quiet",
        )
    places, values = _dials()
    sides = _sides(names, values | (ENGINE if mode == SOURCES else {}), places)
    return Chosen(trace, first, mode == SOURCES, sides, places)


def _called(trace: str) -> str:
    return OWN.get(trace, trace)


def _dials() -> tuple[dict[str, Any], dict[str, Any]]:
    """The place of each dial, and its value."""
    places = {name: st.container() for name in MAIN_DIALS}
    with st.expander("More dials"):
        places |= {name: st.container() for name in MORE_DIALS}
    values: dict[str, Any] = {}
    for name, place in places.items():
        with place:
            values[name] = show_dial(name, key=name)
    return places, values


def _sides(names: list[str], values: dict[str, Any], places: dict[str, Any]) -> tuple[Config, ...] | None:
    try:
        return tuple(config_of(st.session_state[name], values) for name in names)
    except InputError as error:
        tell_beside(error, places)
        return None


def keep_hidden_controls() -> None:
    """Streamlit forgets a control that is not drawn; side B is to be the same when it comes back."""
    for name, default in defaults(st.session_state["trace"]).items():
        st.session_state[name] = st.session_state.get(name, default)


def _suggest() -> None:
    """A trace that was made for a pool brings it along; one's own is served in the pool that is there."""
    if st.session_state["trace"] in OWN:
        return
    usual = defaults(st.session_state["trace"])
    for name in ("pool_tokens", "max_len"):
        st.session_state[name] = usual[name]
