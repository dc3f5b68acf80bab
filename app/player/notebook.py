"""The player in a notebook: the last line of a cell is `play(run)` or `play(run, other)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.payload import replay_payload
from app.player import embed_html
from sim import Run


@dataclass(frozen=True, slots=True)
class Still:
    """What a notebook shows where there are no widgets: a picture, and a sentence."""

    runs: tuple[Run, ...]
    replay: dict[str, Any]

    def __repr__(self) -> str:
        return self.replay["verdict"]

    def _repr_png_(self) -> bytes:
        return _picture(self.runs)

    def as_fragment(self) -> str:
        """The player itself as HTML, for a host that lets scripts run (lessons/browser)."""
        return embed_html(self.replay)


def play(*runs: Run, seed: int = 0) -> object:
    """The player with one run, or two side by side, and with the questions of `seed`.

    A widget where anywidget is installed, otherwise a `Still`. Raises InputError as `replay_payload` does.
    """
    payload = replay_payload(runs, seed=seed)
    try:
        from app.player.widget import ReplayWidget
    except ImportError:
        return Still(runs, payload)
    return ReplayWidget(_picture(runs), replay=payload)


def _picture(runs: Sequence[Run]) -> bytes:
    from app.plots import as_png, ledger_timelines  # a browser may have no matplotlib

    return as_png(ledger_timelines(list(runs)))
