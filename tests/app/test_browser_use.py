"""What people do with the player: follow a request, predict, loop, present, save; and the notebook's host."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.payload import quiz_payload, replay_payload
from app.player import standalone_html
from app.player.widget import ReplayWidget
from app.quiz import sheet
from sim import Config, Trace, simulate
from tests.app.browsing import Browser

pytestmark = pytest.mark.browser

# What the player hands out as files, instead of saving them: [name, content], pictures in base64.
CATCH = """
window.saved = [];
const blobs = new Map();
URL.createObjectURL = (blob) => { const key = `blob:${blobs.size}`; blobs.set(key, blob); return key; };
URL.revokeObjectURL = () => {};
HTMLAnchorElement.prototype.click = function () {
  const reader = new FileReader();
  reader.onload = () => window.saved.push([this.download, reader.result.split(",")[1]]);
  reader.readAsDataURL(blobs.get(this.href));
};
"""


def strip_label(browser: Browser, side: int = 1) -> str:
    return browser.run(f"return root.querySelectorAll('.strip')[{side}].getAttribute('aria-label')")


def test_a_link_restores_the_moment_and_the_pinned_request(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200&pin=r18")
    assert browser.moment == 200
    assert strip_label(browser).startswith("Block table of r18, ")
    browser.press("ArrowRight")
    browser.wait(lambda: browser.driver.current_url.endswith("#step=201&pin=r18"), "the address to follow")
    browser.press("Escape")
    browser.wait(lambda: browser.driver.current_url.endswith("#step=201"), "the pin to leave the address")


def test_a_link_that_names_nothing_that_is_there_opens_as_usual(browser: Browser, page: str) -> None:
    browser.open(page)
    usual = browser.moment
    browser.open(f"{page}#step=x&pin=nobody")
    assert browser.moment == usual
    assert browser.errors() == []


def test_pointing_at_a_block_leads_to_its_token_table_row_and_events(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    before = browser.pictures
    browser.point_at(".memory", 3, 3, number=1)
    readout = browser.run("return root.querySelectorAll('.readout')[1].textContent")
    assert readout.startswith("Block 0, slot 0 of 16: token 65 of r20, its logical block 4; live")
    assert strip_label(browser).startswith("Block table of r20, ")
    assert "r20" in browser.run(
        "return [...root.querySelectorAll('tr.is-focus th')].map((e) => e.textContent)"
    )
    here = browser.run("return [...root.querySelectorAll('.run.is-here')].map((e) => e.textContent)")
    assert here == ["4 → 0"]
    assert browser.pictures != before
    browser.run("root.querySelectorAll('.memory')[1].dispatchEvent(new PointerEvent('pointerleave'))")
    assert browser.pictures == before, "what was lit by pointing is gone with the pointer"


def test_pointing_at_a_table_or_an_event_leads_to_its_blocks(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    before = browser.pictures
    browser.point_at(".side:last-child .run", 2, 2)
    assert browser.pictures != before
    browser.run(
        "root.querySelector('.side:last-child .run')"
        ".dispatchEvent(new PointerEvent('pointerout', {bubbles: true, relatedTarget: root}))"
    )
    assert browser.pictures == before
    line = "return root.querySelector('.said li[data-cells]')?.dataset.request"
    while not browser.run(line):
        browser.press("ArrowRight", shift=True)
    request = browser.run(line)
    browser.point_at(".said li[data-cells]", 3, 3)
    chips = "return [...root.querySelectorAll('.chip.is-focus')].map((e) => e.dataset.request)"
    assert set(browser.run(chips)) == {request}


def test_the_keyboard_walks_the_memory_and_says_what_the_pointer_would(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    plain = browser.pictures
    readout = "return root.querySelectorAll('.readout')[1].textContent"
    browser.run("root.querySelectorAll('.memory')[1].focus()")
    assert browser.run(readout).startswith(
        "Block 0, slot 0 of 16: token 65 of r20, its logical block 4; live"
    )
    assert strip_label(browser).startswith("Block table of r20, ")
    lit = browser.pictures
    browser.press("ArrowRight", "ArrowRight")
    assert browser.run(readout).startswith("Block 0, slot 2 of 16: ")
    assert browser.pictures != lit, "the cursor is seen to move"
    browser.press("ArrowRight", shift=True)
    assert browser.run(readout).startswith("Block 1, slot 2 of 16: ")
    browser.press("ArrowDown", "ArrowUp", "ArrowLeft")
    assert browser.run(readout).startswith("Block 1, slot 1 of 16: ")
    assert browser.moment == 200, "the cursor moves, not the time"
    browser.press("ArrowLeft", shift=True)
    browser.press("Enter", "Escape")
    assert browser.run("return root.getRootNode().activeElement === root")
    assert strip_label(browser).startswith("Block table of r20, "), "Enter has pinned it"
    assert "Point at a block" in browser.run(readout)
    browser.press("Escape", "ArrowRight", "ArrowLeft")
    assert browser.pictures == plain, "nothing is left of the cursor, and the keys move the time again"


def test_a_click_into_the_memory_leaves_the_arrow_keys_to_the_time(browser: Browser, page: str) -> None:
    action_chains = pytest.importorskip("selenium.webdriver").ActionChains
    browser.open(f"{page}#step=200")
    memory = browser.run("return root.querySelector('.memory')")
    action_chains(browser.driver).click(memory).send_keys("\ue014").perform()  # the right arrow
    assert browser.moment == 201


def test_the_keyboard_points_at_runs_of_a_table_and_at_events(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    plain = browser.pictures
    browser.run("root.querySelector('.side:last-child .run').focus()")
    assert browser.pictures != plain
    browser.run("root.focus()")
    assert browser.pictures == plain
    while not browser.run("return root.querySelector('.said li[data-cells]')"):
        browser.press("ArrowRight", shift=True)
    request = browser.run("return root.querySelector('.said li[data-cells]').dataset.request")
    unlit = browser.pictures
    browser.run("root.querySelector('.said li[data-cells] .chip').focus()")
    chips = "return [...root.querySelectorAll('.chip.is-focus')].map((e) => e.dataset.request)"
    assert set(browser.run(chips)) == {request}
    assert browser.pictures != unlit
    before = browser.moment
    browser.press("ArrowRight", "ArrowRight")
    assert browser.moment == before + 2, "the line went with its moment; the keyboard stays in the player"


def test_a_shared_block_leads_to_everyone_who_shares_it(browser: Browser, tmp_path: Path) -> None:
    dials = {"pool_tokens": 4096, "max_len": 512, "prefix_cache": "hash"}
    run = simulate(Trace.read("shared-prefix"), Config(**dials))
    path = tmp_path / "shared.html"
    path.write_text(standalone_html(replay_payload([run])), encoding="utf-8")
    browser.open(f"{path.as_uri()}#step=100")
    browser.point_at(".memory", 3, 3)
    text = browser.text(".readout")
    num_tables = int(text.split("shared by ")[1].split()[0])
    chips = "return [...root.querySelectorAll('.queues .chip.is-focus')].map((e) => e.textContent)"
    assert len(set(browser.run(chips))) == num_tables > 1


def test_a_click_pins_and_escape_lets_go(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    plain = browser.pictures
    browser.point_at(".memory", 3, 3, number=1, click=True)
    browser.run("root.querySelectorAll('.memory')[1].dispatchEvent(new PointerEvent('pointerleave'))")
    pinned = browser.pictures
    assert pinned != plain
    assert strip_label(browser).startswith("Block table of r20, ")
    browser.press("Escape")
    assert browser.pictures == plain
    browser.press("2")
    assert strip_label(browser, side=0).startswith("r4 holds one range"), "the second that runs on side A"


def test_a_request_is_found_by_its_name(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    browser.press("/")
    assert browser.run("return root.getRootNode().activeElement.type") == "search"
    find = (
        "const field = root.querySelector('input[type=search]'); field.value = '{}';"
        "field.dispatchEvent(new Event('change'))"
    )
    browser.run(find.format("r36"))
    assert strip_label(browser).startswith("Block table of r36, ")
    browser.run(find.format("r999"))
    assert browser.text(".headline") == "There is no request r999."


def test_a_loop_goes_round_until_it_is_ended(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=100")
    browser.press("l", "ArrowRight", "ArrowRight", "ArrowRight", "l")
    seen: set[int] = set()
    browser.wait(lambda: seen.add(browser.moment) or len(seen) >= 3, "the loop to go round")
    assert seen <= {100, 101, 102, 103}
    assert not browser.run("return root.querySelector('.loop').hidden")
    browser.press("l")
    browser.wait(lambda: browser.moment > 103, "the replay to go on")
    browser.press(" ")


def test_presenting_fills_the_screen_and_the_theme_can_be_turned(browser: Browser, page: str) -> None:
    browser.open(f"{page}#step=200")
    size = "return parseFloat(getComputedStyle(root).fontSize)"
    usual, theme = browser.run(size), browser.run("return root.dataset.theme")
    browser.press("f", "d")
    assert browser.run(size) > usual
    assert browser.run("return root.dataset.theme") != theme
    assert browser.run("const box = root.getBoundingClientRect(); return [box.left, box.top, box.width]") == [
        0, 0, browser.run("return window.innerWidth"),
    ]  # fmt: skip
    browser.press("PageDown")
    assert browser.moment > 200
    browser.press("Escape", "d")
    assert browser.run(size) == usual
    assert browser.run("return root.dataset.theme") == theme


def test_the_keys_are_listed(browser: Browser, page: str) -> None:
    browser.open(page)
    browser.press("?")
    assert browser.run("return root.querySelector('dialog').open")
    keys = browser.run("return [...root.querySelectorAll('dialog dt')].map((e) => e.textContent)")
    assert not {"R", "C"} & set(keys), "those are Streamlit's"
    browser.press("Escape")
    assert not browser.run("return root.querySelector('dialog').open")


@pytest.fixture(scope="module")
def quiz_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("quiz") / "quiz.html"
    path.write_text(standalone_html(quiz_payload(7)), encoding="utf-8")
    return path.as_uri()


def answer(browser: Browser, text: str) -> None:
    """Chooses or types an answer and sends it."""
    browser.run(
        f"const text = {json.dumps(text)}; const field = root.querySelector('.quiz input');"
        "const choice = [...root.querySelectorAll('.quiz form button')].find((e) => e.textContent === text);"
        "if (field) field.value = text;"
        "(field ? root.querySelector('.quiz form button[type=submit]') : choice).click()"
    )


def test_the_player_asks_what_the_sheet_asks_and_scores(browser: Browser, quiz_page: str) -> None:
    browser.emulate(prefers_reduced_motion="reduce")
    browser.open(f"{quiz_page}#step=0")
    browser.press("p")
    for number, question in enumerate(sheet(7)):
        assert browser.text(".quiz .ask") == question.ask
        assert question.situation in browser.text(".quiz")
        asked_at = browser.moment
        browser.press("ArrowRight", "End")
        assert browser.moment == asked_at, "the replay went past an open question"
        answer(browser, question.answer if number else "wrong")
        assert browser.text(".quiz .ask") == (
            f"Right: {question.answer}." if number else f"It is {question.answer}, not wrong."
        )
        assert browser.moment in (asked_at, asked_at + 1)
        browser.run("root.querySelector('.quiz .row button').click()")
    assert browser.text(".quiz .ask") == "5 of 6 questions right."
    browser.emulate()
    assert browser.errors() == []


def test_a_question_does_not_tell_its_answer(browser: Browser, quiz_page: str) -> None:
    browser.emulate(prefers_reduced_motion="reduce")
    browser.open(f"{quiz_page}#predict")
    waste = "return getComputedStyle(root.querySelector('.ledger b')).visibility"
    assert browser.run(waste) == "hidden"
    answer(browser, "22.5")
    assert browser.run(waste) == "visible"
    browser.press("Escape", "Escape")
    browser.emulate()
    assert browser.run("return root.querySelector('.quiz').hidden")


def test_the_replay_plays_up_to_a_question(browser: Browser, quiz_page: str) -> None:
    browser.open(f"{quiz_page}#step=0")
    browser.press("p")
    browser.wait(lambda: browser.run("return root.querySelector('.quiz .ask')"), "the first question")
    assert browser.moment == 2


@pytest.fixture
def saved(browser: Browser, page: str) -> Callable[[str], tuple[str, bytes]]:
    """Chooses an entry of the menu; the file that it hands out, by name and content."""
    browser.open(f"{page}#step=200")
    browser.driver.execute_script(CATCH)

    def choose(entry: str) -> tuple[str, bytes]:
        browser.driver.execute_script("window.saved = []")
        browser.run(
            "[...root.querySelectorAll('.items button')]"
            f".find((e) => e.textContent.includes({json.dumps(entry)})).click()"
        )
        (name, content), *_ = browser.wait(lambda: browser.driver.execute_script("return saved"), entry)
        return name, base64.b64decode(content)

    return choose


def test_everything_can_be_saved(browser: Browser, saved: Callable[[str], tuple[str, bytes]]) -> None:
    name, numbers = saved("CSV")
    assert name == "pagelab-demo.csv"
    assert numbers.startswith(b"side,source,step,time,pool,live,")
    name, lines = saved("JSON Lines")
    events = [json.loads(line) for line in lines.splitlines()]
    assert name == "pagelab-demo.jsonl"
    assert {"preempt", "step", "admit"} <= {event["kind"] for event in events}
    name, trace = saved("Perfetto")
    assert {"X", "C", "M", "i"} == {event["ph"] for event in json.loads(trace)["traceEvents"]}
    name, picture = saved("PNG")
    assert (name, picture[:4]) == ("pagelab-demo.png", b"\x89PNG")
    assert len(picture) > 20_000
    assert browser.errors() == []


def test_a_page_that_the_player_saves_is_the_one_that_python_writes(
    browser: Browser, page: str, saved: Callable[[str], tuple[str, bytes]], tmp_path: Path
) -> None:
    _, made = saved("HTML")
    written = Path(page.removeprefix("file://")).read_text(encoding="utf-8")
    one, other = (text.split("\nconst replay = ") for text in (made.decode(), written))
    assert one[0] == other[0]
    data, rest = one[1].split(";\n", 1)
    assert rest == other[1].split(";\n", 1)[1]
    before = browser.pictures
    again = tmp_path / "again.html"
    again.write_bytes(made)
    browser.open(f"{again.as_uri()}#step=200")
    assert browser.pictures == before
    assert json.loads(data)["trace"]["name"] == "demo"


def test_the_notebook_host_follows_its_model_and_leads_it(browser: Browser, tmp_path: Path) -> None:
    """A page that does what anywidget's front end does: imports the module, renders with a model."""
    run = simulate(Trace.read("demo").first(12), Config(pool_tokens=2048, max_len=512))
    module = json.dumps(str(ReplayWidget._esm))
    host: dict[str, Any] = {"replay": replay_payload([run]), "moment": 5, "pin": None}
    page = tmp_path / "widget.html"
    page.write_text(
        f"<!doctype html><meta charset='utf-8'><style>{ReplayWidget._css}</style><div id='cell'></div>"
        "<script type='module'>"
        f"const state = {json.dumps(host)}; const heard = {{}};"
        "window.model = { get: (name) => state[name], set: (name, value) => { state[name] = value; },"
        " save_changes: () => { window.saves = (window.saves ?? 0) + 1; },"
        " on: (name, call) => { heard[name] = call; }, off: (name) => { delete heard[name]; },"
        " tell: (name, value) => { state[name] = value; heard[`change:${name}`](); }, heard };"
        f"const source = {module.replace('<', chr(92) + 'u003c')};"
        "const widget = await import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));"
        "window.leave = widget.default.render({ model, el: document.getElementById('cell') });"
        "</script>",
        encoding="utf-8",
    )
    browser.open(page.as_uri())
    assert browser.moment == 5
    browser.press("ArrowRight")
    browser.wait(
        lambda: browser.driver.execute_script("return model.get('moment') === 6 && saves"), "the model"
    )
    browser.driver.execute_script("model.tell('moment', 9)")
    assert browser.moment == 9
    browser.screenshot("notebook_1280")
    assert browser.driver.execute_script("leave(); return document.querySelector('.pagelab')") is None
    assert browser.driver.execute_script("return Object.keys(model.heard)") == []
    assert browser.errors() == []
