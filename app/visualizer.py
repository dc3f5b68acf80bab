"""The visualizer: `pagelab app`, or `streamlit run app/visualizer.py`. This file is its navigation.

A page is imported when it is opened: the start page stands before PyTorch could even be loaded.
"""

from collections.abc import Callable
from importlib import import_module

import streamlit as st

PAGES = {  # module below app, title, place in the address
    "playground": ("Playground", ""),
    "predict_page": ("Predict", "predict"),
    "measured_page": ("Simulated vs measured", "measured"),
    "kernels_page": ("Kernels", "kernels"),
    "sweeps_page": ("Sweeps", "sweeps"),
    "calculator": ("Calculator", "calculator"),
    "claims_page": ("Claims", "claims"),
}


def opener(module: str) -> Callable[[], None]:
    """What opens a page: its module's `page`, imported then."""
    return lambda: import_module(f"app.{module}").page()


def navigate() -> None:
    """Shows the page that the address names."""
    st.set_page_config(page_title="PageLab", layout="wide")
    chosen = st.navigation(
        [
            st.Page(opener(module), title=title, url_path=place or None, default=not place)
            for module, (title, place) in PAGES.items()
        ],
        position="top",
    )
    chosen.run()


if __name__ == "__main__":  # not in the processes that a page starts
    navigate()
