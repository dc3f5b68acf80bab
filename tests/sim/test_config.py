"""Whatever cannot work is refused in one line that says what is wrong and what to do instead."""

import dataclasses

import pytest

from sim import Config, InputError
from sim.alloc import ALLOCATORS, RANGED
from sim.choices import BATCHING, PREEMPT, STEP_RULES
from sim.errors import unknown_name
from sim.scopes import APPLIES_TO, applies


@pytest.mark.parametrize(
    ("dials", "message"),
    [
        ({"allocator": "pagd"}, "unknown allocator 'pagd': did you mean 'paged'? known are "),
        ({"allocator": "max", "placement": "first_fit"},
         "unknown placement 'first_fit': did you mean 'first-fit'?"),
        ({"timing": "rooflin"},
         "unknown timing 'rooflin': did you mean 'roofline'? known are unit, roofline, or a FILE that"),
        ({"timing": "no/such.json"}, "unknown timing 'no/such.json': known are unit, roofline, or a FILE"),
        ({"timing": "."}, "unknown timing '.': known are unit, roofline, or a FILE that exists"),
        ({"timing": "a\0b"}, "unknown timing 'a\\x00b': "),
        ({"timing": "x" * 5000}, "unknown timing 'xxx"),
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
        ({"watermark": float("nan")}, "watermark nan: must be a finite number"),
        ({"seed": -1}, "seed -1: must be at least 0"),
        ({"seed": 2**64}, "seed: a whole number of 65 bits; at most 63"),
        ({"block_size": 16.5}, "block size 16.5: must be a whole number"),
        ({"block_size": 16.0}, "block size 16.0: must be a whole number"),
        ({"block_size": "16"}, "block size '16': must be a whole number"),
        ({"block_size": True}, "block size True: must be a whole number"),
        ({"block_size": None}, "block size None: must be a whole number"),
        ({"pool_tokens": 1e4}, "pool tokens 10000.0: must be a whole number"),
        ({"pool_blocks": 0.5}, "pool blocks 0.5: must be a whole number"),
        ({"max_len": float("inf")}, "max len inf: must be a whole number"),
        ({"max_seqs": 2.5}, "max seqs 2.5: must be a whole number"),
        ({"max_batch_tokens": 2.5}, "max batch tokens 2.5: must be a whole number"),
        ({"preempt": "swap", "swap_blocks": 2.5}, "swap blocks 2.5: must be a whole number"),
        ({"seed": 0.5}, "seed 0.5: must be a whole number"),
        ({"watermark": "0.1"}, "watermark '0.1': must be a number"),
        ({"watermark": False}, "watermark False: must be a number"),
        ({"chunked_prefill": "no"}, "chunked prefill 'no': must be True or False"),
        ({"memory": 12}, "memory 12: must be a text"),
        ({"timing": None}, "timing None: must be a text"),
        ({"allocator": ["paged"]}, "allocator ['paged']: must be a text"),
        ({"pool_tokens": 2**40}, "pool of 1099511627776 tokens: at most 2147483647 are counted exactly;"),
        ({"pool_blocks": 2**40, "block_size": 2**40}, "tokens: at most 2147483647 are counted exactly; give"),
        ({"pool_tokens": 2**31, "allocator": "max"}, "pool of 2147483648 tokens: at most 2147483647"),
        ({"memory": "1000000 TB"}, "tokens: at most 2147483647 are counted exactly; give a smaller pool"),
        ({"pool_tokens": 2**30, "block_size": 1},
         "pool of 1073741824 blocks: at most 33554432; give fewer, or a larger --block-size"),
        ({"preempt": "swap", "swap_blocks": 2**40}, "host memory of 1099511627776 blocks: at most 33554432;"),
        ({"pool_tokens": 64, "pool_blocks": 4}, "--pool-tokens and --pool-blocks: each sets the size of"),
        ({"pool_tokens": 64, "memory": "40GiB"}, "--pool-tokens and --memory: "),
        ({"pool_tokens": 15}, "pool of 15 tokens: smaller than one block of 16; give a larger pool"),
        ({"step_rule": "prefill-first", "chunked_prefill": True}, "drop one of them"),
        ({"swap_blocks": 4}, "--swap-blocks without --preempt swap: "),
        ({"placement": "first-fit"},
         "--placement first-fit with --allocator paged: its blocks or pages may lie anywhere; "
         "drop it, or use --allocator max or pow2 or oracle or grow or slab"),
        ({"placement": "buddy"}, "--placement buddy with --allocator paged: "),
        ({"allocator": "max", "preempt": "swap"},
         "--preempt swap with --allocator max: only blocks go to host memory; ranges and pages are "
         "recomputed, or never preempted; drop it, or use --allocator paged or mixed"),
        ({"allocator": "max", "victim": "oldest"},
         "--victim oldest with --allocator max: max, pow2, oracle reserve in full at admission and are never "
         "preempted; drop it, or use --allocator grow or "),
        ({"allocator": "pow2", "swap_blocks": 0}, "--swap-blocks 0 with --allocator pow2: "),
        ({"allocator": "oracle", "victim": "oldest"}, "--victim oldest with --allocator oracle: "),
        ({"allocator": "max", "prefix_cache": "hash"},
         "--prefix-cache hash with --allocator max: a prefix is shared block by block, and here each "
         "sequence has addresses of its own; drop it, or use --allocator paged or mixed"),
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
        for allocator in (name for name in ALLOCATORS if applies(dial.name, name)):
            # a page of the default size holds 32,768 tokens of the tiny model
            dials = {"allocator": allocator, "pool_tokens": 100_000, **GIVEN.get(dial.name, {})}
            assert getattr(Config(**{**dials, dial.name: choice}), dial.name) == choice


def test_rules_that_are_offered_are_explained():
    for names in (BATCHING, STEP_RULES, PREEMPT):
        assert all(len(text) > 10 for text in names.values())


GIVEN = {  # for each dial that not every allocator has a use for: a value, and what must stand beside it
    "placement": {"placement": "best-fit"},
    "preempt": {"preempt": "swap"},
    "swap_blocks": {"swap_blocks": 3, "preempt": "swap"},
    "link": {"link": "25GB/s", "preempt": "swap"},
    "victim": {"victim": "oldest"},
    "prefix_cache": {"prefix_cache": "radix"},
    "eviction": {"eviction": "fifo", "prefix_cache": "hash"},
    "window": {"window": 64},
    "sinks": {"sinks": 4, "window": 64},
    "keep_recent": {"keep_recent": 64, "keep_heavy": 8},
    "keep_heavy": {"keep_heavy": 8, "keep_recent": 64},
    "speculate": {"speculate": 2},
    "accept": {"accept": 0.5, "speculate": 2},
    "large_block_size": {"large_block_size": 64},
    "growth": {"growth": "256"},
    "size_classes": {"size_classes": "64,2048"},
    "page_size": {"page_size": "64KiB"},
    "compaction": {"compaction": "on-shortage"},
    "table": {"table": "two-level"},
}


@pytest.mark.parametrize("name", APPLIES_TO)
def test_an_option_is_taken_by_the_allocators_that_have_a_use_for_it_and_refused_by_all_others(name):
    value = GIVEN[name][name]
    for allocator in ALLOCATORS:
        if applies(name, allocator):
            assert getattr(Config(allocator=allocator, **GIVEN[name]), name) == value
        else:
            with pytest.raises(InputError) as error:
                Config(allocator=allocator, **{name: value})
            flag = "--" + name.replace("_", "-")
            assert str(error.value).startswith(f"{flag} {value} with --allocator {allocator}: ")
            assert f"; drop it, or use --allocator {APPLIES_TO[name].allocators[0]}" in str(error.value)


def test_what_is_the_default_anyway_is_refused_by_nobody():
    config = Config(
        allocator="max", preempt="recompute", victim="youngest", prefix_cache="off", swap_blocks=None
    )
    assert config == Config(allocator="max")


def test_ranges_are_placed_by_buddies_if_nothing_is_said_and_blocks_by_nobody():
    for allocator in ALLOCATORS:
        placement = "buddy" if allocator in RANGED else None
        config = Config(allocator=allocator)
        assert config.placement == config.as_json()["placement"] == placement
        assert config == Config(allocator=allocator, placement=placement)
        assert dataclasses.replace(config, pool_tokens=4096).placement == placement


def test_the_largest_pool_is_accepted():
    assert Config(pool_tokens=2**31 - 1, block_size=64).num_pool_blocks == 2**25 - 1
    assert Config(pool_tokens=2**31 - 1, allocator="max").num_slots == 2**31 - 1


def test_a_timing_file_is_one_that_exists_when_the_config_is_made(tmp_path):
    path = tmp_path / "costs.json"
    path.write_text("whatever it holds is read when the run starts")
    assert Config(timing=str(path)).timing == str(path)


def test_the_usual_model_is_the_papers():
    assert Config().model == "opt-13b"


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
