"""Visits to the visualizer's pages under Streamlit's AppTest: no browser, but all of Python's side."""

import json
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

PAGE = str(Path(__file__).parents[2] / "app" / "visualizer.py")


def visit(**query: str) -> AppTest:
    """The start page, by a link."""
    return _run(AppTest.from_file(PAGE, default_timeout=60), query)


def open_page(module: str, **query: str) -> AppTest:
    """One page, by a link. `go` leads from it to another."""
    page = AppTest.from_function(_show, default_timeout=240)
    page.session_state["module"] = module
    _run(page, query)
    assert not page.exception
    return page


def go(page: AppTest, module: str) -> AppTest:
    """The same visitor on another page, whose address is a plain one."""
    page.session_state["module"] = module
    for name in list(page.query_params):
        del page.query_params[name]
    page.run()
    assert not page.exception
    return page


def _show() -> None:
    from importlib import import_module

    import streamlit as st

    import_module(f"app.{st.session_state['module']}").page()


def _run(page: AppTest, query: dict[str, str]) -> AppTest:
    for name, value in query.items():
        page.query_params[name] = value
    return page.run()


def shown(page: AppTest) -> dict[str, Any]:
    """What the player is given. Fails when the page shows no player, or an exception."""
    assert not page.exception
    return json.loads(page.get("bidi_component")[0].proto.json)


def address(page: AppTest) -> dict[str, str]:
    """AppTest has lists for what a script has set, and text for what a test has."""
    return {name: value if isinstance(value, str) else value[-1] for name, value in page.query_params.items()}


def beside(part: Any, key: str) -> list[str]:
    """The errors in the same box as the widget called `key`, in a part of a page such as its sidebar."""
    boxes = [part]
    for box in boxes:
        children = list(box.children.values())
        if any(getattr(child, "key", None) == key for child in children):
            return [child.value for child in children if child.type == "error"]
        boxes += [child for child in children if hasattr(child, "children")]
    raise AssertionError(f"no widget {key}")
