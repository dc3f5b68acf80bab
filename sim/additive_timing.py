"""Step times as a sum of costs, read from a file: written by hand, or by `pagelab bench calibrate`."""

import json
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.clock import MAX_STEP_S, step_ps
from sim.closed_timing import ClosedTiming
from sim.config import Config
from sim.errors import InputError

MADE_FOR = ("model", "kv_dtype")  # dials without which a measured cost means nothing


@dataclass(frozen=True)
class AdditiveTiming(ClosedTiming):
    """Seconds per step, token, context token, (query, key) pair, swapped block, copied or moved token, and
    sequence (who runs in a step has its next token chosen).

    `curve` adds seconds by the number of tokens in the step: points (tokens, seconds) with straight lines
    between them, the last of which goes on. A processor that is half idle for one token and busy for forty
    has no single cost of a token.
    """

    step: float = 0.0
    token: float = 0.0
    context_token: float = 0.0
    attention_pair: float = 0.0
    swapped_block: float = 0.0
    copied_token: float = 0.0
    sequence: float = 0.0
    curve: tuple[tuple[float, float], ...] = ()
    config: tuple[tuple[str, Any], ...] = ()  # dials under which the costs were measured

    def cost(
        self, tokens: Any, sequences: Any, context: Any, pairs: Any, swapped: Any = 0, copied: Any = 0
    ) -> Any:
        return (
            self._of_tokens(tokens, sequences)
            + self.context_token * context
            + self.attention_pair * pairs
            + self.swapped_block * swapped
            + self.copied_token * copied
        )

    def decode_ps(self, num_sequences: int, context: int, count: int) -> list[int]:
        fixed = self._of_tokens(num_sequences, num_sequences)
        return [
            step_ps(fixed + self.context_token * read + self.attention_pair * read)
            for read in range(context, context + count * num_sequences, num_sequences)
        ]

    def _of_tokens(self, tokens: Any, sequences: Any) -> Any:
        linear = self.step + self.token * tokens + self.sequence * sequences
        if not self.curve:
            return linear
        at, seconds, slope = self._points
        many = np.asarray(tokens, dtype=np.float64)
        along = np.interp(many, at, seconds) + slope * np.maximum(many - at[-1], 0.0)
        return linear + (float(along) if isinstance(tokens, int) else along)

    @cached_property
    def _points(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """The curve's tokens and seconds, and seconds per token beyond the last of them."""
        at, seconds = np.array(self.curve).T
        return at, seconds, float((seconds[-1] - seconds[-2]) / (at[-1] - at[-2]))

    def made_for(self, config: Config) -> "AdditiveTiming":
        """Itself; InputError when its costs were measured with another model or type of cache."""
        for name, value in self.config:
            if name in MADE_FOR and getattr(config, name) != value:
                dial = name.replace("_", "-")
                raise InputError(
                    f"timing {config.timing}: measured with --{dial} {value}, and this run has "
                    f"{getattr(config, name)}; use that, or calibrate again with `pagelab bench calibrate`"
                )
        return self

    @classmethod
    def read(cls, path: Path) -> "AdditiveTiming":
        """Reads `{"seconds": {"step": ..., "token": ..., ...}}`; InputError when it is anything else.

        Optional are "curve", a list of [tokens, seconds], and "config", the dials it was measured under.
        """
        try:
            document: Any = json.loads(path.read_text(encoding="utf-8"))
            timing = cls(
                **{name: float(cost) for name, cost in document["seconds"].items() if name in COSTS},
                curve=tuple((float(at), float(seconds)) for at, seconds in document.get("curve", ())),
                config=tuple(document.get("config", {}).items()),
            )
            unknown = [name for name in document["seconds"] if name not in COSTS]
        except OSError as error:
            raise InputError(
                f"timing {path}: {error.strerror}; known are unit, roofline, or a timing FILE"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(_expected(path)) from error
        if unknown:
            raise InputError(_expected(path))
        timing._check(path)
        return timing

    def _check(self, path: Path) -> None:
        for name in COSTS:
            if not 0 <= (cost := getattr(self, name)) <= MAX_STEP_S:
                raise InputError(
                    f"timing {path}: seconds.{name} is {cost}; must be from 0 to {MAX_STEP_S} (46 days)"
                )
        if not self.step > 0:
            raise InputError(f"timing {path}: seconds.step is {self.step}; a step must take more than 0 s")
        if self.curve and not _rises(self.curve):
            raise InputError(
                f"timing {path}: curve must be two or more [tokens, seconds], tokens rising, seconds never "
                f"falling and from 0 to {MAX_STEP_S}"
            )


COSTS = tuple(item.name for item in fields(AdditiveTiming) if item.name not in ("curve", "config"))


def _expected(path: Path) -> str:
    return (
        f'timing {path}: expected {{"seconds": {{...}}}} with costs in seconds among {", ".join(COSTS)}; '
        'optional "curve": [[tokens, seconds], ...] and "config": {...}'
    )


def _rises(curve: tuple[tuple[float, float], ...]) -> bool:
    at, seconds = zip(*curve, strict=True)
    is_rising = all(np.diff(at) > 0) and all(np.diff(seconds) >= 0)
    return len(curve) > 1 and is_rising and seconds[0] >= 0 and seconds[-1] <= MAX_STEP_S
