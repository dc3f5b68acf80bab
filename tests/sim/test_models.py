from dataclasses import FrozenInstanceError

import pytest

from sim.errors import InputError
from sim.models import KV_DTYPES, MODELS, get_model, parse_bytes

# Parameter totals of the published checkpoints (Hugging Face, safetensors index); OPT's from the shapes in
# its paper, whose names round them (12.85 B is called 13B).
PUBLISHED_PARAMETERS = {
    "opt-13b": 12_853_473_280,
    "opt-66b": 65_719_701_504,
    "opt-175b": 174_604_468_224,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "mistral-7b": 7_241_732_096,
    "smollm2-135m": 134_515_008,
}


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED_PARAMETERS.items())
def test_parameters_counted_from_the_shape_are_the_published_total(name, parameters):
    assert MODELS[name].num_parameters == parameters


def test_every_preset_but_our_own_has_a_published_total():
    assert set(MODELS) == set(PUBLISHED_PARAMETERS) | {"tiny"}


@pytest.mark.parametrize(("name", "gigabytes"), [("opt-13b", 26), ("opt-66b", 132), ("opt-175b", 346)])
def test_weights_of_the_papers_models_are_within_1_5_percent_of_its_table_1(name, gigabytes):
    assert MODELS[name].weights_bytes("fp16") == pytest.approx(gigabytes * 10**9, rel=0.015)


@pytest.mark.parametrize(
    ("name", "kv_dtype", "expected"),
    [
        ("opt-13b", "fp16", 819_200),
        ("opt-66b", "fp16", 2_359_296),
        ("opt-175b", "fp16", 4_718_592),
        ("llama-3-8b", "fp16", 131_072),
        ("llama-3-8b", "bf16", 131_072),
        ("llama-3-8b", "fp32", 262_144),
        ("llama-3-8b", "int8", 2 * 32 * 8 * (128 + 4)),
        ("llama-3-8b", "fp8", 2 * 32 * 8 * (128 + 4)),
        ("llama-3-70b", "fp16", 327_680),
        ("qwen2.5-0.5b", "fp16", 12_288),
        ("tiny", "fp16", 256),
    ],
)
def test_kv_bytes_of_a_token_are_exact_and_count_the_scales_of_quantized_vectors(name, kv_dtype, expected):
    assert MODELS[name].kv_bytes_per_token(kv_dtype) == expected


def test_a_block_is_its_slots_and_weights_are_parameters_times_their_bytes():
    spec = MODELS["opt-13b"]
    assert spec.kv_bytes_per_block(16) == 16 * 819_200
    assert spec.weights_bytes("fp32") == 4 * spec.num_parameters
    assert spec.weights_bytes("int8") == spec.num_parameters


def test_the_papers_12_gib_hold_15728_slots_of_opt_13b():
    assert MODELS["opt-13b"].slots_in(parse_bytes("12GiB")) == 15_728


def test_slots_beside_the_weights_are_the_whole_slots_of_what_is_left():
    spec = MODELS["opt-13b"]
    weights = 2 * 12_853_473_280
    assert spec.max_slots(40 * 2**30) == (40 * 2**30 - weights) // 819_200 == 21_048
    assert spec.max_slots(weights) == 0
    assert spec.max_slots(weights + 819_199) == 0
    assert spec.max_slots(weights + 819_200) == 1
    assert spec.max_slots(weights, weights_dtype="int8") == weights // 2 // 819_200


def test_memory_smaller_than_the_weights_is_refused_with_both_numbers():
    both = r"memory 12884901888 B is too small for opt-13b: .* take 25706946560 B"
    with pytest.raises(InputError, match=both):
        MODELS["opt-13b"].max_slots(12 * 2**30)


@pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS.keys())
def test_shapes_hang_together(spec):
    assert spec.num_heads * spec.head_dim == spec.hidden
    assert spec.queries_per_kv_head * spec.num_kv_heads == spec.num_heads
    assert spec.source


def test_a_spec_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        MODELS["tiny"].num_layers = 3  # type: ignore[misc]


def test_names_that_nobody_knows_name_the_nearest():
    with pytest.raises(InputError, match="unknown model 'llama3-8b': did you mean 'llama-3-8b'"):
        get_model("llama3-8b")
    with pytest.raises(InputError, match="unknown dtype 'float16': did you mean"):
        MODELS["tiny"].kv_bytes_per_token("float16")
    assert get_model("tiny") is MODELS["tiny"]
    assert list(KV_DTYPES) == ["fp16", "bf16", "fp32", "fp8", "int8"]


@pytest.mark.parametrize("size", [0, -16])
def test_a_block_size_below_1_is_refused(size):
    with pytest.raises(InputError, match=f"block size {size}: must be at least 1"):
        MODELS["tiny"].kv_bytes_per_block(size)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("12GiB", 12 * 2**30),
        ("12 GiB", 12 * 2**30),
        (" 1.5gib ", 3 * 2**29),
        ("40GB", 40 * 10**9),
        ("7kB", 7000),
        ("7KB", 7000),
        ("3MB", 3 * 10**6),
        ("3MiB", 3 * 2**20),
        ("2KiB", 2048),
        ("1TiB", 2**40),
        ("2TB", 2 * 10**12),
        ("4096", 4096),
        ("4096B", 4096),
        ("0.1MB", 100_000),
    ],
)
def test_sizes_are_whole_bytes_decimal_or_binary_by_their_unit(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GiB",
        "12G",
        "12 parsecs",
        "-1GiB",
        "1e3",
        "nan",
        "inf",
        "1,5GB",
        "1.2.3GB",
        "0GiB",
        "0.5B",
        "1" * 40 + "B",
    ],
)
def test_a_size_that_is_none_is_refused_in_one_line(text):
    with pytest.raises(InputError, match=r"size .* must be") as error:
        parse_bytes(text)
    assert "\n" not in str(error.value)
