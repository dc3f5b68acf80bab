"""Every page of the visualizer in a browser, at both widths: whole, without an error, nothing that axe finds.

Pictures of them are left beside the player's, see `test_browser`.
"""

import pytest

from app.visualizer import PAGES
from tests.app.browsing import Browser

pytestmark = pytest.mark.browser

PLACES = {place or "playground": place for _, place in PAGES.values()}
IS_DONE = "return document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
OURS = "document.querySelector('[data-testid=stMain]')"  # around it is Streamlit's own


def visit(browser: Browser, address: str) -> None:
    """Opens a page and waits until it stands."""
    browser.driver.get("about:blank")
    browser.driver.get(address)
    browser.wait(lambda: browser.run(f"return {OURS}?.innerText.length > 100"), "the page to show something")
    browser.wait(lambda: browser.run(IS_DONE), "the page to stand")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PLACES)
def test_a_page_stands_at_either_width(browser: Browser, server: str, name: str, width: int) -> None:
    browser.set_width(width)
    visit(browser, server + PLACES[name])
    browser.screenshot(f"app_{name}_{width}")
    too_wide = browser.run(f"return {OURS}.scrollWidth - {OURS}.clientWidth")
    found, errors = browser.violations(OURS), browser.errors()
    browser.set_width(1280)
    assert too_wide <= 0
    assert found == []
    assert errors == []
