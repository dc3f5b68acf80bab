"""A browser and a running visualizer, each started once for a file of tests that asks for it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from sim import Trace
from tests.app.browsing import HAS_BROWSER, ROOT, WHAT_IT_NEEDS, Browser, chromium, free_port, is_up, page_of
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not HAS_BROWSER:
        pytest.skip(WHAT_IT_NEEDS)
    with chromium(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}") as driver:
        driver.set_page_load_timeout(60)
        yield Browser(driver)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running visualizer."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app/visualizer.py", "--server.headless", "true"]
    log = (tmp_path_factory.mktemp("streamlit") / "log").open("w+")
    process = subprocess.Popen(
        [*command, "--server.port", str(port), "--server.address", "localhost"],
        cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    wait_for(lambda: is_up(port), "the server", seconds=90)
    yield f"http://localhost:{port}/"
    process.terminate()
    process.wait(60)  # a busy machine takes its time
    log.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo trace, which preempts nobody, in a pool that makes its paged side preempt."""
    folder = tmp_path_factory.mktemp("page")
    return page_of(Trace.read("demo"), folder, pool_tokens=2048, max_len=512)
