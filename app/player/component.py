"""The player as a Streamlit component. Registered once, on import: a page is run again at every click."""

from pathlib import Path

from streamlit.components.v2 import component

from app.player import player_css, player_js

_HOST = Path(__file__).with_name("streamlit.js")

show_player = component(
    "pagelab_player", css=player_css(), js=player_js() + _HOST.read_text(encoding="utf-8")
)
