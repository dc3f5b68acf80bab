"""What `pagelab trace info` says about a trace."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sim.trace.trace import Trace

QUANTILES = (5, 25, 50, 75, 95, 99)


def trace_info(trace: "Trace") -> dict[str, Any]:
    """Plain numbers and strings, ready for JSON. `rate_per_s` is None when all arrive at once."""
    return {
        "name": trace.name,
        "requests": trace.num_requests,
        "span_s": trace.span_s,
        "rate_per_s": (trace.num_requests - 1) / trace.span_s if trace.span_s else None,
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "prompt": length_quantiles([request.prompt for request in trace]),
        "output": length_quantiles([request.output for request in trace]),
        "skipped": dict(trace.skipped),
        "notes": list(trace.notes),
    }


def length_quantiles(lengths: list[int]) -> dict[str, float]:
    """Mean, minimum, maximum and quantiles (linear between neighbours) of token counts."""
    if not lengths:
        return {}
    values = np.asarray(lengths, dtype=np.int64)
    quantiles = np.percentile(values, QUANTILES)
    summary = {f"p{percent}": float(value) for percent, value in zip(QUANTILES, quantiles, strict=True)}
    return {"mean": float(values.mean()), "min": float(values.min()), **summary, "max": float(values.max())}
