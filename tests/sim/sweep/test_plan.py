"""From a grid and a list to configurations."""

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
    ],
)
def test_what_cannot_be_swept_is_refused(fixed, grid, said):
    with pytest.raises(InputError, match=said):
        Plan.make(fixed, grid)
