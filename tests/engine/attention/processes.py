"""Programs that need Triton's compiler, which a process that interprets its kernels does not have."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def outside_the_interpreter(*command: str) -> Any:
    """The JSON that a Python program prints, in a process of its own without TRITON_INTERPRET."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
