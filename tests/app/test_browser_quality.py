"""What is asked of the player whatever it shows: contrast, no violation that axe finds, speed.

The machine that runs this may be busy with other things. So speed is told in processor time of the page's
main thread, which does everything but compositing, and each figure is the best of three. What a quiet machine
plays in frames a second is in bench/player.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import run as pagelab
from app.payload import quiz_payload
from app.player import standalone_html
from sim import Run
from tests.app.browsing import CONTRASTS, Browser, page_of, runs_of, write_page
from tests.making import requests

pytestmark = pytest.mark.browser

TRIES = 3
FRAME_S = 1 / 50
NUM_FRAMES = 60
STREAM = Path(__file__).parent / "data" / "vllm_kv_events.msgpack"


@pytest.fixture(scope="module")
def quiz_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("quiz") / "quiz.html"
    path.write_text(standalone_html(quiz_payload(7)), encoding="utf-8")
    return f"{path.as_uri()}#step=2&predict"


@pytest.fixture(scope="module")
def large_runs() -> list[Run]:
    trace = requests(*[(400 + 37 * (index % 9), 330 + 13 * (index % 5)) for index in range(140)])
    return runs_of(trace, pool_tokens=256_000, max_len=2048, max_batch_tokens=65_536)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, page: str, theme: str) -> None:
    browser.emulate(prefers_color_scheme=theme)
    browser.open(f"{page}#step=200")
    assert browser.run("return root.dataset.theme") == theme
    contrasts = browser.run(CONTRASTS)
    browser.emulate()
    assert len(contrasts) > 30
    assert {text: ratio for text, ratio in contrasts if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_question_and_its_verdict_stand_out_as_well(browser: Browser, quiz_page: str, theme: str) -> None:
    browser.emulate(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
    browser.open(quiz_page)
    asked = browser.run(CONTRASTS)
    browser.run(
        "root.querySelector('.quiz input').value = '1'; root.querySelector('.quiz form button').click()"
    )
    told = browser.run(CONTRASTS)
    browser.emulate()
    assert any("It is 22.5" in text for text, _ in told)
    assert {text: ratio for text, ratio in [*asked, *told] if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, page: str, theme: str) -> None:
    browser.emulate(prefers_color_scheme=theme)
    browser.open(f"{page}#step=200")
    found = browser.violations()
    browser.run("root.querySelector('.menu').open = true")
    browser.press("f")
    found += browser.violations()
    browser.emulate()
    assert found == []


def test_axe_finds_nothing_while_a_question_is_asked(browser: Browser, quiz_page: str) -> None:
    browser.emulate(prefers_reduced_motion="reduce")
    browser.open(quiz_page)
    found = browser.violations()
    browser.emulate()
    assert browser.text(".quiz .ask").endswith("wasted, in %?")
    assert found == []


def best_of(tries: int, measure: Callable[[], float], limit: float) -> float:
    """The least of up to so many measurements; no more are made once one is below the limit."""
    best = measure()
    for _ in range(tries - 1):
        if best < limit:
            break
        best = min(best, measure())
    return best


def test_a_frame_of_a_large_replay_takes_less_than_a_fiftieth_of_a_second(
    browser: Browser, large_runs: list[Run], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Frames come when the machine lets them, but each is told that 20 ms have passed: so words are told as
    often as at 50 frames a second, and the work is that of a second of them."""
    assert sum(len(run.events) for run in large_runs) >= 100_000
    assert all(run.config.num_slots // 16 >= 16_000 for run in large_runs)
    browser.open(write_page(large_runs, tmp_path))
    browser.driver.execute_script(
        "const real = window.requestAnimationFrame.bind(window); let now = 0;"
        "window.requestAnimationFrame = (frame) => real(() => frame(now += 20));"
        "window.realFrame = real"
    )

    def one_frame_s() -> float:
        browser.press("Home", " ")
        before = browser.cpu_s()
        browser.driver.execute_async_script(
            "const [count, done] = arguments; let n = 0;"
            "const next = () => (++n < count ? realFrame(next) : done()); realFrame(next)",
            NUM_FRAMES,
        )
        spent = (browser.cpu_s() - before) / NUM_FRAMES
        browser.press(" ")
        return spent

    assert browser.run("return root.querySelectorAll('select option').length") > 5
    frame_s = best_of(TRIES, one_frame_s, FRAME_S)
    assert browser.moment > 20
    assert browser.errors() == []
    record_property("main_thread_ms_per_frame", round(1000 * frame_s, 1))
    assert frame_s < FRAME_S, f"{1000 * frame_s:.1f} ms of processor time a frame"


def test_a_run_of_a_thousand_requests_is_there_in_two_seconds(
    browser: Browser, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rows = [(30 + 37 * (index % 9), 2 + index % 5, index * 0.05) for index in range(1000)]
    page = page_of(requests(*rows), tmp_path, pool_tokens=16_384, max_len=512)

    def opening_s() -> float:
        browser.driver.get("about:blank")
        before = browser.cpu_s()
        browser.open(page)
        return browser.cpu_s() - before

    spent_s = best_of(TRIES, opening_s, 2.0)
    assert browser.run("return root.querySelector('.memory').width") > 0
    record_property("main_thread_s_to_open", round(spent_s, 2))
    assert spent_s < 2.0


def test_a_hundred_thousand_blocks_are_drawn_at_once(browser: Browser, tmp_path: Path) -> None:
    trace = requests(*[(1500, 20) for _ in range(300)])
    browser.open(page_of(trace, tmp_path, pool_tokens=1_600_000, max_len=2048, max_batch_tokens=100_000))
    spent = browser.run(
        "const start = performance.now();"
        "for (const key of ['Home', 'End', 'Home', 'End'])"
        " root.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"
        "return (performance.now() - start) / 4"
    )
    assert spent < 2000, f"{spent:.0f} ms for one picture from nothing"
    assert browser.errors() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_off_at_either_width(browser: Browser, page: str, quiz_page: str, width: int) -> None:
    """The pictures that a build leaves are made here: both widths, both themes, a question, presenting."""
    browser.set_width(width)
    overflows: dict[str, int] = {}
    for theme in ("light", "dark"):
        browser.emulate(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
        for name, address, key in (
            ("page", f"{page}#step=200", ""), ("question", quiz_page, ""), ("present", page, "f"),
        ):  # fmt: skip
            browser.open(address)
            if key:
                browser.press(key)
            browser.screenshot(f"{name}_{width}_{theme}")
            overflows[f"{name} {theme}"] = browser.run(
                "return document.documentElement.scrollWidth - window.innerWidth"
            )
    browser.emulate()
    browser.set_width(1280)
    assert {name: pixels for name, pixels in overflows.items() if pixels > 0} == {}


def test_a_report_of_a_trace_with_a_long_name_fits_a_narrow_screen(browser: Browser, tmp_path: Path) -> None:
    trace = tmp_path / f"{'a_trace_with_a_long_name_' * 6}.jsonl"
    trace.write_text('{"id": "r0", "arrival": 0, "prompt": 8, "output": 8}\n')
    assert pagelab(["simulate", str(trace), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    browser.set_width(390)
    try:
        browser.driver.get((tmp_path / "out" / "report.html").as_uri())
        width = browser.run("return document.documentElement.scrollWidth")
    finally:
        browser.set_width(1280)
    assert width <= 390


def test_a_stream_is_shown_without_a_share_of_waste(browser: Browser, tmp_path: Path) -> None:
    """And speeds are told in moments, the one of 1 in a moment."""
    path = tmp_path / "stream.html"
    assert pagelab(["kv-events", str(STREAM), "--html", str(path)]) == 0
    browser.open(path.as_uri())
    assert "waste" not in browser.text(".verdict").partition(";")[0]
    assert browser.run("return root.querySelector('.figure')") is None
    speeds = browser.run(
        "return [...root.querySelectorAll('.controls option')].map((one) => one.textContent)"
    )
    assert speeds[:3] == ["0.5 moments/s", "1 moment/s", "2 moments/s"]
