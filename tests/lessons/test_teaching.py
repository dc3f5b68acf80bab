"""What the teacher's kit promises."""

import re

from lessons.source import FOLDER, lesson_paths
from sim import Config, Trace, simulate

KIT = (FOLDER / "TEACHING.md").read_text(encoding="utf-8")


def test_every_lesson_has_an_objective():
    plan = KIT.partition("## A plan for a week")[2].partition("## ")[0]
    numbers = re.findall(r"^\| (\d+) \| \w", plan, re.MULTILINE)
    assert [int(number) for number in numbers] == [int(path.stem[:2]) for path in lesson_paths()]


def test_the_beats_take_the_minutes_of_a_lesson():
    minutes = re.findall(r"^\| [^|]*\*\*[^|]+ \| (\d+) \||^\| hook \| (\d+) \|", KIT, re.MULTILINE)
    assert len(minutes) == 6
    assert sum(int(one or other) for one, other in minutes) == 45


def test_students_of_different_seeds_have_different_points_in_the_chart():
    assert "pagelab compare demo --seed 7" in KIT
    points = set[tuple[float, ...]]()
    for seed in range(8):
        trace = Trace.read("demo", seed=seed)
        runs = [
            simulate(trace, Config(allocator=name, pool_tokens=4096, max_len=512), record=False)
            for name in ("max", "paged")
        ]
        points.add(tuple(round(run.report()["waste_percent"], 1) for run in runs))
    assert len(points) == 8
