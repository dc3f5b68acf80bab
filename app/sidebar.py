"""The visualizer's controls: trace, two sides, and the dials made from `sim.Config`'s fields.

Every control is a key of the session and, where it is not at its default, of the address, so that a link
restores the page. What an address says wrongly is told and ignored.
"""

import tempfile
from pathlib import Path
from typing import Any

import streamlit as st

from app.fields import FIELDS, parse, parse_choice, parse_number, show_dial
from sim import Config, InputError, Trace
from sim.alloc import ALLOCATORS
from sim.scopes import applies
from sim.trace import list_builtins

MAIN_DIALS = ("pool_tokens", "block_size", "max_len", "placement", "max_seqs", "preempt", "prefix_cache")
MORE_DIALS = (
    "swap_blocks", "victim", "batching", "step_rule", "chunked_prefill", "max_batch_tokens", "watermark",
    "model", "kv_dtype", "hardware", "timing",
)  # fmt: skip
SUGGESTED: dict[str, dict[str, Any]] = {  # what the built-in traces were made for
    "demo": {"pool_tokens": 4096, "max_len": 512},
    "fragmentation": {"pool_tokens": 4096, "max_len": 512},
    "thrashing": {"pool_tokens": 4096, "max_len": 1024},
    "shared-prefix": {"pool_tokens": 4096, "max_len": 512},
}
UPLOAD = "a file of mine"
MAX_UPLOAD_MB = 20
MOST_REQUESTS = 1000
FEW_REQUESTS = 200  # so many are drawn when nobody asks for more


def defaults(trace: str) -> dict[str, Any]:
    """Every control's value when nobody has touched it."""
    dials = {name: FIELDS[name].default for name in (*MAIN_DIALS, *MORE_DIALS)}
    return {"a": "max", "b": "paged", "first": FEW_REQUESTS, **dials, **SUGGESTED.get(trace, {})}


def restore_from_address() -> list[str]:
    """Sets all controls from the address once a session; returns what could not be understood."""
    if "trace" in st.session_state:
        return []
    asked = st.query_params.to_dict()
    trace, problem = _parse("trace", asked.get("trace", "demo"))
    problems = [problem]
    st.session_state["trace"] = trace or "demo"
    for name, default in defaults(st.session_state["trace"]).items():
        value = default
        if name in asked:
            value, problem = _parse(name, asked[name])
            problems.append(problem)
            value = default if problem else value
        st.session_state[name] = value
    return [problem for problem in problems if problem]


def write_address() -> None:
    """Puts every control that is not at its default into the address; `step` is the player's."""
    usual = {"trace": "demo", **defaults(st.session_state["trace"])}
    for name, default in usual.items():
        value = st.session_state[name]
        if value == default:
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != str(value):
            st.query_params[name] = "" if value is None else str(value)


def _parse(name: str, text: str) -> tuple[Any, str | None]:
    """The value that the address gives a control, or what is wrong with it."""
    if name == "first":
        value, problem = parse_number(text, int, 1, MOST_REQUESTS)
    elif choices := _choices(name):
        value, problem = parse_choice(text, (choice for choice in choices if choice != UPLOAD))
    else:
        value, problem = parse(name, text)
    return value, problem and _told(name, text, problem)


def _told(name: str, text: str, problem: str) -> str:
    return f"address, {name}={text[:40]}: {problem}; the usual value is shown"


def _choices(name: str) -> list[str]:
    """The names of the controls that are no dial; empty for a dial."""
    if name == "trace":
        return [*(built_in for built_in, _ in list_builtins()), UPLOAD]
    return list(ALLOCATORS) if name in ("a", "b") else []


def _suggest() -> None:
    """A trace that was made for a pool brings it along."""
    usual = defaults(st.session_state["trace"])
    for name in ("pool_tokens", "max_len"):
        st.session_state[name] = usual[name]


def choose_trace() -> Trace | None:
    """The trace to serve, or None with the reason said beside the field."""
    about = dict(list_builtins())
    name: str = st.selectbox("Trace", _choices("trace"), key="trace", on_change=_suggest)
    if name in about:
        st.caption(about[name])
    uploaded = None
    if name == UPLOAD:
        uploaded = st.file_uploader(
            "Trace file",
            max_upload_size=MAX_UPLOAD_MB,
            help="JSON Lines, Azure, BurstGPT, Mooncake, ..., plain or .gz",
        )
        if uploaded is None:
            st.info("Choose a trace file: JSON Lines with id, arrival, prompt, output, or a public format.")
            return None
    st.number_input("Requests, from the first on", 1, MOST_REQUESTS, key="first")
    try:
        trace = Trace.read(name) if uploaded is None else read_upload(uploaded.name, uploaded.getvalue())
        return trace.first(st.session_state["first"])
    except InputError as error:
        st.error(str(error))
        return None


def read_upload(name: str, data: bytes) -> Trace:
    """The trace in an uploaded file, called by the name it had. Raises InputError as `Trace.read` does."""
    if len(data) > MAX_UPLOAD_MB * 2**20:
        raise InputError(f"{name}: {len(data) / 2**20:.0f} MiB; the page takes {MAX_UPLOAD_MB}, cut the file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (Path(name).name or "upload")
        path.write_bytes(data)
        try:
            return Trace.read(path)
        except InputError as error:
            raise InputError(str(error).replace(f"{folder}/", "")) from None


def choose_sides() -> tuple[Config, Config] | None:
    """The two sides' configs, or None with the reason said below the dials."""
    left, right = st.columns(2)
    left.selectbox("Side A", _choices("a"), key="a", help=FIELDS["allocator"].metadata["help"])
    right.selectbox("Side B", _choices("b"), key="b", help=FIELDS["allocator"].metadata["help"])
    values = {name: show_dial(name, key=name) for name in MAIN_DIALS}
    with st.expander("More dials"):
        values |= {name: show_dial(name, key=name) for name in MORE_DIALS}
    try:
        one, other = (_config(st.session_state[side], values) for side in ("a", "b"))
    except InputError as error:
        st.error(str(error))
        return None
    return one, other


def _config(allocator: str, values: dict[str, Any]) -> Config:
    """The dials are common to both sides; each side takes those that it has a use for."""
    given = {name: value for name, value in values.items() if value is not None and applies(name, allocator)}
    return Config(allocator=allocator, **given)
