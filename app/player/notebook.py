"""The player in a notebook: the last line of a cell is `play(run)` or `play(run, other)`."""

from dataclasses import dataclass

from app.payload import replay_payload
from app.plots import as_png, ledger_timelines
from sim import Run


@dataclass(frozen=True, slots=True)
class Still:
    """What a notebook shows where there are no widgets: a picture, and a sentence."""

    picture: bytes
    verdict: str

    def __repr__(self) -> str:
        return self.verdict

    def _repr_png_(self) -> bytes:
        return self.picture


def play(*runs: Run, seed: int = 0) -> object:
    """The player with one run, or two side by side, and with the questions of `seed`.

    A widget where anywidget is installed, otherwise a `Still`. Raises InputError as `replay_payload` does.
    """
    payload = replay_payload(runs, seed=seed)
    picture = as_png(ledger_timelines(list(runs)))
    try:
        from app.player.widget import ReplayWidget
    except ImportError:
        return Still(picture, payload["verdict"])
    return ReplayWidget(picture, replay=payload)
