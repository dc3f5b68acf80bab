"""Whatever cannot work is refused in one line that says what is wrong and what to do instead."""

import dataclasses

import pytest

from sim import Config, InputError
from sim.config import BATCHING, PREEMPT, STEP_RULES
from sim.errors import unknown_name


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"allocator": "pagd"}, "unknown allocator 'pagd': did you mean 'paged'? known are "),
        ({"placement": "first_fit"}, "unknown placement 'first_fit': did you mean 'first-fit'?"),
        ({"batching": "continous"}, "did you mean 'continuous'?"),
        ({"step_rule": "mix"}, "unknown step rule 'mix': did you mean 'mixed'?"),
        ({"preempt": "swop"}, "did you mean 'swap'?"),
        ({"model": "opt13b"}, "did you mean 'opt-13b'?"),
        ({"kv_dtype": "float16"}, "unknown kv dtype 'float16'"),
        ({"hardware": "a100"}, "unknown hardware 'a100': did you mean 'a100-"),
        ({"allocator": "xyzzy"}, "unknown allocator 'xyzzy': known are "),
        ({"block_size": 0}, "block size 0: must be at least 1 (16 is usual)"),
        ({"block_size": -16}, "block size -16: must be at least 1 (16 is usual)"),
        ({"max_len": 0}, "max len 0: must be at least 1"),
        ({"max_seqs": 0}, "max seqs 0: must be at least 1"),
        ({"pool_tokens": 0}, "pool tokens 0: must be at least 1"),
        ({"pool_blocks": -1}, "pool blocks -1: must be at least 1"),
        ({"max_batch_tokens": 0}, "max batch tokens 0: must be at least 1"),
        ({"preempt": "swap", "swap_blocks": -1}, "swap blocks -1: must be at least 0"),
        ({"watermark": 1.0}, "watermark 1.0: a share of the pool, at least 0 and below 1 (0.01 is usual)"),
        ({"watermark": -0.1}, "watermark -0.1: "),
        ({"watermark": float("nan")}, "watermark nan: "),
        ({"pool_tokens": 64, "pool_blocks": 4}, "--pool-tokens and --pool-blocks: each sets the size of"),
        ({"pool_tokens": 64, "memory": "40GiB"}, "--pool-tokens and --memory: "),
        ({"pool_tokens": 15}, "pool of 15 tokens: smaller than one block of 16; give a larger pool"),
        ({"step_rule": "prefill-first", "chunked_prefill": True}, "drop one of them"),
        ({"swap_blocks": 4}, "--swap-blocks without --preempt swap: "),
        ({"memory": "12 apples"}, "12 apples"),
        ({"memory": "12GiB"}, "too small for opt-13b"),  # its weights take 24 GiB
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_cannot_work_is_refused_in_one_line_with_the_remedy(dials, message):
    with pytest.raises(InputError) as caught:
        Config(**dials)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known_ones():
    assert str(unknown_name("fruit", "aple", ["apple", "pear"])) == (
        "unknown fruit 'aple': did you mean 'apple'? known are apple, pear"
    )


def test_every_dial_has_help_and_a_default_that_works():
    for dial in dataclasses.fields(Config):
        assert len(dial.metadata["help"]) > 10, dial.name
        assert dial.default is not dataclasses.MISSING, dial.name
    assert Config() == Config()


@pytest.mark.parametrize("dial", [dial for dial in dataclasses.fields(Config) if dial.metadata["choices"]])
def test_every_choice_of_every_dial_is_accepted(dial):
    for choice in dial.metadata["choices"]():
        assert getattr(Config(**{dial.name: choice}), dial.name) == choice


def test_rules_that_are_offered_are_explained():
    for names in (BATCHING, STEP_RULES, PREEMPT):
        assert all(len(text) > 10 for text in names.values())


def test_a_config_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().block_size = 8  # type: ignore[misc]


@pytest.mark.parametrize(
    ("dials", "num_slots"),
    [
        ({}, 15_728),  # paper table 1: OPT-13B on an A100-40GB
        ({"pool_blocks": 983}, 15_728),
        ({"pool_tokens": 100}, 96),  # whole blocks only
        ({"pool_tokens": 100, "allocator": "max"}, 100),
        ({"pool_blocks": 4, "block_size": 8, "allocator": "oracle"}, 32),
    ],
)
def test_the_pool_has_as_many_slots_as_sequences_can_hold(dials, num_slots):
    config = Config(**dials)
    assert config.num_slots == config.as_json()["num_slots"] == num_slots


def test_memory_is_what_the_weights_leave():
    config = Config(memory="16GiB", model="llama-2-7b")
    per_slot = 2 * 32 * 4096 * 2
    assert config.num_pool_tokens == (16 * 2**30 - config.spec.weights_bytes()) // per_slot


def test_the_token_budget_always_holds_the_longest_request_unless_it_is_given():
    assert Config().token_budget == 8192
    assert Config(max_len=10_000).token_budget == 10_000
    assert Config(max_len=10_000, max_batch_tokens=512).token_budget == 512


@pytest.mark.parametrize(
    ("dials", "host"),
    [({}, 0), ({"preempt": "swap"}, 983), ({"preempt": "swap", "swap_blocks": 7}, 7)],
)
def test_host_memory_is_there_for_swapping_only(dials, host):
    assert Config(**dials).num_host_blocks == host
