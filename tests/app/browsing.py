"""A real headless browser for tests, and where it leaves its pictures."""

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.payload import replay_payload
from app.player import standalone_html
from sim import Config, Run, Trace, simulate
from tests.waiting import wait_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
HAS_BROWSER = bool(CHROMIUM and CHROMEDRIVER and find_spec("selenium"))
WHAT_IT_NEEDS = "needs selenium, and chromium and chromedriver on the PATH"
if os.environ.get("PAGELAB_NEED_BROWSER") and not HAS_BROWSER:  # there nothing is to be skipped unseen
    raise RuntimeError(f"a browser test {WHAT_IT_NEEDS}")
ROOT = Path(__file__).parents[2]
SCREENSHOTS = Path(os.environ.get("PAGELAB_SCREENSHOTS", ROOT / "out" / "screenshots"))
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
]

ENTER = "\ue007"  # as a driver types it

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
# All that is painted in the player, as text.
PICTURES = "return [...root.querySelectorAll('.stage canvas')].map((canvas) => canvas.toDataURL())"


@contextmanager
def chromium(*flags: str) -> Generator[Any]:
    """A driver of a new browser, whose console can be read."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as free:
        return free.getsockname()[1]


def is_up(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) == 0


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
        self.run("root.focus({preventScroll: true})")

    def run(self, script: str) -> Any:
        return self.driver.execute_script(FIND + script)

    def wait(self, condition: Callable[[], Any], what: str, seconds: float = 90.0) -> Any:
        return wait_for(condition, what, seconds)

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

    def set_width(self, width: int, height: int = 900) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        time.sleep(0.5)

    def errors(self) -> list[str]:
        """What the console has, but for what Streamlit itself asks.

        That is of a network that tests do not have, and whether its server lies below a page's address.
        """
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE"
            and not any(asked in entry["message"] for asked in ("net::ERR_NAME_NOT_RESOLVED", "/_stcore/"))
        ]

    def point_at(self, selector: str, x: float, y: float, *, click: bool = False, number: int = 0) -> None:
        """Moves the pointer to a place in an element, and clicks there if asked to."""
        kinds = ["pointerover", "pointermove", *(["click"] if click else [])]
        self.run(
            f"const target = root.querySelectorAll({json.dumps(selector)})[{number}];"
            "const box = target.getBoundingClientRect();"
            f"for (const kind of {json.dumps(kinds)}) target.dispatchEvent(new PointerEvent(kind, "
            f"{{clientX: box.left + {x}, clientY: box.top + {y}, bubbles: true}}))"
        )

    def emulate(self, **features: str) -> None:
        """Media features such as prefers_color_scheme="dark"; none for the usual ones."""
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})

    def element(self, selector: str) -> Any:
        """Of the page around the player."""
        return self.driver.find_element("css selector", selector)

    def screenshot(self, name: str) -> None:
        """Leaves a picture for those who look at a build."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def whole_screenshot(self, name: str, width: int, part: str) -> None:
        """A picture in which the part that scrolls, named by an expression, is as high as what it holds."""
        self.set_width(width, height=max(900, self.run(f"return {part}.scrollHeight") + 60))
        self.screenshot(name)
        self.set_width(width)

    def violations(self, of: str = "document") -> list[str]:
        """What axe finds on the page, or in the part that an expression names, with the elements."""
        axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        self.driver.execute_script(axe)
        look = f"const done = arguments[0]; axe.run({of}).then(done)"
        found: list[dict[str, Any]] = self.driver.execute_async_script(look)["violations"]
        return [f"{one['id']}: {[node['html'][:120] for node in one['nodes']]}" for one in found]

    def cpu_s(self, name: str = "TaskDuration") -> float:
        """Seconds of processor time that the page's main thread has used: other programs do not count."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == name)


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


def page_of(trace: Trace, folder: Path, **dials: Any) -> str:
    """The address of a page without a server that replays `trace` under max and paged."""
    return write_page(runs_of(trace, **dials), folder)


def runs_of(trace: Trace, **dials: Any) -> list[Run]:
    """`trace` under max and paged."""
    return [simulate(trace, Config(allocator=name, **dials)) for name in ("max", "paged")]


def write_page(runs: list[Run], folder: Path) -> str:
    """The address of a page without a server that replays `runs`."""
    path = folder / "replay.html"
    path.write_text(standalone_html(replay_payload(runs)), encoding="utf-8")
    return path.as_uri()
