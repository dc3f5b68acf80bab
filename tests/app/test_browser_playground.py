"""The playground in a browser: a link that is handed on, what stands there first, one's own trace."""

import time
from pathlib import Path

import pytest

from app.own_trace import MAX_UPLOAD_MB
from app.quiz import sheet
from tests.app.browsing import ENTER, Browser
from tests.app.test_browser_pages import HAS_PLAYER, IS_DONE, OURS

pytestmark = pytest.mark.browser

SENTENCE = "return document.querySelector('.pl .say')?.textContent"
STANDING = (  # at one moment: the sentence and what stands below it, once something does
    "const said = document.querySelector('.pl .say')?.textContent;"
    "const has = {bar: document.querySelector('[data-testid=stProgress]') !== null,"
    " player: root?.querySelector('.clock')?.textContent !== undefined};"
    "return said && (has.bar || has.player) ? [said, has] : null"
)
REFUSAL = "return document.querySelector('[data-testid=stAlertContentError]')?.innerText"
TEXT = f"return {OURS}.innerText"


def item(browser: Browser, text: str) -> None:
    """Chooses an entry of the player's menu."""
    entries = "[...root.querySelectorAll('.items button')]"
    browser.run(f"{entries}.find((e) => e.textContent === '{text}').click()")


def turn_to(browser: Browser, place: str) -> None:
    """Another page, by the navigation: in the same session."""
    link = f"[...document.querySelectorAll('a')].find((a) => new URL(a.href).pathname === '/{place}')"
    browser.run(f"{link}.click()")
    browser.wait(
        lambda: browser.run(f"return location.pathname === '/{place}'") and browser.run(IS_DONE), "the page"
    )


def test_the_link_that_is_copied_restores_what_was_shown(browser: Browser, server: str) -> None:
    browser.open(f"{server}?trace=fragmentation&a=oracle&block_size=32&seed=7&step=77")
    browser.driver.execute_script(
        "navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }"
    )
    browser.press("ArrowRight", "2")
    browser.wait(lambda: "pin=" in browser.driver.current_url, "the address to follow")
    item(browser, "Copy a link to this moment")
    link = browser.driver.execute_script("return window.copied")
    before = browser.pictures
    browser.open(link)
    assert browser.moment == 78
    assert browser.pictures == before, "trace, sides, dials, moment and the pinned request"
    browser.press("p")
    assert "seed 7" in browser.text(".quiz .count")
    assert browser.errors() == []


def test_the_verdict_stands_before_the_picture_is_made(browser: Browser, server: str) -> None:
    browser.driver.get("about:blank")
    browser.driver.get(f"{server}?trace=sharegpt-like&first=150")
    sentence, has = browser.wait(lambda: browser.run(STANDING), "the verdict")
    assert sentence.startswith("Contiguous (max) wastes")
    assert has == {"bar": True, "player": False}
    browser.wait(lambda: browser.run(HAS_PLAYER), "the player")
    assert browser.text(".verdict") == sentence
    browser.wait(lambda: browser.run(IS_DONE), "the page to stand")
    assert not browser.run(SENTENCE), "the player says it now"
    assert browser.run("return document.querySelector('[data-testid=stProgress]') === null")
    assert browser.errors() == []


def test_the_moment_is_there_after_a_look_at_another_page(browser: Browser, server: str) -> None:
    browser.open(f"{server}?trace=table&rows=0:240:17;0.5:64:65")
    browser.press("Home", "ArrowRight", "ArrowRight")
    browser.wait(lambda: "step=2" in address(browser), "the moment to come to the address")
    turn_to(browser, "calculator")
    assert "rows" not in address(browser)
    turn_to(browser, "")
    browser.wait(lambda: browser.run(HAS_PLAYER), "the player")
    assert browser.moment == 2
    browser.wait(lambda: "rows=0:240:17;0.5:64:65" in address(browser), "the address")
    assert "step=2" in address(browser)


def address(browser: Browser) -> str:
    return browser.run("return decodeURIComponent(location.search)")


def test_files_that_are_too_large_or_no_trace_are_refused_in_a_line(
    browser: Browser, server: str, tmp_path: Path
) -> None:
    large, garbage = tmp_path / "large.jsonl", tmp_path / "garbage.jsonl"
    with large.open("wb") as file:
        file.truncate(201 * 2**20)  # a hole: takes no room
    garbage.write_bytes(b"\x00\xff\xfe" * 100)
    offer(browser, server, large)
    too_large = f"{MAX_UPLOAD_MB}.0MB or smaller"
    browser.wait(lambda: too_large in browser.run(TEXT), "the refusal")
    browser.screenshot("upload_refused_1280")
    offer(browser, server, garbage)
    refusal = browser.wait(lambda: browser.run(REFUSAL), "the refusal")
    assert refusal.startswith("garbage.jsonl")
    assert "\n" not in refusal
    assert browser.errors() == []


def offer(browser: Browser, server: str, path: Path) -> None:
    """Uploads a file as the trace."""
    browser.open(server)
    choose_trace(browser, "a file of mine")
    field = "[data-testid=stFileUploader] input"
    browser.wait(lambda: browser.run(f"return document.querySelector('{field}') !== null"), "the field")
    browser.element(field).send_keys(str(path))


def choose_trace(browser: Browser, name: str) -> None:
    """Types the name into the sidebar's first choice."""
    box = browser.element("[data-testid=stSidebar] [role=combobox]")
    box.click()
    box.send_keys(name)
    time.sleep(0.3)
    box.send_keys(ENTER)


def test_the_predict_page_asks_the_sheet_of_its_seed(browser: Browser, server: str) -> None:
    browser.emulate(prefers_reduced_motion="reduce")
    browser.open(f"{server}predict?seed=7")
    assert browser.moment == 0
    browser.press("p")
    first, *_ = sheet(7)
    assert browser.text(".quiz .ask") == first.ask
    browser.screenshot("predict_question_1280")
    browser.emulate()
    assert browser.errors() == []
