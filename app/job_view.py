"""What a page shows of a job that goes on: its bar, what it does, and the button that stops it."""

from typing import Any

import streamlit as st

from app.jobs import Job, Phase

LOOK_EVERY_S = 0.5


def show_job(job: Job[Any], key: str) -> None:
    """While it is active, redrawn twice a second without the rest of the page; then the page is run again."""
    if job.is_active:
        st.fragment(_watch, run_every=LOOK_EVERY_S)(job, key)
    elif job.phase is Phase.FAILED:
        st.error(job.problem)
    elif job.phase is Phase.STOPPED:
        st.info(f"Stopped at {job.share:.0%}; nothing of it is kept.")


def _watch(job: Job[Any], key: str) -> None:
    if not job.is_active:
        st.rerun()
    left, right = st.columns([5, 1], vertical_alignment="center")
    left.progress(job.share, text=f"{job.phase}: {job.what}")
    right.button("Stop", key=f"{key}_stop", on_click=job.stop, width="stretch")
