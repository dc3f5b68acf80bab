"""Answers that a check must not let pass."""

from collections.abc import Callable
from typing import Any

import pytest

from lessons.checks import Wrong, core
from lessons.pictures import Picture


def assert_caught(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[Any], None], wrong: Callable[..., Any]
) -> Picture:
    """`check` refuses `wrong` and shows one picture, which is returned and can be drawn."""
    shown: list[Picture] = []
    monkeypatch.setattr(core, "display", shown.append)
    with pytest.raises(Wrong):
        check(wrong)
    assert len(shown) == 1
    assert shown[0]._repr_png_()
    return shown[0]
