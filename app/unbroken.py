"""Sentences as they are shown: no line ends between a number and its unit."""

import re

UNIT = re.compile(r"(?<=\d) (?=%|s\b)")


def unbroken(text: str) -> str:
    """`81.3 %` and `4.9 s` with a no-break space."""
    return UNIT.sub("\u00a0", text)
