"""How fast the player plays, in a headless browser without a GPU.

    python -m bench.player            # writes bench/results/player.json

For each replay: frames a second while it played 64 moments a second, the milliseconds of processor time that
the page's main thread spent on each, and seconds from opening the page to the first paint and to the player
being there. Frames and seconds depend on what else the machine does; processor time hardly does.
The best of three rounds is reported. Needs chromium and chromedriver.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from app.payload import replay_payload
from app.player import standalone_html
from bench.machine import describe
from sim import Config, Request, Trace, simulate
from tests.app.browsing import Browser, chromium

RESULTS = Path(__file__).parent / "results" / "player.json"
ROUNDS = 3
NUM_FRAMES = 120
COUNT_FRAMES = """
const [count, done] = arguments;
const times = [];
const next = (now) => {
  times.push(now);
  if (times.length <= count) requestAnimationFrame(next);
  else done((1000 * count) / (times.at(-1) - times[0]));
};
requestAnimationFrame(next);
"""


def rows(*, count: int, prompt: int, output: int, gap_s: float = 0.0) -> Trace:
    """Requests of about that length."""
    made: list[Request] = []
    for index in range(count):
        emitted = output + 13 * (index % 5)
        tokens = {"prompt": prompt + 37 * (index % 9), "output": emitted, "max_tokens": emitted}
        made.append(Request(id=f"r{index}", arrival_s=index * gap_s, **tokens))
    return Trace("made", tuple(made))


CASES: dict[str, tuple[Trace, dict[str, Any]]] = {
    "demo, 128 blocks": (Trace.read("demo"), {"pool_tokens": 2048, "max_len": 512}),
    "1,000 requests, 1,024 blocks": (
        rows(count=1000, prompt=30, output=10, gap_s=0.05), {"pool_tokens": 16_384, "max_len": 2048},
    ),
    "200,000 events, 16,000 blocks": (
        rows(count=280, prompt=400, output=330),
        {"pool_tokens": 256_000, "max_len": 2048, "max_batch_tokens": 65_536},
    ),
}  # fmt: skip


def measure(browser: Browser, page: str) -> dict[str, float]:
    """One round: the page opened, and played."""
    browser.open(page)
    browser.wait(
        lambda: browser.run("return performance.getEntriesByType('paint').length"), "the first paint"
    )
    first_paint_ms, there_ms = browser.run(
        "return [performance.getEntriesByType('paint')[0].startTime,"
        " performance.getEntriesByType('navigation')[0].domComplete]"
    )
    browser.run(
        "const field = root.querySelector('select'); field.value = 64;"
        "field.dispatchEvent(new Event('change'))"
    )
    browser.press("Home", " ")
    before = browser.cpu_s()
    rate = browser.driver.execute_async_script(COUNT_FRAMES, NUM_FRAMES)
    spent_s = browser.cpu_s() - before
    browser.press(" ")
    return {
        "frames_per_s": rate,
        "main_thread_ms_per_frame": 1000 * spent_s / NUM_FRAMES,
        "first_paint_s": first_paint_ms / 1000,
        "loaded_s": there_ms / 1000,
    }


def main() -> None:
    """All cases, the best of each figure."""
    results: dict[str, Any] = {}
    with chromium() as driver:
        browser = Browser(driver)
        with tempfile.TemporaryDirectory() as folder:
            for name, (trace, dials) in CASES.items():
                runs = [
                    simulate(trace, Config(allocator=allocator, **dials)) for allocator in ("max", "paged")
                ]
                path = Path(folder) / "replay.html"
                path.write_text(standalone_html(replay_payload(runs)), encoding="utf-8")
                rounds = [measure(browser, path.as_uri()) for _ in range(ROUNDS)]
                best = {key: min(one[key] for one in rounds) for key in rounds[0]}
                best["frames_per_s"] = max(one["frames_per_s"] for one in rounds)
                results[name] = {"events": sum(len(run.events) for run in runs), **best}
                print(f"{name:32}", {key: round(value, 2) for key, value in results[name].items()})
        about = {**describe("selenium"), "browser": driver.capabilities["browserVersion"]}
    document = {**about, "load": os.getloadavg()[0], "replays": results}
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
