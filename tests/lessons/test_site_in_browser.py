"""The page of lessons 1 to 4 in a real headless browser; with Python itself where PAGELAB_PYODIDE names it.

Screenshots are left where those of the player are.
"""

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.payload import replay_payload
from app.player.notebook import Still
from lessons.browser.cells import run_cell
from lessons.browser.site import write_site
from sim import Config, Trace, simulate
from tests.app.browsing import CHROMEDRIVER, CHROMIUM, CONTRASTS, FLAGS, SCREENSHOTS
from tests.lessons.test_site import PYODIDE, needs_pyodide
from tests.waiting import wait_for

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver on the PATH"),
]

FIRST_STUB = """def rows_computed(prompt: int, output: int, has_cache: bool) -> int:
    return prompt + output - 1 if has_cache else sum(prompt + step for step in range(output))
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def served(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("localhost", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A site whose Pyodide does not load."""
    folder = tmp_path_factory.mktemp("broken")
    write_site(folder)
    (folder / "pyodide").mkdir()
    (folder / "pyodide" / "pyodide.mjs").write_text("throw new Error('not a Pyodide');")
    yield from served(folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    write_site(folder)
    lend_pyodide(Path(str(PYODIDE)), folder / "pyodide")
    yield from served(folder)


def lend_pyodide(source: Path, target: Path) -> None:
    """Links to its files. A browser insists on the digest of each wheel: here on those of these."""
    target.mkdir()
    for path in source.resolve().iterdir():
        if path.name != "pyodide-lock.json":
            (target / path.name).symlink_to(path)
    lock = json.loads((source / "pyodide-lock.json").read_text())
    for package in lock["packages"].values():
        wheel = source / package["file_name"]
        if wheel.exists():
            package["sha256"] = sha256(wheel.read_bytes()).hexdigest()
    (target / "pyodide-lock.json").write_text(json.dumps(lock))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Page"]:
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    driver.set_page_load_timeout(60)
    yield Page(driver)
    driver.quit()


class Page:
    """The page, with its cells by lesson and number."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(url)
        self.wait(lambda: self.run("return document.querySelector('.cell .row')"), "the cells")

    def run(self, script: str, *arguments: Any) -> Any:
        cell = "const cell = (n) => document.querySelector(`article:not([hidden]) [aria-label='Cell ${n}']`);"
        return self.driver.execute_script(cell + script, *arguments)

    def wait(self, condition: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
        return wait_for(condition, what, seconds, also=lambda: f"; the page says: {self.status}")

    def write(self, number: int, code: str) -> None:
        self.run(
            "const editor = cell(arguments[0]).querySelector('textarea'); editor.value = arguments[1];"
            "editor.dispatchEvent(new Event('input'))",
            number,
            code,
        )

    def code(self, number: int) -> str:
        return self.run("return cell(arguments[0]).querySelector('textarea').value", number)

    def click(self, number: int, name: str) -> None:
        buttons = "[...cell(arguments[0]).querySelectorAll('button')]"
        self.run(f"{buttons}.find((button) => button.textContent === arguments[1]).click()", number, name)

    def press(self, number: int, key: str, **held: bool) -> None:
        event = "new KeyboardEvent('keydown', {key: arguments[1], cancelable: true, ...arguments[2]})"
        editor = "const editor = cell(arguments[0]).querySelector('textarea'); editor.focus();"
        self.run(f"{editor} editor.dispatchEvent({event})", number, key, held)

    def state(self, number: int) -> str | None:
        return self.run("return cell(arguments[0]).dataset.state", number)

    def shown(self, number: int) -> str:
        """What stands below a cell once it has run."""
        self.wait(lambda: self.state(number) in ("done", "failed"), f"cell {number} to end")
        return self.run("return cell(arguments[0]).querySelector('.output').innerText", number)

    @property
    def status(self) -> str:
        return self.run("return document.getElementById('status').textContent")

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))


def test_one_lesson_is_shown_at_a_time_and_the_address_says_which(browser: Page, broken: str):
    browser.open(f"{broken}#lesson-4")
    visible = "[...document.querySelectorAll('h1')].filter((heading) => heading.checkVisibility())"
    headings = f"return {visible}.map((heading) => heading.innerText)"
    assert browser.run(headings) == ["4. Paging: the allocator and the block table"]
    browser.run("document.querySelector('nav a[href=\"#lesson-2\"]').click()")
    browser.wait(lambda: browser.run(headings)[0].startswith("2. One range"), "lesson 2")


def test_what_was_written_is_there_after_a_reload_until_one_starts_anew(browser: Page, broken: str):
    browser.open(broken)
    original = browser.code(7)
    browser.write(7, "x = 1")
    browser.open(broken)
    assert browser.code(7) == "x = 1"
    browser.click(7, "Original")
    assert browser.code(7) == original
    browser.write(7, "x = 2")
    browser.run("window.confirm = () => true; document.getElementById('anew').click()")
    assert browser.code(7) == original
    browser.open(broken)
    assert browser.code(7) == original


def test_a_python_that_does_not_start_is_said_and_nothing_waits_for_ever(browser: Page, broken: str):
    browser.open(broken)
    browser.click(1, "Run")
    browser.wait(lambda: browser.status.startswith("Python did not start: "), "the reason")
    assert browser.state(1) == ""
    assert browser.run("return document.getElementById('stop').hidden")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_read_at_either_width_and_in_either_light(
    browser: Page, broken: str, width: int, theme: str
):
    command = browser.driver.execute_cdp_cmd
    command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    command("Emulation.setDeviceMetricsOverride", metrics)
    browser.open(broken)
    overflow = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
    contrasts = browser.run(f"const root = document.body; {CONTRASTS}")
    browser.screenshot(f"site_{width}_{theme}")
    command("Emulation.clearDeviceMetricsOverride", {})
    command("Emulation.setEmulatedMedia", {"features": []})
    assert overflow <= 0
    assert len(contrasts) > 30
    assert {text: ratio for text, ratio in contrasts if ratio < 4.5} == {}


SHOW = """
const place = {output: cell(2).querySelector('.output'), kind: 'code'};
import('./outputs.js').then((module) => module.showOutputs(place, arguments[0]));
"""


def test_a_picture_stands_below_its_cell_with_its_words_for_those_who_do_not_see_it(
    browser: Page, broken: str
):
    browser.open(broken)
    outputs = run_cell("from lessons import pictures\npictures.strip({'max': (7, 3, 20)})", "cell 2", {})
    assert outputs[0]["text"].startswith("max: 7 live, 3 reserved, 20 internal")
    browser.run(SHOW, outputs)
    image = "const image = cell(2).querySelector('img');"
    wide = f"{image} return image?.complete && image.naturalWidth > 600"
    browser.wait(lambda: browser.run(wide), "the picture")
    assert browser.run(f"{image} return image.alt") == outputs[0]["text"]


def test_the_player_plays_below_its_cell(browser: Page, broken: str):
    browser.open(broken)
    runs = tuple(
        simulate(Trace.read("four-requests"), Config(allocator=name, pool_tokens=4096, max_len=1024))
        for name in ("max", "paged")
    )
    still = Still(runs, replay_payload(runs))
    browser.run(SHOW, run_cell("still", "cell 2", {"still": still}))
    clock = "cell(2).querySelector('iframe')?.contentDocument.querySelector('.pagelab-replay')?.shadowRoot"
    browser.wait(lambda: browser.run(f"return Boolean({clock}?.querySelector('.clock'))"), "the player")
    height = "return cell(2).querySelector('iframe').clientHeight"
    browser.wait(lambda: browser.run(height) > 400, "as much room as the player takes")
    browser.run("cell(2).querySelector('iframe').scrollIntoView({block: 'center'})")
    browser.screenshot("site_player")


def test_the_keys_in_a_cell_indent_and_let_one_out_again(browser: Page, broken: str):
    browser.open(broken)
    browser.write(7, "def f():")
    browser.run("const e = cell(7).querySelector('textarea'); e.focus(); e.setSelectionRange(99, 99)")
    browser.press(7, "Enter")
    assert browser.code(7) == "def f():\n    "
    browser.press(7, "Tab")
    assert browser.code(7) == "def f():\n        "
    browser.press(7, "Escape")
    browser.press(7, "Tab")
    assert browser.code(7) == "def f():\n        "
    browser.click(7, "Original")


@needs_pyodide
def test_a_student_runs_the_lesson_fills_in_a_stub_and_sees_the_check_pass(browser: Page, site: str):
    browser.open(site)
    browser.press(1, "Enter", shiftKey=True)
    assert browser.run("return document.activeElement === cell(2).querySelector('textarea')"), (
        "on to the next"
    )
    assert browser.shown(1) == "one token of OPT-13B: 819,200 bytes"
    browser.click(8, "Run all above")
    assert "In words: step 24 takes" in browser.shown(4) or browser.run(
        "return cell(4).querySelector('img').alt"
    )
    browser.click(8, "Run")
    assert browser.shown(8).startswith("Not written yet.")
    browser.write(7, FIRST_STUB.replace("- 1", ""))
    browser.click(7, "Run")
    browser.click(8, "Run")
    browser.wait(lambda: "rows_computed(" in browser.shown(8), "the first counter-example")
    assert "Not right yet" in browser.shown(8)
    browser.run("cell(7).scrollIntoView()")
    browser.screenshot("site_wrong")
    browser.write(7, FIRST_STUB)
    browser.click(7, "Run")
    browser.click(8, "Run")
    browser.wait(lambda: browser.shown(8) == "rows_computed: right in all 50 cases", "the check to pass")
    progress = "return document.querySelector('[data-lesson=lesson-1]').textContent"
    assert browser.run(progress) == "1 of 3"
    browser.run("cell(7).scrollIntoView()")
    browser.screenshot("site_passed")
    browser.open(site)
    assert browser.run(progress) == "1 of 3", "it is kept"


@needs_pyodide
def test_a_cell_that_does_not_end_can_be_stopped_and_python_starts_anew(browser: Page, site: str):
    browser.open(f"{site}#lesson-2")
    browser.click(2, "Run")
    assert "Has every cell above been run" in browser.shown(2)
    browser.write(1, "while True:\n    pass")
    browser.click(1, "Run")
    browser.wait(lambda: browser.state(1) == "runs", "the endless loop")
    browser.run("document.getElementById('stop').click()")
    assert browser.state(1) == ""
    browser.click(1, "Original")
    browser.click(2, "Run all above")
    assert browser.shown(1) == "1920 of 16384 slots used: 88.3 % wasted"
