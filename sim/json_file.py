"""One JSON object in a file: settings of a model, a timing, somebody's report."""

import json
from pathlib import Path
from typing import Any, cast

from sim.errors import InputError

MOST_BYTES = 64 * 2**20  # the index of a model with 700 billion parameters takes 9 MB


def read_object(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The object in the file. Raises InputError for one that cannot be read, is too large, or holds none."""
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise InputError(f"{path}: {size / 2**20:.0f} MiB; at most {most_bytes / 2**20:.0f} are read")
        value: object = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except RecursionError:
        raise InputError(f"{path}: is no JSON of ours: nested too deeply") from None
    except InputError:
        raise
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise InputError(f"{path}: is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: must hold one JSON object, such as {{...}}")
    return cast("dict[str, Any]", value)
