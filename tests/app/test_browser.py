"""The player on a page of its own and in the visualizer, driven in a real headless browser.

Screenshots are left in out/screenshots, or in the folder that PAGELAB_SCREENSHOTS names.
"""

import time
from pathlib import Path

import pytest

from app.payload import replay_payload
from app.player import standalone_html
from sim import Config, Trace, simulate
from tests.app.browsing import Browser

pytestmark = pytest.mark.browser


def test_the_page_opens_with_the_verdict_and_does_not_play_by_itself(browser: Browser, page: str) -> None:
    browser.open(page)
    assert "wastes" in browser.text(".verdict")
    assert "simulated" in browser.text(".badge")
    before = browser.moment
    time.sleep(0.4)
    assert browser.moment == before
    assert browser.errors() == []


def test_every_heading_of_a_side_says_whether_it_was_simulated_or_measured(
    browser: Browser, tmp_path: Path
) -> None:
    runs = [simulate(Trace.read("demo").first(12), Config(pool_tokens=2048, max_len=512)) for _ in range(2)]
    runs[1].source = "measured"
    path = tmp_path / "sources.html"
    path.write_text(standalone_html(replay_payload(runs)), encoding="utf-8")
    browser.open(path.as_uri())
    browser.screenshot("sources_1280")
    for heading in (".pictures h2", ".timeline .title", ".details h2"):
        badges = f"return [...root.querySelectorAll('{heading} .badge')].map((e) => e.textContent)"
        assert browser.run(badges) == ["simulated", "measured on a real engine"], heading
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


def test_the_picture_has_a_text_alternative_and_the_why_is_a_live_region(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    label = browser.run("return root.querySelector('.memory').getAttribute('aria-label')")
    assert label.startswith("Memory of contiguous (max), 2,048 slots: ")
    assert "live" in label
    times = browser.run(
        "return [...root.querySelectorAll('.timeline canvas')].map((e) => [e.role, e.ariaLabel])"
    )
    assert [role for role, _ in times] == ["img", "img"]
    assert all("on average" in words and "at most" in words for _, words in times)
    assert browser.run("return root.querySelector('.headline').getAttribute('aria-live')") == "polite"
    assert browser.run("return root.querySelector('input[type=range]').getAttribute('aria-valuetext')")


def test_the_visualizer_says_its_sentence_and_restores_a_link(browser: Browser, server: str) -> None:
    browser.open(server)
    assert "Contiguous (max) wastes" in browser.text(".verdict")
    browser.screenshot("visualizer_1280")
    browser.open(f"{server}?trace=fragmentation&a=oracle&step=77")
    assert browser.moment == 77
    assert "contiguous (oracle)" in browser.text(".pictures h2")
    browser.press("ArrowRight")
    browser.wait(lambda: "step=78" in browser.driver.current_url, "the address to follow")
    browser.driver.refresh()
    browser.wait(lambda: browser.run("return root?.querySelector('.clock')"), "the player after a reload")
    assert browser.moment == 78
    assert browser.errors() == []


def test_who_is_pinned_stays_pinned_when_a_dial_changes(browser: Browser, server: str) -> None:
    browser.open(f"{server}?step=100")
    browser.press("2")
    browser.wait(lambda: "pin=" in browser.driver.current_url, "the address to name who is pinned")
    pinned = browser.driver.current_url.split("pin=")[1].split("&")[0]
    field = browser.driver.find_element("css selector", "input[type=number][aria-label^='Block size']")
    field.send_keys("\ue009a", "\ue000", "8\n")  # all of it, and with no key held down any more
    about = "return root.querySelectorAll('.about')[1].textContent"
    browser.wait(lambda: browser.run(about).startswith("blocks of 8 tokens"), "the dial to be heard")
    strip = "return root.querySelector('.strip').getAttribute('aria-label')"
    assert browser.run(strip).startswith(f"{pinned} holds one range")
    browser.wait(lambda: "block_size=8" in browser.driver.current_url, "the address to follow")
    assert f"pin={pinned}" in browser.driver.current_url
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
