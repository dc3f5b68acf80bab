"""Where the playground's trace comes from: a built-in, or a table, text or file of the visitor's own."""

from typing import Any

import streamlit as st

from app.address import FIRST_TRACE, OWN, PASTE, TABLE, UPLOAD
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
    """A table to edit; it begins with the requests of the built-in trace that was shown before."""
    if "table" not in st.session_state:
        before = Trace.read(st.session_state.get("last_built_in", FIRST_TRACE))
        st.session_state["table"] = table_of(before.first(FEW_ROWS))
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
    if to_address(edited) is None:
        place.caption("This table is too rich for a link; save it with Export, Trace.")
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
    )
    if not text or not text.strip():
        place.info("Paste a trace, one request a line, such as the two in grey.")
        return None
    return read_text(text)


def upload(place: Any) -> Trace | None:
    """A file, plain or gzip."""
    file = place.file_uploader(
        "Trace file", max_upload_size=MAX_UPLOAD_MB, help=f"{FORMATS}; plain or .gz.", key="uploaded"
    )
    if file is None:
        place.info(f"Choose a trace file, {MAX_UPLOAD_MB} MB at most: {FORMATS}; plain or .gz.")
        return None
    return read_upload(file.name, file.getvalue())


def tell_skipped(place: Any, trace: Trace) -> None:
    """What the reader left out or changed."""
    told = [f"{count:,} skipped: {reason}" for reason, count in trace.skipped.items()] + list(trace.notes)
    if told:
        place.caption("; ".join(told))
