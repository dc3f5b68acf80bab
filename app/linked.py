"""What the address says of a page's fields, where Streamlit's own binding of a widget is not enough.

Streamlit drops what it does not understand without a word: `check` tells it. And a widget whose key and
choices follow from another's value cannot be bound: `settle` does for it what binding does.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import streamlit as st

from app.fields import parse_choice, parse_number, wrong

Parse = Callable[[str], tuple[Any, str | None]]  # the value, or what is wrong


def one_of(known: Iterable[str]) -> Parse:
    """A name among those that are known."""
    return partial(parse_choice, known=list(known))


def some_of(known: Iterable[str]) -> Parse:
    """Names between commas, each among those that are known; or none."""
    known = list(known)

    def parse(text: str) -> tuple[list[str], str | None]:
        names = text.split(",") if text else []
        problems = [problem for name in names if (problem := parse_choice(name, known)[1])]
        return names, problems[0] if problems else None

    return parse


def whole(lowest: int, highest: int) -> Parse:
    """A whole number, both limits included."""
    return partial(parse_number, kind=int, min_value=lowest, max_value=highest)


def check(**fields: Parse) -> None:
    """Tells what the address says in vain. Before the fields are drawn: they take it out of the address.

    Each is asked once a session. Later a field may hold what its choices of that moment no longer have.
    """
    asked = _asked()
    for name, parse in fields.items():
        for text in st.query_params.get_all(name) if name not in asked else ():
            _tell(name, text, parse)
        asked.add(name)


def settle(name: str, key: str, usual: Any, parse: Parse) -> None:
    """Gives the widget `key`, which is drawn next, its first value, and keeps `name` in the address true.

    The address is asked once a session: what it says was meant for the choices of that moment.
    """
    asked = _asked()
    if key not in st.session_state:
        text = None if name in asked else st.query_params.get(name)
        is_wrong = text is not None and _tell(name, text, parse)
        st.session_state[key] = usual if text is None or is_wrong else parse(text)[0]
    asked.add(name)
    value = st.session_state[key]
    if value == usual:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = _text(value)


def _asked() -> set[str]:
    """The names whose values have been taken out of the address."""
    return st.session_state.setdefault("asked", set())


def _text(value: float | str | list[str] | None) -> str:
    """As `Parse` reads it."""
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, list) else str(value)


def _tell(name: str, text: str, parse: Parse) -> bool:
    """Whether it is wrong, and if so says it."""
    _, problem = parse(text)
    if problem:
        st.warning(wrong(name, text, problem))
    return bool(problem)
