"""Every lesson's link opens the app at a state that exists."""

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from app import address
from app.address import POLICIES
from lessons.source import lesson_paths
from sim import Config, Trace, simulate
from sim.scopes import applies

LINKS = [
    (path, link)
    for path in lesson_paths()
    for link in re.findall(r"<(http://localhost:8501/\?[^>]*)>", path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(
    ("source", "link"), LINKS, ids=lambda value: value.stem if isinstance(value, Path) else ""
)
def test_the_link_names_known_controls_and_a_step_that_both_sides_have(source: Path, link: str):
    asked = dict(parse_qsl(urlsplit(link).query, strict_parsing=True))
    step = int(asked.pop("step", 1))
    values = address.defaults(asked.get("trace", "demo"))
    assert values.pop("mode") == POLICIES
    assert set(asked) <= {*values, "trace"}
    for name, text in asked.items():
        value, problem = address.parse_control(name, text)
        assert problem is None, problem
        values[name] = value
    trace = Trace.read(values.pop("trace", "demo")).first(values.pop("first"))
    for allocator in (values.pop("a"), values.pop("b")):
        given = {name: v for name, v in values.items() if v is not None and applies(name, allocator)}
        assert step <= simulate(trace, Config(allocator=allocator, **given), record=False).num_steps
