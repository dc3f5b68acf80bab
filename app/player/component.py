"""The player as a Streamlit component. Registered once, on import: a page is run again at every click.

    show_player(data={"replay": ..., "moment": ..., "pin": ...}, default={"step": None, "pin": None},
                on_step_change=..., on_pin_change=..., key=...)

`moment` is where to begin (a number or None), `pin` the id of the request to keep in focus; a page that does
not keep the pin leaves it out everywhere. The state's `step` and `pin` are where people came to rest.
"""

from pathlib import Path

from streamlit.components.v2 import component

from app.player import player_css, player_js

_HOST = Path(__file__).with_name("streamlit.js")

show_player = component(
    "pagelab_player", css=player_css(), js=player_js() + _HOST.read_text(encoding="utf-8")
)
