"""The playground's presets: a trace, two sides and a pool that together make one point."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """`point` says what to look for; what comes of it is computed, and is the player's first sentence."""

    trace: str
    point: str
    a: str = "max"
    b: str = "paged"
    dials: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def settings(self) -> dict[str, Any]:
        """What it sets, by control."""
        return {"trace": self.trace, "a": self.a, "b": self.b, **self.dials}


SMALL = {"pool_tokens": 4096, "max_len": 512}
PRESETS = {
    "Short chats": Preset(
        "demo",
        "Room for the longest possible answer is kept for everyone, and most answers are short. "
        "Look at how much of A's memory stays hatched.",
        dials=SMALL,
    ),
    "Four requests": Preset(
        "four-requests",
        "Requests that come to store 256, 512, 128 and 1,024 tokens, then one of 2,048. "
        "Look at what each of them holds before it needs it.",
    ),
    "Fragmentation": Preset(
        "fragmentation",
        "Every reservation is exact, and still four requests wait: eight holes of 256 are free where each "
        "needs 512 in one piece. Blocks fit any hole.",
        a="oracle",
        dials=SMALL,
    ),
    "Shared system prompt": Preset(
        "shared-prefix",
        "All requests begin with the same 256 tokens. With a prefix cache B keeps them once: look at the "
        "reference counts, and at how much of the pool stays free.",
        a="paged",
        b="paged-cache",
        dials=SMALL,
    ),
    "Long tail": Preset(
        "long-tail",
        "Most requests are short, a few are near 2,048 tokens. Rounding up to a power of two helps less than "
        "it seems, and leaves holes besides.",
        a="pow2",
    ),
    "Thrashing": Preset(
        "thrashing",
        "All prompts fit, then all of them grow. Memory runs out, and the youngest is thrown out again and "
        "again. A computes it anew; B moves it to host memory and back, while there is room.",
        a="paged",
        b="paged-swap",
        dials={"pool_tokens": 4096, "max_len": 1024},
    ),
}


def preset_of(settings: Mapping[Any, Any]) -> str | None:
    """The preset whose settings these are, if any; `settings` may hold more than a preset sets."""
    for name, preset in PRESETS.items():
        if all(settings.get(key) == value for key, value in preset.settings.items()):
            return name
    return None


def suggested(trace: str) -> Mapping[str, Any]:
    """The pool and length that a built-in trace was made for."""
    for preset in PRESETS.values():
        if preset.trace == trace:
            return preset.dials
    return {}
