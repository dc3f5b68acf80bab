"""How long a new user waits: from `pagelab app` to the sentence of the start page, no control touched.

    python -m bench.start            # writes bench/results/start.json

The yardstick is a Streamlit page of one line, started and read the same way right before: what Python,
Streamlit and the browser need for any page. The browser has been started before both, without anything in its
cache. A second visit is one to a server that has answered before. The median of the rounds is reported, with
the slowest. Needs chromium and chromedriver.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.machine import RESULTS, describe
from tests.app.browsing import FIND, ROOT, chromium, free_port, is_up
from tests.waiting import wait_for

ROUNDS = 5
TARGET_S = 5.0
PLAIN = "import streamlit\nstreamlit.write('it wastes nothing')\n"
SAID = (  # the sentence, before the picture is there and after; or the line of the plain page
    FIND + "return (document.querySelector('.pl .say') || root?.querySelector('.verdict')"
    " || document.querySelector('[data-testid=stMarkdownContainer] p'))?.textContent"
)


def visit(driver: Any, port: int) -> str:
    """What the page says, as soon as it says it."""
    driver.get(f"http://localhost:{port}/")
    return wait_for(
        lambda: said if "wastes" in (said := str(driver.execute_script(SAID))) else "", seconds=60
    )


def start(command: list[str]) -> dict[str, Any]:
    """One round: seconds until the server answers, until it is said, and of a second visit."""
    port = free_port()
    with chromium() as driver:
        driver.get("about:blank")
        began = time.perf_counter()
        server = subprocess.Popen(
            [*command, str(port)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for(lambda: is_up(port), seconds=60)
            up_s = time.perf_counter() - began
            sentence = visit(driver, port)
            said_s = time.perf_counter() - began
            driver.get("about:blank")
            again = time.perf_counter()
            visit(driver, port)
            return {
                "sentence": sentence,
                "server_up_s": up_s,
                "said_s": said_s,
                "second_visit_s": time.perf_counter() - again,
            }
        finally:
            server.terminate()
            server.wait(60)


def main() -> None:
    """Both by turns."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "plain.py"
        page.write_text(PLAIN, encoding="utf-8")
        streamlit = [sys.executable, "-m", "streamlit", "run", str(page), "--server.headless", "true"]
        commands = {
            "a page of one line": [*streamlit, "--server.address", "localhost", "--server.port"],
            "pagelab app": [sys.executable, "-m", "app", "app", "--port"],
        }
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
        for number in range(ROUNDS):
            for name, command in commands.items():
                rounds[name].append(start(command))
                print(f"round {number + 1}, {name:20}", rounds[name][-1], flush=True)
    plain, ours = ([one["said_s"] for one in made] for made in rounds.values())
    document = {
        "command": "python -m bench.start",
        "machine": describe("streamlit", "selenium"),
        "load_at_end": os.getloadavg()[0],
        "said_s": median(ours),
        "slowest_s": max(ours),
        "target_s": TARGET_S,
        "met": max(ours) < TARGET_S,
        "times_a_page_of_one_line": median(a / b for a, b in zip(ours, plain, strict=True)),
        "rounds": rounds,
    }
    (RESULTS / "start.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
