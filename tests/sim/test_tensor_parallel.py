"""Keys and values over several devices: what each rank holds, and how long a step takes."""

import pytest

from sim import Config, InputError, simulate
from sim.hardware import HARDWARE
from sim.models import MODELS
from sim.parallel import AllReduce, kv_copies, shard
from tests.making import requests


@pytest.mark.parametrize(
    ("model", "ranks", "kv_heads", "copies"),
    [
        ("opt-13b", 1, 40, 1),
        ("opt-13b", 4, 10, 1),
        ("llama-3-70b", 8, 1, 1),
        ("llama-3-70b", 16, 1, 2),  # 8 kv heads: each stands on two ranks
        ("qwen2.5-7b", 2, 2, 1),
        ("qwen2.5-7b", 28, 1, 7),
    ],
)
def test_kv_heads_are_split_and_with_fewer_than_ranks_copied(
    model: str, ranks: int, kv_heads: int, copies: int
):
    spec = MODELS[model]
    rank = shard(spec, ranks)
    assert (rank.num_kv_heads, kv_copies(spec, ranks)) == (kv_heads, copies)
    assert ranks * rank.kv_bytes_per_token() == copies * spec.kv_bytes_per_token()
    assert 0 <= ranks * rank.num_parameters - spec.num_parameters < ranks


def test_the_cache_of_opt_13b_on_four_ranks():
    # paper, section 6.1: 800 KiB of keys and values a token, 12 GB of cache on a 40 GB A100 beside 26 GB
    config = Config(model="opt-13b", tensor_parallel=4, memory="40GiB")
    assert config.spec.kv_bytes_per_token() == 819_200
    assert config.rank_spec.kv_bytes_per_token() == 204_800
    weights = -(-MODELS["opt-13b"].num_parameters // 4) * 2
    assert config.num_pool_tokens == (40 * 2**30 - weights) // 204_800
    report = config.as_json()
    assert (report["kv_bytes_per_token"], report["kv_bytes_per_token_per_rank"]) == (819_200, 204_800)


def test_a_model_too_large_for_one_device_fits_on_several():
    with pytest.raises(InputError, match="too small for opt-66b"):
        Config(model="opt-66b", memory="40GiB")
    assert Config(model="opt-66b", memory="40GiB", tensor_parallel=4).num_pool_tokens > 10_000


def test_ranks_among_which_heads_cannot_be_dealt_out_are_refused():
    with pytest.raises(InputError, match="--tensor-parallel 3 with --model llama-3-8b: its 32 heads"):
        Config(model="llama-3-8b", tensor_parallel=3)
    with pytest.raises(InputError, match=r"--tensor-parallel 7 with --model qwen2\.5-7b: 4 kv heads can be"):
        Config(model="qwen2.5-7b", tensor_parallel=7)
    with pytest.raises(InputError, match="tensor parallel 0: must be at least 1"):
        Config(tensor_parallel=0)


def test_an_all_reduce_takes_what_a_ring_takes():
    # 2 sums x 32 layers x 100 tokens x 4096 x 2 B = 52,428,800 B; a ring of 4 sends 1.5 times that
    model, hardware = MODELS["llama-3-8b"], HARDWARE["h100"]
    assert AllReduce(model, 4, hardware).seconds(100) == pytest.approx(1.5 * 52_428_800 / 450e9, rel=1e-12)
    assert AllReduce(model, 1, hardware).seconds(100) == 0.0


def test_two_ranks_halve_a_step_but_for_what_they_tell_each_other():
    trace = requests((1000, 1))
    one = simulate(trace, Config(model="llama-3-8b", hardware="h100"))
    two = simulate(trace, Config(model="llama-3-8b", hardware="h100", tensor_parallel=2))
    told = AllReduce(MODELS["llama-3-8b"], 2, HARDWARE["h100"]).seconds(1000)
    assert two.time_s == pytest.approx(one.time_s / 2 + told, rel=1e-6)


def test_peers_without_nvlink_talk_over_the_host_link():
    assert HARDWARE["t4"].peer_bytes_per_s == HARDWARE["t4"].link_bytes_per_s
    assert HARDWARE["a100-80gb"].peer_bytes_per_s == 300 * 10**9
