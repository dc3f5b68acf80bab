"""The visualizer's page "Predict": the sheet of `pagelab quiz`, played instead of printed."""

from typing import Any

import streamlit as st

from app.fields import MOST
from app.linked import settle, whole
from app.look import page_head
from app.payload import quiz_payload
from app.play import play


@st.cache_data(max_entries=64, show_spinner="Drawing the questions ...")
def replay_of(seed: int) -> dict[str, Any]:
    """The run that the sheet is about, from its first moment. By its name the player knows it from others."""
    replay = quiz_payload(seed)
    trace = {**replay["trace"], "name": f"quiz, seed {seed}"}
    return {"id": f"quiz-{seed}", **replay, "trace": trace, "start": 0}


def page() -> None:
    """A seed, and the player that asks."""
    page_head(
        "Predict",
        "Seven requests, a pool too small for them, six questions. Press Predict, or P: the replay stops "
        "before an event and asks, then shows it and scores. A seed names the sheet: everyone who takes it "
        "gets the same questions, here and on paper.",
    )
    field, command = st.columns([1, 3], vertical_alignment="bottom")
    settle("seed", "quiz_seed", 0, whole(0, MOST))
    seed = field.number_input("Seed", 0, MOST, key="quiz_seed", persist_state="session")
    command.code(f"pagelab quiz --seed {seed}", language=None)
    play(replay_of(seed), key="predict_player")
