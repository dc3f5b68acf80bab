"""`pagelab app`: serves the visualizer on this machine."""

import socket
import subprocess
import sys
from pathlib import Path

import click

from app.own_trace import MAX_UPLOAD_MB
from sim import InputError

PAGE = Path(__file__).parents[1] / "visualizer.py"


@click.command(short_help="serve the visualizer in the browser")
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
    except OSError as error:
        raise InputError(
            f"port {port} on {host}: {error.strerror}; choose another with --port or --host"
        ) from error
    command = [sys.executable, "-m", "streamlit", "run", str(PAGE)]
    settings = {
        "server.port": port,
        "server.address": host,
        "server.headless": "true",
        "browser.gatherUsageStats": "false",
        "server.maxUploadSize": MAX_UPLOAD_MB,
    }
    click.echo(f"PageLab on http://{host}:{port}")
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    raise SystemExit(subprocess.run([*command, *flags], cwd=PAGE.parents[1], check=False).returncode)
