"""The player on a page of the visualizer, with the moment and the pinned request in the page's address."""

from typing import Any

import streamlit as st

from app.player.component import show_player


@st.fragment
def play(replay: dict[str, Any], *, key: str = "player") -> None:
    """Plays `replay`. Only this is run again when the player reports where it came to rest."""
    view = show_player(
        data={"replay": replay, **asked()},
        default={"step": None, "pin": None},
        on_step_change=lambda: None,
        on_pin_change=lambda: None,
        key=key,
    )
    if view.step is None:
        return
    st.query_params["step"] = str(view.step)
    if view.pin:
        st.query_params["pin"] = view.pin
    else:
        st.query_params.pop("pin", None)


def asked() -> dict[str, Any]:
    """The moment and the pin that the address named when this session began."""
    if "moment" not in st.session_state:
        text = st.query_params.get("step", "")
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        st.session_state["moment"] = int(text) if is_number else None
        st.session_state["pinned"] = st.query_params.get("pin")
    return {"moment": st.session_state["moment"], "pin": st.session_state["pinned"]}
