"""Results side by side: throughput, memory, wasted share, and whether all say the same.

A system's result has `tokens` (what each request was answered), `seconds`, `peak_resident_bytes`, `versions`,
and where it can tell `kv_reserved_bytes`, `kv_peak_bytes` and `waste_percent` (held, and of no use).
"""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

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


def table(finished: Mapping[str, Result]) -> Table:
    """One row a system; a dash where it does not tell."""
    made = Table("system", title="The same requests, weights and machine")
    for head in ("tokens/s", "x one by one", "peak MiB", "KV reserved", "KV used", "wasted", "same tokens"):
        made.add_column(head, justify="right")
    for name in sorted(finished, key=list(SYSTEMS).index):
        result = finished[name]
        if "skipped" in result:
            made.add_row(name, f"skipped: {result['skipped']}")
            continue
        made.add_row(name, *_cells(result))
    return made


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
