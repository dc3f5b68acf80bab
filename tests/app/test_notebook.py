"""The player in a notebook."""

import sys
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from app.player.notebook import Still, play
from app.player.widget import ReplayWidget
from sim import Config, InputError, Run, simulate
from tests.app.browsing import ROOT
from tests.making import requests

WIDGET = "application/vnd.jupyter.widget-view+json"
CELL = """
from app.player.notebook import play
from sim import Config, Trace, simulate
trace = Trace.read("demo").first(6)
play(*(simulate(trace, Config(allocator=name, pool_tokens=2048, max_len=512)) for name in ("max", "paged")))
"""


def small_run(**dials: Any) -> Run:
    return simulate(requests((9, 5), (4, 6)), Config(block_size=4, pool_blocks=12, timing="unit", **dials))


def test_a_notebook_shows_the_player_and_a_picture_for_who_has_none() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    )
    executed = client.execute()
    (output,) = [one for one in executed.cells[0].outputs if one.output_type == "execute_result"]
    assert {WIDGET, "image/png", "text/plain"} <= set(output.data)
    assert "Contiguous (max) wastes" in output.data["text/plain"]
    states = executed.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    state = states[output.data[WIDGET]["model_id"]]["state"]
    assert [side["name"] for side in state["replay"]["sides"]] == ["contiguous (max)", "paged"]
    assert "export default" in state["_esm"]


def test_the_widget_keeps_what_the_reader_did() -> None:
    widget = play(small_run())
    assert isinstance(widget, ReplayWidget)
    assert (widget.moment, widget.pin) == (None, None)
    widget.set_state({"moment": 3, "pin": "r1"})
    assert (widget.moment, widget.pin) == (3, "r1")


def test_without_anywidget_there_is_a_picture_and_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "app.player.widget")
    still = play(small_run())
    assert isinstance(still, Still)
    assert repr(still).startswith("Paged wastes")
    assert still._repr_png_().startswith(b"\x89PNG")


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to replay"):
        play(simulate(requests((9, 5)), Config(), record=False))
