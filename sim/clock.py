"""Time inside the simulator is a whole number of picoseconds, so that sums do not depend on their order."""

from sim.errors import InputError

PS_PER_S = 10**12
MAX_STEP_S = 4_000_000  # means weigh steps by their picoseconds, which must stay below 2^62 (`sim.series`)


def to_ps(seconds: float) -> int:
    """Seconds, rounded to whole picoseconds."""
    return round(seconds * PS_PER_S)


def step_ps(seconds: float) -> int:
    """How long a step of so many seconds lasts: at least 1 ps. InputError when it is beyond counting."""
    if not seconds <= MAX_STEP_S:
        raise InputError(
            f"a step of {seconds:.3g} s: at most {MAX_STEP_S} s (46 days) can be counted; "
            "lower the costs in the timing FILE, or let a step run less (--max-batch-tokens, --max-len)"
        )
    return max(1, to_ps(seconds))


def to_s(picoseconds: int) -> float:
    """Picoseconds as seconds, for people and reports."""
    return picoseconds / PS_PER_S
