"""The player's own tests, and the texts that its hosts are given."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.payload import replay_payload
from app.player import MODULES, embed_html, player_css, player_js, standalone_html
from sim import Config, Request, Trace, simulate
from tests.app.player.golden import golden_json
from tests.making import requests

HERE = Path(__file__).parent / "player"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="the player's own tests need node (https://nodejs.org)")


@needs_node
def test_the_players_own_tests_pass(tmp_path: Path) -> None:
    assert NODE
    golden = tmp_path / "golden.json"
    golden.write_text(golden_json())
    files = sorted(str(path) for path in HERE.glob("*.test.js"))
    done = subprocess.run(
        [NODE, "--test", *files],
        env={**os.environ, "PAGELAB_GOLDEN": str(golden)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(re.findall(r"^\D*pass (\d+)$", done.stdout, re.MULTILINE)[-1]) >= 20


@needs_node
def test_the_joined_modules_are_one_valid_module(tmp_path: Path) -> None:
    assert NODE
    joined = tmp_path / "player.mjs"
    joined.write_text(player_js() + "\nexport default mount;\n")
    subprocess.run([NODE, "--check", str(joined)], check=True, timeout=30)


def test_joining_leaves_no_import_and_no_export_behind() -> None:
    assert not re.search(r"^(import|export)\b", player_js(), re.MULTILINE)
    assert "class Player" in player_js()


def test_every_module_of_the_player_is_joined() -> None:
    folder = HERE.parents[2] / "app" / "player"
    hosts = {"embed.js", "streamlit.js", "widget.js"}
    assert {path.name for path in folder.glob("*.js")} == set(MODULES) | hosts


def test_streamlit_takes_the_texts_for_code_and_not_for_paths() -> None:
    assert "\n" in player_js().strip()  # a text of one line that holds / ? or * would be read as a file
    assert "\n" in player_css().strip()


def replay(trace: Trace) -> dict[str, object]:
    pair = (Config(allocator=name, pool_tokens=64, max_len=32, timing="unit") for name in ("max", "paged"))
    return replay_payload([simulate(trace, config) for config in pair])


def test_the_page_needs_nothing_from_the_network() -> None:
    page = standalone_html(replay(requests((8, 4), (9, 3))))
    assert not re.search(r"(?:src|href)\s*=\s*\"(?!data:)", page)
    assert set(re.findall(r"https?://[\w./]+", page)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, never fetched


def test_the_page_holds_the_whole_replay() -> None:
    payload = replay(requests((8, 4), (9, 3)))
    found = re.search(r"^const replay = (.*);$", standalone_html(payload), re.MULTILINE)
    assert found
    assert json.loads(found[1]) == payload


def test_a_request_named_like_markup_cannot_break_out_of_the_page() -> None:
    evil = "</script><script>alert(1)</script>"
    trace = Trace(evil, (Request(id=evil, arrival_s=0.0, prompt=8, output=2, max_tokens=2),))
    page = standalone_html(replay(trace))
    assert "<script>alert" not in page
    assert page.count("</script>") == 1


def test_a_fragment_is_no_page() -> None:
    fragment = embed_html(replay(requests((8, 4))))
    assert "<html" not in fragment
    assert fragment.startswith('<div class="pagelab-replay">')
