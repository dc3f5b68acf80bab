"""Every page of the visualizer in a browser, at both widths: whole, without an error, nothing that axe finds.

Pictures of them are left beside the player's, see `test_browser`.
"""

import pytest

from app.visualizer import PAGES
from tests.app.browsing import Browser

pytestmark = pytest.mark.browser

PLACES = {place or "playground": place for _, place in PAGES.values()}
OURS = "document.querySelector('[data-testid=stMain]')"  # around it is Streamlit's own
# The script has ended, and no stand-in is left for what the browser loads meanwhile.
IS_DONE = (
    "return document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
    f" && {OURS}.innerText.length > 100 && !{OURS}.querySelector('[data-testid=stSkeleton]')"
)
HAS_PLAYER = "return root?.querySelector('.clock')?.textContent"


def visit(browser: Browser, address: str, *, has_player: bool) -> None:
    """Opens a page and waits until it stands."""
    browser.driver.get("about:blank")
    browser.driver.get(address)
    browser.wait(lambda: browser.run(IS_DONE), "the page to stand")
    if has_player:
        browser.wait(lambda: browser.run(HAS_PLAYER), "the player to appear")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PLACES)
def test_a_page_stands_at_either_width(browser: Browser, server: str, name: str, width: int) -> None:
    browser.set_width(width)
    visit(browser, server + PLACES[name], has_player=name == "playground")
    browser.screenshot(f"app_{name}_{width}")
    too_wide = browser.run(f"return {OURS}.scrollWidth - {OURS}.clientWidth")
    found, errors = browser.violations(OURS), browser.errors()
    browser.set_width(1280)
    assert too_wide <= 0
    assert found == []
    assert errors == []
