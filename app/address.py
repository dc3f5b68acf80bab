"""The playground's controls and its address: a link restores them all, and what it says wrongly is told.

Every control is a key of the session and, where it is not at its default, of the address.
"""

from typing import Any

import streamlit as st

from app.fields import FIELDS, parse, parse_choice, parse_number, wrong
from app.own_trace import from_address
from app.presets import suggested
from app.sides import NAMES
from sim import InputError
from sim.trace import list_builtins

MAIN_DIALS = ("pool_tokens", "block_size", "max_len", "placement", "max_seqs", "preempt", "prefix_cache")
MORE_DIALS = (
    "swap_blocks", "victim", "batching", "step_rule", "chunked_prefill", "max_batch_tokens", "watermark",
    "model", "kv_dtype", "hardware", "timing", "seed",
)  # fmt: skip
TABLE, PASTE, UPLOAD = "table", "paste", "upload"
OWN = {TABLE: "a table of mine", PASTE: "pasted text", UPLOAD: "a file of mine"}
POLICIES, SOURCES = "policies", "sources"
MODES = {POLICIES: "two policies", SOURCES: "simulated and measured"}
MOST_REQUESTS = 1000
FEW_REQUESTS = 200  # so many are drawn when nobody asks for more
FIRST_TRACE = "demo"


def trace_names() -> list[str]:
    """Built-in traces, then the three ways to bring one's own."""
    return [*(name for name, _ in list_builtins()), *OWN]


def defaults(trace: str) -> dict[str, Any]:
    """Every control's value when nobody has touched it."""
    dials = {name: FIELDS[name].default for name in (*MAIN_DIALS, *MORE_DIALS)}
    usual = {"mode": POLICIES, "a": "max", "b": "paged", "first": FEW_REQUESTS}
    return {**usual, **dials, **suggested(trace)}


def restore() -> list[str]:
    """Sets all controls: from the address once a session, or as they were when the page was left.

    Returns what could not be understood, a sentence each.
    """
    if "trace" in st.session_state:
        return []
    if kept := st.session_state.get("kept"):
        st.session_state.update(kept)
        return []
    asked = st.query_params.to_dict()
    trace, problem = parse_control("trace", asked.get("trace", FIRST_TRACE))
    problems = [problem]
    trace, problem = _with_rows(trace or FIRST_TRACE, asked.get("rows"))
    problems.append(problem)
    st.session_state["trace"] = trace
    for name, default in defaults(trace).items():
        value = default
        if name in asked:
            value, problem = parse_control(name, asked[name])
            problems.append(problem)
            value = default if problem else value
        st.session_state[name] = value
    return [problem for problem in problems if problem]


def _with_rows(trace: str, rows: str | None) -> tuple[str, str | None]:
    """Takes the table out of the address. Text and files are not in it: the first trace takes their place."""
    if trace in (PASTE, UPLOAD):
        return FIRST_TRACE, wrong("trace", trace, "a link carries neither text nor file")
    if trace != TABLE:
        return trace, None
    try:
        st.session_state["table"] = from_address(rows or "")
    except InputError as error:
        return FIRST_TRACE, f"address, rows: {error}; the usual trace is shown"
    return TABLE, None


def write(rows: str | None) -> None:
    """Puts every control that is not at its default into the address; `step` is the player's."""
    trace = st.session_state["trace"]
    usual = {"trace": FIRST_TRACE, "rows": None, **defaults(trace)}
    now = {**{name: st.session_state[name] for name in usual if name != "rows"}, "rows": rows}
    st.session_state["kept"] = {name: value for name, value in now.items() if name != "rows"}
    for name, default in usual.items():
        if now[name] == default:
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != str(now[name]):
            st.query_params[name] = "" if now[name] is None else str(now[name])


def parse_control(name: str, text: str) -> tuple[Any, str | None]:
    """The value that the address gives a control, or what is wrong with it."""
    choices = {"trace": trace_names(), "a": NAMES, "b": NAMES, "mode": MODES}
    if name in choices:
        value, problem = parse_choice(text, choices[name])
    elif name == "first":
        value, problem = parse_number(text, int, 1, MOST_REQUESTS)
    else:
        value, problem = parse(name, text)
    return value, wrong(name, text, problem) if problem else None
