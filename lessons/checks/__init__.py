"""What the lessons call to see whether a stub is right: offline, with a picture of the first mistake."""

from lessons.checks.core import Wrong, check

__all__ = ["Wrong", "check"]
