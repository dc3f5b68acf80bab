"""From a grid and a list to configurations."""

from datetime import date

import pytest

from sim import InputError
from sim.sweep import Plan

FIXED = {"trace": "demo"}


def test_a_grid_is_every_combination_and_the_trace_changes_slowest():
    plan = Plan.make(FIXED, {"block_size": [8, 16], "rate_scale": [1, 2]})
    assert [(one["rate_scale"], one["block_size"]) for one in plan.configurations] == [
        (1, 8), (1, 16), (2, 8), (2, 16),
    ]  # fmt: skip
    assert plan.varying == ("rate_scale", "block_size")


def test_a_list_stands_for_itself_and_follows_a_grid():
    listed = [{"allocator": "virtual", "page_size": "64KiB"}, {"allocator": "max"}]
    assert [one["allocator"] for one in Plan.make(FIXED, None, listed).configurations] == ["virtual", "max"]
    both = Plan.make(FIXED, {"allocator": ["paged"]}, listed)
    assert [one["allocator"] for one in both.configurations] == ["paged", "virtual", "max"]


def test_a_dial_goes_to_the_allocators_that_have_a_use_for_it_and_nothing_runs_twice():
    plan = Plan.make(FIXED, {"allocator": ["max", "paged"], "prefix_cache": ["off", "hash"]})
    assert plan.configurations == (
        {"trace": "demo", "allocator": "max"},
        {"trace": "demo", "allocator": "paged", "prefix_cache": "off"},
        {"trace": "demo", "allocator": "paged", "prefix_cache": "hash"},
    )


def test_a_file_is_known_by_its_whole_path_and_its_content(tmp_path, monkeypatch):
    (tmp_path / "t.jsonl").write_text('{"id": "a", "arrival": 0, "prompt": 3, "output": 2}\n')
    monkeypatch.chdir(tmp_path)
    plan = Plan.make({"trace": "t.jsonl"})
    path = str(tmp_path / "t.jsonl")
    assert plan.configurations[0]["trace"] == path
    (tmp_path / "t.jsonl").write_text('{"id": "a", "arrival": 0, "prompt": 3, "output": 3}\n')
    assert Plan.make({"trace": "t.jsonl"}).digests[path] != plan.digests[path]


@pytest.mark.parametrize(
    ("fixed", "grid", "said"),
    [
        ({"trace": "demo", "blok_size": 8}, {}, "did you mean 'block_size'"),
        ({}, {}, "needs a trace"),
        ({"trace": "-"}, {}, "cannot read standard input"),
        (FIXED, {"block_size": 8}, "must be a list of values"),
        (FIXED, {"block_size": []}, "must be a list of values"),
        (FIXED, {"seed": list(range(2000)), "block_size": list(range(2000))}, "at most 1000000"),
        # JSON has no NaN: null took its place, which means the dial's default, and the row counted as done
        (FIXED, {"rate_scale": [2.0, float("nan")]}, "rate_scale nan: must be a finite number"),
        ({**FIXED, "rate_scale": float("inf")}, {}, "rate_scale inf: must be a finite number"),
        ({**FIXED, "between": (0.0, float("inf"))}, {}, "between inf: must be a finite number"),
        ({**FIXED, "block_size": 10**20}, {}, "block_size: a whole number of 67 bits; at most 63"),
        ({**FIXED, "seed": 2**63}, {}, "seed: a whole number of 64 bits"),
        ({**FIXED, "model": date(1979, 5, 27)}, {}, "model 1979-05-27: must be a number, a text"),
        ({**FIXED, "model": {"name": "tiny"}}, {}, "must be a number, a text, true or false"),
        ({**FIXED, "model": "\udcff"}, {}, "must be a text in UTF-8"),
    ],
)
def test_what_cannot_be_swept_is_refused(fixed, grid, said):
    with pytest.raises(InputError, match=said):
        Plan.make(fixed, grid)


def test_what_is_listed_is_looked_at_too():
    with pytest.raises(InputError, match="watermark nan: must be a finite number"):
        Plan.make(FIXED, None, [{"block_size": 8}, {"watermark": float("nan")}])
