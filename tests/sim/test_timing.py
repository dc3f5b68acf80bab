"""Modelled step times against hand arithmetic."""

from dataclasses import replace

import pytest

from sim import Config, InputError, simulate
from sim.additive_timing import AdditiveTiming
from sim.batch import Batch, Chunk
from sim.clock import MAX_STEP_S, PS_PER_S
from sim.hardware import Hardware
from sim.models import ModelSpec
from sim.request import Request, SequenceGroup
from sim.timing import RooflineTiming, UnitTiming, make_timing
from tests.making import requests

SPEC = ModelSpec(
    name="s", num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8, hidden=32, intermediate=64, vocab=10,
    num_parameters=1000, max_positions=64, source="made up",
)  # fmt: skip


def device(flops_per_s: int) -> Hardware:
    return Hardware(
        name="d", memory_bytes=1, bandwidth_bytes_per_s=10**5, flops_per_s=flops_per_s, link_bytes_per_s=1000,
        peer_bytes_per_s=1000, source="made up",
    )  # fmt: skip


@pytest.fixture
def batch() -> Batch:
    """A prefill of 5 tokens and a decode of the 10th token of another sequence."""
    group = SequenceGroup(Request(id="r", arrival_s=0.0, prompt=5, output=1, max_tokens=1), order=0)
    [sequence] = group.sequences
    batch = Batch(1, 0.0)
    batch.add(Chunk(group, sequence, 0, 5, True, True))
    batch.add(Chunk(group, sequence, 9, 1, False, True))
    return batch


def test_what_a_batch_counts(batch):
    assert batch.num_tokens == 5 + 1
    assert batch.num_context_tokens == 5 + 10
    assert batch.num_attention_pairs == (1 + 2 + 3 + 4 + 5) + 10


def test_a_later_chunk_attends_to_all_before_it(batch):
    chunk = replace(batch.chunks[0], start=4, num_tokens=3, emits=False)
    assert chunk.context == 7
    assert Batch(1, 0.0, [chunk]).num_attention_pairs == 5 + 6 + 7


def test_roofline_seconds_by_hand_where_memory_is_the_bound(batch):
    # KV of a token: 2 x 2 layers x 2 kv heads x 8 x 2 B = 128 B; weights 2000 B; 15 tokens read, 6 written
    expected = (2000 + 128 * (15 + 6)) / 10**5
    assert RooflineTiming(SPEC, device(10**6), "fp16", 4).seconds(batch) == pytest.approx(expected)
    assert expected == 0.04688


def test_roofline_seconds_by_hand_where_computing_is_the_bound(batch):
    # 2 x 1000 x 6 tokens, and 4 x 2 layers x 4 heads x 8 x 25 pairs = 18,400
    assert RooflineTiming(SPEC, device(10**5), "fp16", 4).seconds(batch) == pytest.approx(0.184)


def test_roofline_adds_what_crosses_the_host_link_and_what_is_copied(batch):
    timing = RooflineTiming(SPEC, device(10**5), "fp16", 4)
    plain = timing.seconds(batch)
    batch.num_swapped_blocks, batch.num_copied_tokens = 3, 7
    swapped, copied = 3 * 4 * 128 / 1000, 2 * 7 * 128 / 10**5
    assert timing.seconds(batch) == pytest.approx(plain + swapped + copied)


def test_quantized_keys_and_values_are_read_faster(batch):
    half = RooflineTiming(SPEC, device(10**9), "fp16", 4).seconds(batch)
    quantized = RooflineTiming(SPEC, device(10**9), "int8", 4).seconds(batch)
    # 8 x 1 B and a scale of 4 B for each head, instead of 16 B
    assert half - quantized == pytest.approx(21 * (128 - 96) / 10**5)


def test_unit_timing_is_one_second_whatever_runs(batch):
    assert UnitTiming().seconds(batch) == UnitTiming().seconds(Batch(1, 0.0)) == 1.0


def test_linear_timing_is_the_sum_of_its_costs(batch, tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"seconds": {"step": 1, "token": 10, "context_token": 100, "attention_pair": 1000}}')
    assert make_timing(Config(timing=str(path))).seconds(batch) == 1 + 60 + 1500 + 25_000
    batch.num_swapped_blocks = 2
    assert AdditiveTiming(step=1, swapped_block=5).seconds(batch) == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "expected"),
        ("[]", "expected"),
        ("{}", "expected"),
        ('{"seconds": 1}', "expected"),
        ('{"seconds": {"stp": 1}}', "among step, token, "),
        ('{"seconds": {"step": "fast"}}', "expected"),
        ('{"seconds": {}}', "seconds.step is 0.0; a step must take more than 0 s"),
        ('{"seconds": {"step": 0, "token": 1}}', "seconds.step is 0.0"),
        ('{"seconds": {"step": -1}}', "seconds.step is -1.0"),
        ('{"seconds": {"step": NaN}}', "seconds.step is nan"),
        ('{"seconds": {"step": 1, "token": -1}}', "seconds.token is -1.0"),
        ('{"seconds": {"step": 1, "token": Infinity}}', "seconds.token is inf"),
        ('{"seconds": {"step": 1e7}}', "seconds.step is 10000000.0; must be from 0 to 4000000 (46 days)"),
        ('{"seconds": {"step": 1, "swapped_block": 4000001}}', "seconds.swapped_block is 4000001.0"),
        ('{"seconds": {"step": 1}, "curve": [[1, 2]]}', "curve must be two or more"),
        ('{"seconds": {"step": 1}, "curve": [[1, 2], [1, 3]]}', "tokens rising"),
        ('{"seconds": {"step": 1}, "curve": [[1, 2], [2, 1]]}', "seconds never falling"),
        ('{"seconds": {"step": 1}, "curve": [[1, NaN], [2, 1]]}', "seconds never falling"),
        ('{"seconds": {"step": 1}, "curve": [[1, -1], [2, 1]]}', "from 0 to 4000000"),
        ('{"seconds": {"step": 1}, "curve": [[1, 2, 3]]}', "expected"),
        ('{"seconds": {"step": 1}, "curve": 7}', "expected"),
        ('{"seconds": {"step": 1}, "config": {"model": "tiny"}}', "measured with --model tiny, and this run"),
    ],
)
def test_a_timing_file_that_cannot_be_meant_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        simulate(requests((4, 1)), Config(timing=str(path)))
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_curve_of_seconds_by_tokens_is_followed_between_its_points_and_beyond_the_last(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"seconds": {"step": 1, "sequence": 10}, "curve": [[1, 0.0], [3, 4.0], [5, 5.0]]}')
    timing = AdditiveTiming.read(path)
    seconds = [timing.cost(tokens, 0, 0, 0) for tokens in (1, 2, 3, 4, 5, 9)]
    assert seconds == [1.0, 3.0, 5.0, 5.5, 6.0, 8.0]
    assert timing.cost(2, 2, 0, 0) == 23.0  # two sequences


def test_the_longest_step_that_can_be_counted_is_counted_exactly(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(f'{{"seconds": {{"step": {MAX_STEP_S}}}}}')
    run = simulate(requests((4, 3), (4, 2)), Config(timing=str(path)))
    assert run.series.column("duration").tolist() == [MAX_STEP_S] * 3
    assert run.time_s == 3 * MAX_STEP_S
    assert run.series.mean("running") == (2 + 2 + 1) / 3
    assert MAX_STEP_S * PS_PER_S < 2**62  # what `sim.series.exact_dot` takes


def test_a_step_whose_costs_sum_to_more_than_can_be_counted_ends_the_run_in_one_line(tmp_path):
    """Story: costs that were each in range made a step of 10^10 s, and the series a traceback."""
    path = tmp_path / "t.json"
    path.write_text('{"seconds": {"step": 1, "attention_pair": 1e6}}')
    with pytest.raises(
        InputError, match=r"a step of 1e\+07 s: at most 4000000 s \(46 days\) can be counted; lower"
    ):
        simulate(requests((4, 1)), Config(timing=str(path)))


def test_a_timing_file_that_went_away_after_the_config_was_made_says_so(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"seconds": {"step": 1}}')
    config = Config(timing=str(path))
    path.unlink()
    with pytest.raises(InputError, match="No such file or directory; known are unit, roofline"):
        make_timing(config)


def test_a_step_of_the_roofline_is_never_shorter_than_reading_the_weights():
    config = Config()
    run = simulate(requests((10, 5)), config)
    floor = config.spec.weights_bytes() / (1555 * 10**9)  # A100-40GB
    assert (run.series.column("duration") > floor).all()
    assert (run.series.column("duration") < 1.01 * floor).all()
