"""The chart of a class: measured against simulated waste, a mark for each student and allocator."""

# matplotlib types its own functions only in part
# pyright: basic

from io import StringIO

from matplotlib.figure import Figure

from app.classroom import Result

MARKS = "osD^v<>P*X"


def draw_class(results: list[Result]) -> str:
    """SVG. A point on the line was measured as simulated."""
    figure = Figure(figsize=(6.5, 5.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 100], [0, 100], color="0.6", linewidth=1, label="measured = simulated")
    for place, name in enumerate(dict.fromkeys(result.allocator for result in results)):
        mine = [result for result in results if result.allocator == name]
        axes.scatter(
            [result.simulated for result in mine],
            [result.measured for result in mine],
            marker=MARKS[place % len(MARKS)],
            label=f"{name} ({len(mine)})",
            alpha=0.8,
        )
    axes.set_xlabel("simulated waste, %")
    axes.set_ylabel("measured waste, %")
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.legend(frameon=False)
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
