"""Every page of the visualizer in a browser, at both widths: whole, without an error, nothing that axe finds.

Pictures of them are left beside the player's, see `test_browser`.
"""

import os
import subprocess
import sys

import pytest

from app.visualizer import PAGES
from tests.app.browsing import ROOT, Browser

pytestmark = pytest.mark.browser

PLACES = {place or "playground": place for _, place in PAGES.values()}
OURS = "document.querySelector('[data-testid=stMain]')"
# The page and its sidebar; around them is Streamlit's own.
PARTS = "['[data-testid=stMain]', '[data-testid=stSidebar]']"
CHECKED = f"{{include: {PARTS}.filter((part) => document.querySelector(part))}}"
# The script has ended, and no stand-in is left for what the browser loads meanwhile.
IS_DONE = (
    "return document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
    f" && {OURS}.innerText.length > 100 && !{OURS}.querySelector('[data-testid=stSkeleton]')"
)
WITH_PLAYER = ("playground", "predict")
HAS_PLAYER = "return root?.querySelector('.clock')?.textContent"


def visit(browser: Browser, address: str, *, has_player: bool) -> None:
    """Opens a page and waits until it stands."""
    browser.driver.get("about:blank")
    browser.driver.get(address)
    browser.wait(lambda: browser.run(IS_DONE), "the page to stand")
    if has_player:
        browser.wait(lambda: browser.run(HAS_PLAYER), "the player to appear")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "light"), (1280, "dark")])
@pytest.mark.parametrize("name", PLACES)
def test_a_page_stands_at_either_width(
    browser: Browser, server: str, name: str, width: int, theme: str
) -> None:
    browser.emulate(prefers_color_scheme=theme)
    browser.set_width(width)
    visit(browser, server + PLACES[name], has_player=name in WITH_PLAYER)
    browser.whole_screenshot(f"app_{name}_{width}_{theme}", width, OURS)
    too_wide = browser.run(f"return {OURS}.scrollWidth - {OURS}.clientWidth")
    found, errors = browser.violations(CHECKED), browser.errors()
    browser.set_width(1280)
    browser.emulate()
    assert too_wide <= 0
    assert found == []
    assert errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_said_at_the_side_and_below_a_field_stands_out_as_well(
    browser: Browser, server: str, theme: str
) -> None:
    browser.emulate(prefers_color_scheme=theme)
    visit(browser, f"{server}?mode=sources&trace=shared-prefix", has_player=False)
    found = browser.violations(CHECKED)
    visit(browser, f"{server}?trace=table&rows=" + ";".join(["0:8:4"] * 3), has_player=True)
    found += browser.violations(CHECKED)
    browser.emulate()
    assert found == []


@pytest.mark.parametrize(("needed", "code"), [({}, 0), ({"PAGELAB_NEED_BROWSER": "1"}, 1)])
def test_where_a_browser_is_needed_its_absence_is_an_error_and_else_the_tests_are_skipped(
    needed: dict[str, str], code: int
) -> None:
    environment = {**os.environ, "PATH": "", "PAGELAB_NEED_BROWSER": "", **needed}
    program = "import tests.app.browsing as one; print(one.HAS_BROWSER)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == code
    assert "needs selenium, and chromium" in done.stderr if code else done.stdout == "False\n"
