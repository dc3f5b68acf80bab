"""What a sweep is to run: dials by name, as a grid and as a list."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, cast

from sim.config import Config
from sim.dials import check_number
from sim.errors import InputError, unknown_name
from sim.scopes import applies
from sim.trace import BUILTINS, TraceChoice

Configuration = dict[str, Any]  # dials of `Config` and `TraceChoice` by name, those that were given

OF_TRACE = tuple(item.name for item in fields(TraceChoice))
DIALS = (*OF_TRACE, *(item.name for item in fields(Config)))
FILES = ("trace", "model", "timing")  # dials that may name a file
MAX_CONFIGURATIONS = 10**6


@dataclass(frozen=True, slots=True)
class Plan:
    """Different configurations, in order. `digests` says what the files that they name hold."""

    configurations: tuple[Configuration, ...]
    digests: Mapping[str, str]

    @classmethod
    def make(
        cls,
        fixed: Mapping[str, Any],
        grid: Mapping[str, Sequence[Any]] | None = None,
        listed: Sequence[Mapping[str, Any]] = (),
    ) -> "Plan":
        """Every combination of the values in `grid`, then each of `listed`, all of them over `fixed`.

        The last dial of the grid changes fastest, but those of the trace slowest, so that a worker reads it
        once. A dial for which an allocator has no use is left out there
        if another allocator of the sweep has one, and what is then the same twice stands once. Raises
        InputError for unknown dials, values that a row cannot hold, missing traces and files, and sweeps of
        nothing or of too many.
        """
        lists = {name: _values(name, values) for name, values in (grid or {}).items()}
        lists = dict(sorted(lists.items(), key=lambda item: item[0] not in OF_TRACE))
        for name in (*fixed, *lists, *(name for one in listed for name in one)):
            if name not in DIALS:
                raise unknown_name("dial", name, DIALS)
        for one in (fixed, *listed):
            for name, value in one.items():
                _check_value(name, value)
        for name, values in lists.items():
            for value in values:
                _check_value(name, value)
        _count(lists, listed)
        merged = [{**fixed, **one} for one in (*_combinations(lists, listed), *listed)]
        useful = [_without_useless(one, merged) for one in merged]
        unique = {repr(sorted(one.items())): one for one in map(_with_whole_paths, useful)}
        paths = {str(one[name]) for one in unique.values() for name in FILES if name in one}
        digests = {path: _digest(path) for path in sorted(paths) if os.path.isfile(path)}
        return cls(tuple(unique.values()), digests)

    @property
    def varying(self) -> tuple[str, ...]:
        """The dials that are not the same in all configurations, in the order of `DIALS`."""
        first, *others = self.configurations
        return tuple(name for name in DIALS if any(one.get(name) != first.get(name) for one in others))


def _values(name: str, values: Any) -> list[Any]:
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"grid {name} {values!r}: must be a list of values, such as [1, 2]")
    return list(values)  # pyright: ignore


def _check_value(name: str, value: object) -> None:
    """Raises InputError for what a row would hold as something else, or not at all."""
    parts = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
    for part in parts:
        if not isinstance(part, str | int | float | None):
            raise InputError(f"{name} {part}: must be a number, a text, true or false")
        check_number(name, part)
        if isinstance(part, str) and not _is_utf8(part):
            raise InputError(f"{name} {part!r}: must be a text in UTF-8")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _count(grid: Mapping[str, list[Any]], listed: Sequence[Mapping[str, Any]]) -> None:
    number = len(listed)
    combinations = 1
    for values in grid.values():
        combinations *= len(values)
    if number + combinations > MAX_CONFIGURATIONS:
        raise InputError(f"a sweep of {number + combinations} configurations: at most {MAX_CONFIGURATIONS}")


def _combinations(
    grid: Mapping[str, list[Any]], listed: Sequence[Mapping[str, Any]]
) -> Iterator[Configuration]:
    if not grid and listed:
        return  # a list alone, without the one configuration that has nothing but what is fixed
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _without_useless(one: Configuration, merged: list[Configuration]) -> Configuration:
    allocators = {str(other.get("allocator", "paged")) for other in merged}
    mine = str(one.get("allocator", "paged"))
    return {
        name: value
        for name, value in one.items()
        if value is not None
        and (applies(name, mine) or not any(applies(name, allocator) for allocator in allocators))
    }


def _with_whole_paths(one: Configuration) -> Configuration:
    """Names of files as they can be found from anywhere on this machine."""
    if "trace" not in one:
        raise InputError('a sweep needs a trace: name it, or write trace = "demo" under [fixed]')
    if one["trace"] == "-":
        raise InputError("trace -: the workers of a sweep cannot read standard input; name a file")
    named = {name: one[name] for name in FILES if name in one and isinstance(one[name], str)}
    whole = {
        name: str(Path(value).resolve())
        for name, value in named.items()
        if value not in BUILTINS and os.path.exists(value)  # Path's own raises for a name that is too long
    }
    return {**one, **whole}


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
