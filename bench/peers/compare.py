"""Results side by side: throughput, memory, wasted share, and whether all say the same.

A system's result has `tokens` (what each request was answered), `seconds`, `peak_resident_bytes`, `versions`,
and where it can tell `kv_reserved_bytes`, `kv_peak_bytes` and `waste_percent` (held, and of no use).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.peers.systems import ONE_BY_ONE, SYSTEMS, Result
from bench.peers.work import Work

MIB = 2**20
# Whose tokens the others' must be: of those that answered a request, the first.
REFERENCES = (ONE_BY_ONE, "transformers-continuous", "transformers-static")


def finish(results: dict[str, Result], work: Work) -> dict[str, Result]:
    """The same results with rates and ratios in place of tokens."""
    reference = reference_tokens(results)
    finished = {name: _rated(result, work, reference) for name, result in results.items()}
    base = finished.get(ONE_BY_ONE, {}).get("tokens_per_s")
    for result in finished.values():
        if base and "tokens_per_s" in result:
            result["times_one_by_one"] = result["tokens_per_s"] / base
    return finished


def reference_tokens(results: Mapping[str, Result]) -> list[list[int]]:
    """What transformers answers to each request: one by one where it was asked so, else in batches."""
    tokens: list[list[int]] = []
    for name in REFERENCES:
        tokens += results.get(name, {}).get("tokens", [])[len(tokens) :]
    return tokens


def _rated(result: Result, work: Work, reference: list[list[int]]) -> Result:
    if "tokens" not in result:
        return result
    tokens = result["tokens"]
    rated = {key: value for key, value in result.items() if key != "tokens"}
    rated["requests"] = len(tokens)
    rated["tokens_per_s"] = sum(work.outputs[: len(tokens)]) / result["seconds"]
    pairs = list(zip(tokens, reference, strict=False))
    rated["requests_compared"] = len(pairs)
    rated["requests_with_equal_tokens"] = sum(ours == theirs for ours, theirs in pairs)
    if "kv_peak_bytes" in result and "kv_reserved_bytes" in result:
        rated["kv_never_used_percent"] = 100.0 * (1 - result["kv_peak_bytes"] / result["kv_reserved_bytes"])
    return rated


def ratios(finished: Mapping[str, Result]) -> dict[str, dict[str, float]]:
    """PageLab's throughput and peak resident memory over each other system's."""
    ours = finished.get("pagelab", {})
    return {
        name: {
            "throughput": ours["tokens_per_s"] / result["tokens_per_s"],
            "peak_resident": ours["peak_resident_bytes"] / result["peak_resident_bytes"],
        }
        for name, result in finished.items()
        if name != "pagelab" and "tokens_per_s" in result and "tokens_per_s" in ours
    }


HEADS = ("system", "tokens/s", "x one by one", "peak MiB", "KV reserved", "KV used", "wasted", "same tokens")


def summary(finished: Mapping[str, Result]) -> str:
    """A line a system; a dash where it does not tell. What was skipped says why."""
    names = sorted(finished, key=list(SYSTEMS).index)
    rows = {name: _cells(finished[name]) for name in names if "skipped" not in finished[name]}
    widths = [max(len(head), *(len(cells[i]) for cells in rows.values())) for i, head in enumerate(HEADS[1:])]
    first = max(map(len, ("system", *names)))

    def line(name: str, cells: Sequence[str]) -> str:
        columns = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        return "   ".join([f"{name:<{first}}", *columns])

    return "\n".join(
        [
            line(HEADS[0], HEADS[1:]),
            *(
                line(name, rows[name])
                if name in rows
                else f"{name:<{first}}   skipped: {finished[name]['skipped']}"
                for name in names
            ),
        ]
    )


def _cells(result: Result) -> list[str]:
    def cell(key: str, shape: str, scale: float = 1.0) -> str:
        value: Any = result.get(key)
        return "-" if value is None else shape.format(value / scale)

    return [
        cell("tokens_per_s", "{:.1f}"),
        cell("times_one_by_one", "{:.2f}"),
        cell("peak_resident_bytes", "{:.0f}", MIB),
        cell("kv_reserved_bytes", "{:.0f}", MIB),
        cell("kv_peak_bytes", "{:.0f}", MIB),
        cell("waste_percent", "{:.1f} %"),
        f"{result['requests_with_equal_tokens']} of {result['requests_compared']}",
    ]
