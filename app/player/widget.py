"""The player as a Jupyter widget, for any front end that anywidget runs in."""

from pathlib import Path
from typing import Any, cast

import anywidget
import traitlets

from app.player import player_css, player_js

_HOST = Path(__file__).with_name("widget.js")


class ReplayWidget(anywidget.AnyWidget):
    """`replay` is what `app.payload` makes; `moment` and `pin` follow what the reader does, and lead it.

    `still` is a picture for who reads the notebook without its widgets.
    """

    _esm = player_js() + _HOST.read_text(encoding="utf-8")
    _css = player_css()
    replay = traitlets.Dict().tag(sync=True)
    moment = traitlets.Int(None, allow_none=True).tag(sync=True)
    pin = traitlets.Unicode(None, allow_none=True).tag(sync=True)

    def __init__(self, still: bytes, **state: Any) -> None:
        super().__init__(**state)
        self._still = still

    def __repr__(self) -> str:
        return str(self.replay["verdict"])

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The widget, and for front ends that have none the picture and the sentence."""
        made = super()._repr_mimebundle_(**kwargs)  # pyright: ignore
        bundle = cast(tuple[dict[str, Any], dict[str, Any]] | None, made)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "image/png": self._still, "text/plain": repr(self)}, metadata
