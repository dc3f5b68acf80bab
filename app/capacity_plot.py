"""The picture of a capacity search: latency against rate, and what each memory can take."""

# matplotlib types its own functions only in part
# pyright: basic

from typing import Any

from matplotlib.figure import Figure

from app.colours import COLOURS

INKS = [COLOURS[name] for name in ("live", "internal", "cached", "external", "rounding", "reserved")]
STYLES = ("-", "--", ":", "-.")  # by the size of the pool


def draw(document: dict[str, Any]) -> Figure:
    """Left: each rate tried, with the target as a line. Right: capacity by the size of the pool."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    name, _, seconds = document["targets"][0].partition("=")
    allocators = list(dict.fromkeys(entry["allocator"] for entry in document["capacities"]))
    inks = {allocator: INKS[place % len(INKS)] for place, allocator in enumerate(allocators)}
    pools = sorted({entry["pool_bytes"] for entry in document["capacities"]})
    for entry in document["capacities"]:
        style = STYLES[pools.index(entry["pool_bytes"]) % len(STYLES)]
        points = [point for point in entry["points"] if point[name] is not None]
        label = f"{entry['allocator']}, {entry['pool_bytes'] / 1e9:.3g} GB"
        rates, latencies = [point["rate"] for point in points], [point[name] for point in points]
        left.plot(rates, latencies, style, marker=".", color=inks[entry["allocator"]], label=label)
        if entry["rate"] is not None:
            left.plot(entry["rate"], entry[name], marker="o", color=inks[entry["allocator"]])
    left.axhline(float(seconds), color="black", linestyle="--", linewidth=0.8, label=f"target {seconds} s")
    left.set(yscale="log", xlabel="requests/s", ylabel=f"{name} in s (modelled)")
    left.legend(frameon=False, fontsize=8)
    for allocator in allocators:
        mine = [entry for entry in document["capacities"] if entry["allocator"] == allocator]
        both = sorted((entry["pool_bytes"] / 1e9, entry["rate"] or 0.0) for entry in mine)
        right.plot(*zip(*both, strict=True), marker="o", color=inks[allocator], label=allocator)
    right.set(
        xlabel="pool in GB", ylabel="highest requests/s that meet the target", xlim=(0, None), ylim=(0, None)
    )
    right.legend(frameon=False, fontsize=8)
    return figure
