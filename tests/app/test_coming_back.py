"""What a visitor brought along, and where the player stood, is there again after a look elsewhere."""

from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from app.payload import verdict
from app.replays import Unrecorded, first_verdict
from app.sides import NAMES, config_of
from app.trace_input import EXAMPLE
from sim import Trace, simulate
from tests.app.visiting import address, go, open_page, shown

LINE = b'{"id": "mine", "arrival": 0, "prompt": 8, "output": 2}\n'


def requests(page: AppTest) -> list[str]:
    return [request[0] for request in shown(page)["replay"]["requests"]]


def look_elsewhere(page: AppTest) -> None:
    """At another source of traces, then at another page, then back."""
    source = page.session_state["trace"]
    page.selectbox(key="trace").select("demo").run()
    assert len(requests(page)) > 2
    page.selectbox(key="trace").select(source).run()
    go(go(page, "calculator"), "playground")


def test_pasted_text_is_kept():
    page = open_page("playground")
    page.selectbox(key="trace").select("paste").run()
    page.text_area(key="pasted").set_value(EXAMPLE).run()
    assert requests(page) == ["a", "b"]
    look_elsewhere(page)
    assert page.text_area(key="pasted").value == EXAMPLE
    assert requests(page) == ["a", "b"]


def test_a_file_is_kept_until_another_takes_its_place():
    page = open_page("playground")
    page.selectbox(key="trace").select("upload").run()
    page.file_uploader(key="uploaded").upload("mine.jsonl", LINE).run()
    look_elsewhere(page)
    assert requests(page) == ["mine"]
    assert any("mine.jsonl is kept from before" in html.value for html in page.get("html"))
    page.file_uploader(key="uploaded").upload("other.jsonl", LINE.replace(b"mine", b"other")).run()
    assert requests(page) == ["other"]
    assert not any("kept from before" in html.value for html in page.get("html"))


def test_a_table_is_kept():
    page = open_page("playground", trace="table", rows="0:240:17;0.5:64:65")
    look_elsewhere(page)
    assert address(page)["rows"] == "0:240:17;0.5:64:65"
    assert len(requests(page)) == 2


def test_the_edits_of_a_table_are_kept():
    def edit(self: Any, rows: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
        return [{**rows[0], "prompt": 99}, *rows[1:]]

    with patch.object(DeltaGenerator, "data_editor", edit):  # a grid that cannot be typed into from here
        page = open_page("playground", trace="table", rows="0:240:17;0.5:64:65")
    with patch.object(DeltaGenerator, "data_editor", lambda self, rows, **options: rows):
        look_elsewhere(page)
    assert address(page)["rows"] == "0:99:17;0.5:64:65"


@pytest.mark.parametrize("source", ["paste", "upload"])
def test_a_link_to_text_or_a_file_says_that_it_carries_none(source):
    page = open_page("playground", trace=source)
    assert shown(page)["replay"]["trace"]["name"] == "demo"
    assert f"trace={source}: a link carries neither text nor file" in page.warning[0].value


def test_the_player_opens_where_it_was_left_and_says_so_in_the_address():
    page = open_page("playground", step="42")
    assert shown(page)["moment"] == 42
    page.session_state["player"] = {"step": 7, "pin": "r3"}
    for _ in range(2):  # the second time what it said is known
        page.run()
        assert shown(page)["moment"] == 42, "one that stays is not sent back to where it comes from"
    go(page, "calculator")
    assert address(page) == {}
    go(page, "playground")
    assert (shown(page)["moment"], shown(page)["pin"]) == (7, "r3")
    assert address(page) == {"step": "7", "pin": "r3"}


def test_players_of_two_pages_do_not_lead_each_other():
    page = open_page("playground", step="42")
    go(page, "predict_page")
    assert shown(page)["moment"] is None


@pytest.mark.parametrize("name", ["demo", "thrashing", "shared-prefix", "parallel-sampling", "fragmentation"])
def test_the_first_verdict_is_the_one_that_the_replay_says(name):
    """It is made without events, so that it can be said at once."""
    trace = Trace.read(name).first(16)
    sides = [config_of(side, {"pool_tokens": 4096, "max_len": 1024}) for side in NAMES]
    runs = [simulate(trace, config) for config in sides]
    for configs, both in zip(pairwise(sides), pairwise(runs), strict=True):
        assert first_verdict(trace, configs) == verdict(both)


def test_a_run_without_events_has_the_numbers_of_one_with_them():
    trace, config = Trace.read("demo"), config_of("paged-cache", {"pool_tokens": 2048, "max_len": 512})
    brief = Unrecorded.of(simulate(trace, config, record=False))
    assert brief.events == []
    assert 0 < brief.waste_percent < 100 and brief.time_s > 0 and brief.batch_mean > 1
