"""What the README shows is what its commands print."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sim import Config, Trace, simulate
from sim.report import summary

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Standard output of `make demo`'s command, and the folder it wrote."""
    out = tmp_path_factory.mktemp("demo")
    recipe = re.search(r"\$\(BIN\)/pagelab (compare demo .*) --out out/demo", (ROOT / "Makefile").read_text())
    assert recipe
    command = [sys.executable, "-m", "app", *recipe[1].split(), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout, out


def test_the_demo_prints_the_tables_in_the_readme(demo):
    printed = [line.rstrip() for line in demo[0].splitlines() if not line.startswith(("report:", "plot:"))]
    shown = re.search(r"<!-- demo: begin -->\n```\n(.*?)```\n<!-- demo: end -->", README, re.S)
    assert shown, "the README has no demo block"
    assert shown[1].splitlines() == printed


def test_a_roofline_moves_the_demos_shares_by_what_the_readme_says(demo):
    report = json.loads((demo[1] / "report.json").read_text(encoding="utf-8"))
    moved = {"waste": 0.0, "live": 0.0}
    for shown in report["runs"]:
        config = Config(allocator=shown["allocator"], pool_tokens=4096, max_len=512, timing="roofline")
        timed = summary(simulate(Trace.read("demo"), config))
        moved["waste"] = max(moved["waste"], abs(timed["waste_percent"] - shown["waste_percent"]))
        live, before = (100 * one["ledger"]["live"] / 4096 for one in (timed, shown))
        moved["live"] = max(moved["live"], abs(live - before))
    said = r"waste above moves by up to\s+(\S+) points and what is live by up to (\S+)\."
    found = re.search(said, README)
    assert found
    assert [f"{moved['waste']:.1f}", f"{moved['live']:.1f}"] == list(found.groups())


def test_the_demo_writes_one_page_that_needs_no_network(demo):
    _, out = demo
    page = (out / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert "max wastes 81.3 %" in page
    assert "paged wastes 7.2 %" in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert "<script src" not in page
    logs = {path.name for path in out.glob("events.*.jsonl")}
    assert {"events.paged-simulated.jsonl", "events.paged-measured.jsonl"} <= logs
    others = {path.name for path in out.iterdir()} - logs
    assert others == {"ledger.png", "report.html", "report.json"}


def test_the_pip_way_is_the_makefiles_way():
    recipe = re.search(r"\$\(BIN\)/(pagelab compare demo .*)", (ROOT / "Makefile").read_text())
    assert recipe
    assert f".venv/bin/{recipe[1]}" in README


def test_every_file_that_the_readme_names_exists():
    named = re.findall(r"`((?:sim|engine|app|tests|bench|lessons)/[\w./]*)`", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readme_names_every_command():
    from app.cli import COMMANDS

    for command in COMMANDS:
        assert f"pagelab {command}" in README
