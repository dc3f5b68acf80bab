"""Where the playground's trace comes from: a built-in, or a table, text or file of the visitor's own."""

from typing import Any

import streamlit as st

from app.address import FIRST_TRACE, OWN, PASTE, TABLE, UPLOAD
from app.look import say
from app.own_trace import COLUMNS, MAX_UPLOAD_MB, read_table, read_text, read_upload, table_of, to_address
from sim import InputError, Trace

FEW_ROWS = 12  # of the trace before, to begin a table with
FORMATS = "JSON Lines, Azure, BurstGPT, Mooncake, Qwen-Bailian, ShareGPT, vidur or lengths as CSV"
EXAMPLE = """{"id": "a", "arrival": 0, "prompt": 240, "output": 17}
{"id": "b", "arrival": 0.5, "prompt": 64, "output": 65}"""


def choose_requests(name: str, first: int) -> tuple[Trace | None, str | None]:
    """The first requests of the trace called `name`, and the table as an address has it.

    None where there is no trace yet; what to do, or what is wrong, stands beside the field.
    """
    rows: list[dict[str, Any]] | None = None
    place = st.container()
    try:
        if name == TABLE:
            rows = edit(place)
            trace = read_table(rows)
        elif name == PASTE:
            trace = paste(place)
        elif name == UPLOAD:
            trace = upload(place)
        else:
            trace = Trace.read(name)
            st.session_state["last_built_in"] = name
        if trace is None:
            return None, None
        if name in OWN:
            tell_skipped(place, trace)
        return trace.first(first), None if rows is None else to_address(rows)
    except InputError as error:
        place.error(str(error))
        return None, None


def edit(place: Any) -> list[dict[str, Any]]:
    """A table to edit. It begins as it was left, or with the built-in trace that was shown before."""
    if "table" not in st.session_state:
        before = Trace.read(st.session_state.get("last_built_in", FIRST_TRACE))
        st.session_state["table"] = table_of(before.first(FEW_ROWS))
    elif "table_edits" not in st.session_state:  # the editor is new: it knows no edits
        st.session_state["table"] = st.session_state.get("edited_table", st.session_state["table"])
    column = st.column_config
    edited: list[dict[str, Any]] = place.data_editor(
        [{name: row.get(name) for name in COLUMNS} for row in st.session_state["table"]],
        num_rows="dynamic",
        hide_index=True,
        height=260,
        alt="Requests of the trace, one a row",
        column_config={
            "id": column.TextColumn("id", help="Empty: one is made."),
            "arrival": column.NumberColumn("arrival (s)", min_value=0.0),
            "prompt": column.NumberColumn("prompt", min_value=1, step=1),
            "output": column.NumberColumn("output", min_value=1, step=1),
            "max_tokens": column.NumberColumn("max tokens", min_value=1, step=1, help="Empty: the output."),
            "n": column.NumberColumn("samples", min_value=1, step=1),
            "prefix": column.TextColumn("prefix", help="Requests of one prefix begin with the same tokens."),
            "prefix_tokens": column.NumberColumn("prefix tokens", min_value=1, step=1),
        },
        key="table_edits",
    )
    st.session_state["edited_table"] = edited
    if to_address(edited) is None:
        note(place, "This table is too rich for a link; save it with Export, Trace.")
    return edited


def paste(place: Any) -> Trace | None:
    """Text in any format that a file may have."""
    text = place.text_area(
        "Trace as text",
        key="pasted",
        height=160,
        placeholder=EXAMPLE,
        help=f"{FORMATS}.",
        max_chars=2_000_000,
        persist_state="session",
    )
    if not text or not text.strip():
        place.info("Paste a trace, one request a line, such as the two in grey.")
        return None
    return read_text(text)


def upload(place: Any) -> Trace | None:
    """A file, plain or gzip. The last one is kept: Streamlit forgets it where the field is not drawn."""
    place.file_uploader(
        "Trace file",
        max_upload_size=MAX_UPLOAD_MB,
        help=f"{FORMATS}; plain or .gz.",
        key="uploaded",
        on_change=_keep_file,
    )
    if (kept := st.session_state.get("own_file")) is None:
        place.info(f"Choose a trace file, {MAX_UPLOAD_MB} MB at most: {FORMATS}; plain or .gz.")
        return None
    name, data = kept
    if st.session_state["uploaded"] is None:
        note(place, f"{name} is kept from before; another file takes its place.")
    return read_upload(name, data)


def _keep_file() -> None:
    file = st.session_state["uploaded"]
    st.session_state["own_file"] = (file.name, file.getvalue()) if file else None


def tell_skipped(place: Any, trace: Trace) -> None:
    """What the reader left out or changed."""
    told = [f"{count:,} skipped: {reason}" for reason, count in trace.skipped.items()] + list(trace.notes)
    if told:
        note(place, "; ".join(told))


def note(place: Any, text: str) -> None:
    """Something aside, below the field."""
    with place:
        say(text, "quiet")
