"""How every check goes: cases one after the other, until one is answered wrongly.

A stub that still raises NotImplementedError is passed on as such: it is not wrong, it is not there yet.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from inspect import Parameter, signature
from typing import Any

try:
    from IPython.display import display
except ModuleNotFoundError:  # in a browser: the page shows what it is given
    from lessons.browser.cells import display

NAMED = Parameter.POSITIONAL_OR_KEYWORD


class Wrong(AssertionError):
    """The answer to one case is not the right one; the message shows both."""


def check(
    answer: Callable[..., Any],
    right: Callable[..., Any],
    cases: Iterable[tuple[Any, ...]],
    *,
    same: Callable[[Any, Any], bool] = lambda one, other: one == other,
    parts: Sequence[str] = (),
    picture: Callable[..., Any] | None = None,
) -> None:
    """Calls `answer` and `right` with each case and compares. `answer` may change what it is given.

    Raises Wrong at the first difference, after showing `picture(*case, got, expected)` if that is given;
    NotImplementedError while the stub is still one. `parts` names the elements of an answer that is a tuple:
    only those that differ are told. Whatever else `answer` raises gets a note that says in which case.
    """
    count = 0
    for case in cases:
        got, expected = _ask(answer, case), right(*case)
        if not same(got, expected):
            if picture:
                display(picture(*case, got, expected))
            told = [call(answer, case), *differences(got, expected, parts)]
            if count:
                told.append(f"({count} {'case' if count == 1 else 'cases'} before this one: right)")
            raise Wrong("\n".join(told))
        count += 1
    print(f"{answer.__name__}: right in all {count} cases")


def call(answer: Callable[..., Any], case: tuple[Any, ...]) -> str:
    """The call as one would write it, with the names of the arguments where they have names."""
    parameters = signature(answer, follow_wrapped=False).parameters.values()
    has_names = len(parameters) == len(case) and all(parameter.kind is NAMED for parameter in parameters)
    names = [f"{parameter.name}=" for parameter in parameters] if has_names else [""] * len(case)
    arguments = ", ".join(f"{name}{value!r}" for name, value in zip(names, case, strict=True))
    return f"{answer.__name__}({arguments})"


def differences(got: Any, expected: Any, parts: Sequence[str] = ()) -> list[str]:
    """A line for each named part that is not the right one; one line where there are none."""
    texts = [_texts(side, parts) for side in (expected, got)]
    keys = [key for key in texts[0] | texts[1] if texts[0].get(key) != texts[1].get(key)]
    if not keys or not all(texts):
        named = f" ({', '.join(parts)})" if parts else ""
        return [f"should be {expected!r}{named}, yours is {got!r}"]
    right, yours = ([side.get(key, "absent") for key in keys] for side in texts)
    return [
        f"{key} should be {one}, yours is {other}" for key, one, other in zip(keys, right, yours, strict=True)
    ]


def _texts(answer: Any, parts: Sequence[str]) -> dict[Any, str]:
    """The parts of an answer that has any: a dict's values, or the elements that `parts` names."""
    if parts and isinstance(answer, tuple | list) and len(answer) == len(parts):
        answer = dict(zip(parts, answer, strict=True))
    return {key: repr(value) for key, value in answer.items()} if isinstance(answer, dict) else {}


def _ask(answer: Callable[..., Any], case: tuple[Any, ...]) -> Any:
    try:
        return answer(*deepcopy(case))
    except NotImplementedError:
        raise
    except Exception as error:
        error.add_note(f"This happened in {call(answer, case)}")
        raise
