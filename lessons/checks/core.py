"""How every check goes: cases one after the other, until one is answered wrongly.

A stub that still raises NotImplementedError is passed on as such: it is not wrong, it is not there yet.
"""

from collections.abc import Callable, Iterable
from typing import Any

try:
    from IPython.display import display
except ModuleNotFoundError:  # in a browser: the page shows what it is given
    from lessons.browser.cells import display


class Wrong(AssertionError):
    """The answer to one case is not the right one; the message shows both."""


def check(
    answer: Callable[..., Any],
    right: Callable[..., Any],
    cases: Iterable[tuple[Any, ...]],
    *,
    same: Callable[[Any, Any], bool] = lambda one, other: one == other,
    picture: Callable[..., Any] | None = None,
) -> None:
    """Calls `answer` and `right` with each case and compares.

    Raises Wrong at the first difference, after showing `picture(*case, got, expected)` if that is given;
    NotImplementedError while the stub is still one.
    """
    count = 0
    for case in cases:
        got, expected = answer(*case), right(*case)
        if not same(got, expected):
            if picture:
                display(picture(*case, got, expected))
            arguments = ", ".join(map(repr, case))
            raise Wrong(f"{answer.__name__}({arguments}) is {expected!r}, not {got!r}")
        count += 1
    print(f"{answer.__name__}: right in all {count} cases")
