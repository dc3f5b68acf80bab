"""The real files of others, where they lie beside the project (shared/data)."""

import time

import pytest

from sim.trace import Trace


@pytest.mark.parametrize(
    ("name", "rows", "prompt_mean", "output_mean", "longest_prompt", "span_s"),
    [
        ("AzureLLMInferenceTrace_code.csv.gz", 8_819, 2047.8, 27.9, 7437, 3435.948056),
        ("AzureLLMInferenceTrace_conv.csv.gz", 19_366, 1154.7, 211.1, 14050, 3501.721937),
        ("mooncake_conversation_trace.jsonl.gz", 12_031, 12_035, 343, None, 3536.999),
        ("mooncake_synthetic_trace.jsonl.gz", 3_993, 15_325, 149, None, 1022.025),
    ],
)
def test_a_public_trace_has_its_published_counts(
    shared_data, name, rows, prompt_mean, output_mean, longest_prompt, span_s
):
    trace = Trace.read(shared_data / name)
    info = trace.info()
    assert (len(trace), trace.skipped, trace.requests[0].arrival_s) == (rows, {}, 0.0)
    assert info["prompt"]["mean"] == pytest.approx(prompt_mean, abs=0.5)
    assert info["output"]["mean"] == pytest.approx(output_mean, abs=0.5)
    assert longest_prompt in (None, info["prompt"]["max"])
    assert trace.span_s == pytest.approx(span_s, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "rows", "prompt_median", "output_median"),
    [
        ("sharegpt_8k_filtered_stats_llama2_tokenizer.csv.gz", 30_731, 1730, 415),
        ("vidur_arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz", 28_257, 2730, 167),
    ],
)
def test_a_public_length_file_has_its_published_medians(
    shared_data, name, rows, prompt_median, output_median
):
    trace = Trace.read(shared_data / name, rate=2.0)
    info = trace.info()
    assert (len(trace), info["prompt"]["p50"], info["output"]["p50"]) == (rows, prompt_median, output_median)
    assert info["rate_per_s"] == pytest.approx(2.0, rel=0.02)


def test_the_mooncake_conversations_share_their_first_block_and_arrive_in_lumps(shared_data):
    trace = Trace.read(shared_data / "mooncake_conversation_trace.jsonl.gz")
    assert {(request.blocks or ())[0] for request in trace} == {0}
    assert sum(len(request.blocks or ()) for request in trace) == 288_500
    assert len({block for request in trace for block in request.blocks or ()}) == 182_790
    assert trace.notes == ("12031 requests arrive at 1180 instants, as in the file; spread_s spreads them",)
    spread = Trace.read(shared_data / "mooncake_conversation_trace.jsonl.gz", spread_s=3.0)
    assert len({request.arrival_s for request in spread}) > 11_900


@pytest.mark.parametrize("name", ["AzureLLMInferenceTrace_code.csv.gz", "mooncake_synthetic_trace.jsonl.gz"])
def test_a_public_trace_converts_to_the_native_format_without_loss(shared_data, tmp_path, name):
    trace = Trace.read(shared_data / name)
    trace.write(tmp_path / "native.jsonl.gz")
    assert Trace.read(tmp_path / "native.jsonl.gz").requests == trace.requests


def test_19366_azure_rows_are_read_in_less_than_half_a_second(shared_data):
    def seconds() -> float:
        start = time.process_time()
        Trace.read(shared_data / "AzureLLMInferenceTrace_conv.csv.gz")
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < 0.5
