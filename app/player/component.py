"""The player as a Streamlit component. Registered once, on import: a page is run again at every click."""

from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from app.player import player_css, player_js

_HOST = Path(__file__).with_name("streamlit.js")

show_player = component(
    "pagelab_player", css=player_css(), js=player_js() + _HOST.read_text(encoding="utf-8")
)


@st.fragment
def play(replay: dict[str, Any], *, key: str = "player") -> None:
    """The player, with moment and pinned request in the address. Only this is run again when it reports."""
    start = _asked()
    view = show_player(
        data={"replay": replay, **start},
        default={"step": None, "pin": None},
        on_step_change=lambda: None,
        on_pin_change=lambda: None,
        key=key,
    )
    if view.step is not None:
        st.query_params["step"] = str(view.step)
        if view.pin:
            st.query_params["pin"] = view.pin
        else:
            st.query_params.pop("pin", None)


def _asked() -> dict[str, Any]:
    """The moment and the pin that the address named when this session began."""
    if "moment" not in st.session_state:
        text = st.query_params.get("step", "")
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        st.session_state["moment"] = int(text) if is_number else None
        st.session_state["pinned"] = st.query_params.get("pin")
    return {"moment": st.session_state["moment"], "pin": st.session_state["pinned"]}
