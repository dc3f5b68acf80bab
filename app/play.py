"""The player on a page of the visualizer, with the moment and the pinned request in the page's address."""

from typing import Any

import streamlit as st

from app.fields import parse_number, wrong
from app.player.component import show_player

MOST_MOMENTS = 10**9


@st.fragment
def play(replay: dict[str, Any], *, key: str = "player") -> None:
    """Plays `replay`. Only this is run again when the player reports where it came to rest."""
    begin = opening(key)
    view = show_player(
        data={"replay": replay, **begin},
        default={"step": None, "pin": None},
        on_step_change=lambda: None,
        on_pin_change=lambda: None,
        key=key,
    )
    rest = begin if view.step is None else {"moment": view.step, "pin": view.pin}
    st.session_state[f"{key}_rest"] = rest
    if rest["moment"] is None:
        return
    st.query_params["step"] = str(rest["moment"])
    if rest["pin"]:
        st.query_params["pin"] = rest["pin"]
    else:
        st.query_params.pop("pin", None)


def opening(key: str) -> dict[str, Any]:
    """Where a player that is new on the page begins: where it was left, or else where the address says.

    It stays the same while the player is there: data that changed would all be sent again.
    """
    if key not in st.session_state:
        st.session_state[f"{key}_opening"] = st.session_state.get(f"{key}_rest") or asked()
    return st.session_state[f"{key}_opening"]


def asked() -> dict[str, Any]:
    """The moment and the pin that the address names."""
    moment, text = None, st.query_params.get("step")
    if text is not None:
        moment, problem = parse_number(text, int, 0, MOST_MOMENTS)
        if problem:
            st.warning(wrong("step", text, problem))
    return {"moment": moment, "pin": st.query_params.get("pin")}
