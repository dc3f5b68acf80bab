"""A browser and a running visualizer, each started once for a file of tests that asks for it."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from sim import Trace
from tests.app.browsing import (
    CHROMEDRIVER,
    CHROMIUM,
    FLAGS,
    HAS_BROWSER,
    ROOT,
    WHAT_IT_NEEDS,
    Browser,
    page_of,
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not HAS_BROWSER:
        pytest.skip(WHAT_IT_NEEDS)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    driver.set_page_load_timeout(60)
    yield Browser(driver)
    driver.quit()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running visualizer."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/visualizer.py", "--server.headless", "true"]
    log = (tmp_path_factory.mktemp("streamlit") / "log").open("w+")
    process = subprocess.Popen(
        [*command, "--server.port", str(port), "--server.address", "localhost"],
        cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                break
        time.sleep(0.1)
    yield f"http://localhost:{port}/"
    process.terminate()
    process.wait(60)  # a busy machine takes its time
    log.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The demo trace, which preempts nobody, in a pool that makes its paged side preempt."""
    folder = tmp_path_factory.mktemp("page")
    return page_of(Trace.read("demo"), folder, pool_tokens=2048, max_len=512)
