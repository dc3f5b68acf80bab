"""The visualizer and the page without a server, driven in a real headless browser.

Screenshots of both widths are left in the folder named by PAGELAB_SCREENSHOTS, where that is set.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.payload import replay_payload
from app.player import standalone_html
from sim import Config, Trace, simulate
from tests.making import requests

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
ROOT = Path(__file__).parents[2]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the PATH"),
]

# The player's root, through all shadow roots; null until it is there.
FIND = """
const find = (node) => {
  for (const element of node.querySelectorAll("*")) {
    if (element.classList.contains("pagelab")) return element;
    const found = element.shadowRoot && find(element.shadowRoot);
    if (found) return found;
  }
  return null;
};
const root = find(document);
"""
PICTURES = "return [...root.querySelectorAll('.pool canvas')].map((canvas) => canvas.toDataURL())"


class Browser:
    """A page with a player on it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get("about:blank")  # otherwise a new #step alone would load nothing
        self.driver.get(url)
        self.wait(
            lambda: self.run("return root?.querySelector('.clock')?.textContent"), "the player to appear"
        )
        self.run("root.focus()")

    def run(self, script: str) -> Any:
        return self.driver.execute_script(FIND + script)

    def wait(self, condition: Callable[[], Any], what: str, seconds: float = 90.0) -> Any:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if value := condition():
                return value
            time.sleep(0.05)
        raise AssertionError(f"waited {seconds:g} s for {what}")

    def press(self, *keys: str, shift: bool = False) -> None:
        for key in keys:
            self.run(
                "root.getRootNode().activeElement.dispatchEvent(new KeyboardEvent('keydown', "
                f"{{key: {json.dumps(key)}, shiftKey: {json.dumps(shift)}, "
                "bubbles: true, composed: true, cancelable: true}))"
            )

    def click(self, name: str) -> None:
        self.run(f"root.querySelector('button[aria-label=\"{name}\"]').click()")

    @property
    def moment(self) -> int:
        return self.number_after("moment")

    @property
    def last(self) -> int:
        return self.number_after("of")

    def number_after(self, word: str) -> int:
        """A number of "1.693 s, moment 188 of 1,950"."""
        return int(self.text(".clock").replace(",", "").split(f" {word} ")[1].split()[0])

    @property
    def pictures(self) -> list[str]:
        return self.run(PICTURES)

    def text(self, selector: str) -> str:
        return self.run(f"return root.querySelector({json.dumps(selector)}).textContent")

    def set_width(self, width: int) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        time.sleep(0.5)

    def errors(self) -> list[str]:
        """What the console has, but for what Streamlit itself asks of a network that tests do not have."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE" and "net::ERR_NAME_NOT_RESOLVED" not in entry["message"]
        ]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    driver.set_page_load_timeout(60)
    yield Browser(driver)
    driver.quit()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running visualizer."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/visualizer.py", "--server.headless", "true"]
    log = (tmp_path_factory.mktemp("streamlit") / "log").open("w+")
    process = subprocess.Popen(
        [*command, "--server.port", str(port), "--server.address", "localhost"],
        cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                break
        time.sleep(0.1)
    yield f"http://localhost:{port}/"
    process.terminate()
    process.wait(10)
    log.close()


def page_of(trace: Trace, folder: Path, **dials: Any) -> str:
    """The address of a page without a server that replays `trace` under max and paged."""
    runs = [simulate(trace, Config(allocator=name, **dials)) for name in ("max", "paged")]
    path = folder / "replay.html"
    path.write_text(standalone_html(replay_payload(runs)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo trace, which preempts nobody, in a pool that makes its paged side preempt."""
    folder = tmp_path_factory.mktemp("page")
    return page_of(Trace.read("demo"), folder, pool_tokens=2048, max_len=512)


def test_the_page_opens_with_the_verdict_and_does_not_play_by_itself(browser: Browser, page: str) -> None:
    browser.open(page)
    assert "wastes" in browser.text(".verdict")
    assert "simulated" in browser.text(".badge")
    before = browser.moment
    time.sleep(0.4)
    assert browser.moment == before
    assert browser.errors() == []


def test_stepping_back_returns_to_the_same_picture(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    start = browser.pictures
    browser.press(*["ArrowRight"] * 90)
    assert browser.moment == 290
    assert browser.pictures != start
    there = browser.pictures
    browser.press(*["ArrowLeft"] * 90)
    assert browser.pictures == start
    browser.press("Home", "End", "Home")
    browser.open(f"{page}#step=290")
    assert browser.pictures == there, "stepping there and opening there must paint the same"


def test_every_key_does_what_it_says(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    browser.press("ArrowRight")
    assert browser.moment == 201
    browser.press("ArrowLeft", "ArrowLeft")
    assert browser.moment == 199
    browser.press("ArrowRight", shift=True)
    after = browser.moment
    assert after > 199
    assert any(
        word in browser.text(".headline") for word in ("admitted", "preempted", "finishes", "rejected")
    )
    browser.press("ArrowLeft", shift=True)
    assert browser.moment < after
    browser.press("End")
    assert browser.moment == browser.last
    browser.press("Home")
    assert browser.moment == 0
    speed = "return root.querySelector('select').value"
    before = int(browser.run(speed))
    browser.press("]")
    assert int(browser.run(speed)) == 2 * before
    browser.press("[")
    assert int(browser.run(speed)) == before
    browser.press(" ")
    browser.wait(lambda: browser.moment > 2, "Space to play")
    browser.press(" ")
    paused = browser.moment
    time.sleep(0.3)
    assert browser.moment == paused


def test_handled_keys_stay_inside_and_others_pass(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.run("window.heard = []; document.addEventListener('keydown', (event) => heard.push(event.key))")
    browser.press(" ", " ", "ArrowLeft", "[", "]", "Home", "r", "c")
    assert browser.run("return window.heard") == ["r", "c"]


def test_the_buttons_have_names_and_work(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=100")
    browser.click("One moment on")
    assert browser.moment == 101
    browser.click("One moment back")
    browser.click("Next interesting event")
    assert browser.moment > 100
    browser.click("Last moment")
    browser.click("First moment")
    assert browser.moment == 0
    unnamed = (
        "return [...root.querySelectorAll('button, select, input')]"
        ".filter((control) => !control.getAttribute('aria-label') && !control.textContent).length"
    )
    assert browser.run(unnamed) == 0


def test_a_click_on_the_timeline_seeks_both_sides(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.run(
        "const frame = root.querySelector('.timeline .frame'); frame.setPointerCapture = () => {};"
        "const box = frame.querySelector('canvas').getBoundingClientRect();"
        "for (const kind of ['pointerdown', 'pointerup']) frame.dispatchEvent("
        "new PointerEvent(kind, {clientX: box.left + box.width / 2, clientY: box.top + 5, bubbles: true}))"
    )
    now, end = (float(browser.text(part).split(" s")[0]) for part in (".clock", ".axis span:last-child"))
    assert 0.4 * end < now < 0.6 * end + 1


def test_pointing_at_a_slot_says_what_it_holds_and_a_click_keeps_it(browser: Browser, page: str) -> None:
    browser.open(page)
    point = (
        "const canvas = root.querySelectorAll('.pool canvas')[1]; const box = canvas.getBoundingClientRect();"
        "for (const kind of ['pointermove', 'click']) canvas.dispatchEvent("
        "new PointerEvent(kind, {clientX: box.left + 3, clientY: box.top + 3, bubbles: true}))"
    )
    browser.run(point)
    readout = browser.run("return root.querySelectorAll('.readout')[1].textContent")
    assert readout.startswith("Block 0, slot 0 of 16: token")
    assert browser.run("return root.querySelectorAll('.chip.is-focus').length") > 0
    browser.press("Escape")


def test_the_picture_has_a_text_alternative_and_the_why_is_a_live_region(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    label = browser.run("return root.querySelector('.pool canvas').getAttribute('aria-label')")
    assert label.startswith("Memory of contiguous (max), 2,048 slots: ")
    assert "live" in label
    assert browser.run("return root.querySelector('.headline').getAttribute('aria-live')") == "polite"
    assert browser.run("return root.querySelector('input[type=range]').getAttribute('aria-valuetext')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, page: str, theme: str) -> None:
    media = [{"name": "prefers-color-scheme", "value": theme}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.open(f"{page}#step=200")
    assert browser.run("return root.dataset.theme") == theme
    contrasts = browser.run(CONTRASTS)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(contrasts) > 30
    assert {text: ratio for text, ratio in contrasts if ratio < 4.5} == {}


# [text, contrast with its ground] of every element that holds text itself. A texture as ground is left to
# the plate that chips put under their text.
CONTRASTS = """
const parse = (color) => color.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement ?? at.getRootNode().host) {
    const style = getComputedStyle(at);
    if (style.backgroundImage !== "none") return null;
    const color = parse(style.backgroundColor);
    if (color.length < 4 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
return [...root.querySelectorAll("*")]
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
  .filter((e) => e.checkVisibility() && ground(e))
  .map((e) => {
    const [one, other] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((a, b) => b - a);
    return [`${e.className || e.tagName}: ${e.textContent.slice(0, 30)}`, (one + 0.05) / (other + 0.05)];
  });
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_off_at_either_width(browser: Browser, page: str, width: int) -> None:
    browser.open(f"{page}#step=200")
    browser.set_width(width)
    overflow = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
    screenshot(browser, f"page_{width}")
    browser.set_width(1280)
    assert overflow <= 0


def test_a_thousand_blocks_play_on(
    browser: Browser, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The frame rate is noted, not judged: it says more of the machine and its load than of the player."""
    trace = requests(*[(400 + 37 * (index % 9), 60 + 13 * (index % 5)) for index in range(60)])
    browser.open(page_of(trace, tmp_path, pool_tokens=16_000, max_len=2048))
    browser.press("Home", "]", "]", "]", "]", "]", " ")
    rate, script_ms = frames(browser, 90)
    browser.wait(lambda: browser.moment > 20, "the player to play on")
    browser.press(" ")
    assert browser.errors() == []
    record_property("frames_per_second", round(rate))
    record_property("script_ms_per_frame", round(script_ms, 1))


def frames(browser: Browser, count: int) -> tuple[float, float]:
    """Frames a second over the next `count` of them, and milliseconds of script in each."""

    def script_s() -> float:
        metrics = browser.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "ScriptDuration")

    browser.driver.execute_cdp_cmd("Performance.enable", {})
    before = script_s()
    rate = browser.driver.execute_async_script(
        """
        const [count, done] = arguments;
        const times = [];
        const next = (now) => {
          times.push(now);
          if (times.length <= count) requestAnimationFrame(next);
          else done((1000 * count) / (times.at(-1) - times[0]));
        };
        requestAnimationFrame(next);
        """,
        count,
    )
    return rate, 1000 * (script_s() - before) / count


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


def test_the_visualizer_says_its_sentence_and_restores_a_link(browser: Browser, server: str) -> None:
    browser.open(server)
    assert "Contiguous (max) wastes" in browser.text(".verdict")
    screenshot(browser, "visualizer_1280")
    browser.open(f"{server}?trace=fragmentation&a=oracle&step=77")
    assert browser.moment == 77
    assert "contiguous (oracle)" in browser.text(".pictures h3")
    browser.press("ArrowRight")
    browser.wait(lambda: "step=78" in browser.driver.current_url, "the address to follow")
    browser.driver.refresh()
    browser.wait(lambda: browser.run("return root?.querySelector('.clock')"), "the player after a reload")
    assert browser.moment == 78
    assert browser.errors() == []


def test_playing_asks_nothing_of_the_server(browser: Browser, server: str) -> None:
    browser.open(f"{server}?step=100")
    browser.run(
        "window.sent = 0; const send = WebSocket.prototype.send;"
        "WebSocket.prototype.send = function (...all) { window.sent += 1; return send.apply(this, all); }"
    )
    browser.press(" ")
    browser.wait(lambda: browser.moment > 110, "the replay to play")
    assert browser.run("return window.sent") == 0
    browser.press(" ")
    browser.wait(lambda: browser.run("return window.sent"), "the moment to be reported at rest")
    browser.wait(lambda: f"step={browser.moment}" in browser.driver.current_url, "the address to follow")
    assert len(browser.run("return root.parentNode.querySelectorAll('.pagelab')")) == 1


def screenshot(browser: Browser, name: str) -> None:
    if folder := os.environ.get("PAGELAB_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.driver.save_screenshot(str(Path(folder) / f"{name}.png"))
