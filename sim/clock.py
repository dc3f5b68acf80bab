"""Time inside the simulator is a whole number of picoseconds, so that sums do not depend on their order."""

PS_PER_S = 10**12


def to_ps(seconds: float) -> int:
    """Seconds, rounded to whole picoseconds."""
    return round(seconds * PS_PER_S)


def to_s(picoseconds: int) -> float:
    """Picoseconds as seconds, for people and reports."""
    return picoseconds / PS_PER_S
