"""`pagelab app`: serves the visualizer on this machine."""

import socket
from importlib import import_module
from pathlib import Path
from threading import Thread
from time import sleep

import click

from sim import InputError
from sim.files import reason

PAGE = Path(__file__).parents[1] / "visualizer.py"
START_PAGE = "app.playground"


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="TCP port")
@click.option(
    "--host",
    default="localhost",
    show_default=True,
    help="address to listen on; localhost is this machine only",
)
def app(port: int, host: str) -> None:
    """Serve the visualizer without asking anything. Ctrl-C stops it."""
    try:
        with socket.create_server((host, port)):
            pass
    except (OSError, UnicodeError) as error:  # UnicodeError: what no name of a machine can be
        raise InputError(
            f"port {port} on {host}: {reason(error)}; choose another with --port or --host"
        ) from error
    click.echo(f"PageLab on http://{host}:{port}")

    from streamlit.web import cli as streamlit  # takes a while: a port that is taken is told at once

    from app.own_trace import MAX_UPLOAD_MB

    settings = {
        "server.port": port,
        "server.address": host,
        "server.headless": "true",
        "server.fileWatcherType": "none",  # nobody edits these pages while they are served
        "server.maxUploadSize": MAX_UPLOAD_MB,
        "browser.gatherUsageStats": "false",
    }
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    Thread(target=get_ready, daemon=True).start()
    streamlit.main(["run", str(PAGE), *flags], prog_name="streamlit")


def get_ready() -> None:
    """Imports the start page while the browser is still on its way."""
    from streamlit import runtime

    while not runtime.exists():
        sleep(0.01)
    import_module(START_PAGE)
