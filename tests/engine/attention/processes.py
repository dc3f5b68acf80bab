"""Programs that need Triton's compiler or a GPU, neither of which the tests' own process has."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
HIDING = ("TRITON_INTERPRET", "CUDA_VISIBLE_DEVICES")


def outside_the_interpreter(*command: str) -> Any:
    """The JSON that a Python program prints, in a process of its own without what hides both."""
    environment = {name: value for name, value in os.environ.items() if name not in HIDING}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
