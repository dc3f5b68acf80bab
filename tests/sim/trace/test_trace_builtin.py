import pytest

from sim.errors import InputError
from sim.trace import BUILTINS, Trace, list_builtins


@pytest.mark.parametrize("name", list(BUILTINS))
def test_every_built_in_is_read_by_its_name_and_is_the_same_each_time(name):
    trace = Trace.read(name)
    assert trace.name == name
    assert trace.requests[0].arrival_s == 0.0
    assert trace == Trace.read(name)


def test_the_list_has_every_name_with_one_line_about_it():
    assert [name for name, _ in list_builtins()] == list(BUILTINS)
    assert all(0 < len(about) <= 90 and "\n" not in about for _, about in list_builtins())
    assert {"demo", "sharegpt-like", "alpaca-like", "azure-conv-like", "azure-code-like"} < set(BUILTINS)


@pytest.mark.parametrize("name", ["demo", "sharegpt-like", "shared-prefix"])
def test_another_seed_gives_another_trace(name):
    assert Trace.read(name, seed=1) != Trace.read(name)


def test_a_built_in_wins_over_a_file_of_its_name_which_a_path_still_reaches(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").write_text('{"id": "mine", "arrival": 0, "prompt": 1, "output": 1}')
    assert len(Trace.read("demo")) == 60
    assert [request.id for request in Trace.read("./demo")] == ["mine"]


def test_the_four_requests_store_what_the_guide_says_and_the_first_of_them_ends_first():
    trace = Trace.read("four-requests")
    assert [request.final_tokens for request in trace] == [256, 512, 128, 1024, 2048]
    *four, fifth = trace
    assert sum(request.final_tokens for request in four) == 1920
    assert min(four, key=lambda request: request.output).id == "r1"
    assert [request.arrival_s for request in four] == [0.0] * 4
    assert fifth.arrival_s > 0


def test_the_fragmentation_trace_fills_4096_slots_exactly_and_then_asks_for_more_than_a_hole():
    trace = Trace.read("fragmentation")
    small, large = trace.requests[:16], trace.requests[16:]
    assert sum(request.final_tokens for request in small) == 4096
    assert {request.final_tokens for request in small} == {256}
    assert {request.output for request in small[::2]} == {17}
    assert min(request.output for request in small[1::2]) > 10 * 17
    assert {request.final_tokens for request in large} == {512}


def test_the_demo_fits_a_small_model_and_keeps_the_shape_of_sharegpt():
    demo = Trace.read("demo")
    assert len(demo) == 60
    assert max(request.prompt + request.output for request in demo) <= 512
    assert 1.5 < demo.output_tokens / demo.prompt_tokens < 4
    assert demo.span_s < 2


def test_thrashing_prompts_fit_together_and_what_they_grow_to_does_not():
    trace = Trace.read("thrashing")
    assert trace.prompt_tokens <= 4096 < sum(request.final_tokens for request in trace) / 8
    assert trace.span_s == 0.0


def test_the_long_tail_has_a_mean_far_above_its_median():
    output = Trace.read("long-tail").info()["output"]
    assert output["mean"] > 2 * output["p50"]
    assert output["max"] > 1000


@pytest.mark.parametrize(("name", "rate"), [("sharegpt-like", 2.0), ("alpaca-like", 30.0)])
def test_the_papers_workloads_have_its_rates_and_pass_its_filter(name, rate):
    trace = Trace.read(name)
    assert trace.info()["rate_per_s"] == pytest.approx(rate, rel=0.07)
    assert all(4 <= request.prompt <= 1024 and request.output >= 4 for request in trace)
    assert len(trace) == len(trace.max_total(2048))


def test_sharing_built_ins_say_what_they_share():
    assert {(request.prefix, request.prefix_tokens) for request in Trace.read("shared-prefix")} == {
        ("system", 256)
    }
    assert {request.n for request in Trace.read("parallel-sampling")} == {4}


def test_a_built_in_survives_being_written(tmp_path):
    for name in BUILTINS:
        Trace.read(name).write(tmp_path / name)
        assert Trace.read(tmp_path / name).requests == Trace.read(name).requests


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="seed -1: must be at least 0"):
        Trace.read("demo", seed=-1)
