"""What the Triton kernels become on GPUs that are not here: some compiled now, all in compile.json."""

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from bench.compile import SOURCES, fingerprint
from tests.engine.attention.processes import ROOT, outside_the_interpreter

pytest.importorskip("triton.backends.nvidia")

RESULT = ROOT / "bench" / "results" / "compile.json"
KIB = 1024
MAX_SHARED = {
    "sm_80": 163 * KIB,
    "sm_90": 227 * KIB,
    "sm_100": 227 * KIB,
    "gfx942": 64 * KIB,
}  # of one program
SM_SHARED = {"sm_80": 164 * KIB, "sm_90": 228 * KIB, "sm_100": 228 * KIB}
SM_REGISTERS = 64 * KIB

# The variants that differ most. The rest is compiled by `python -m bench.compile`.
COMPILED_NOW = {
    "sm_90": [
        "decode, bf16, 128",
        "decode, bf16, 128, contiguous",
        "decode, bf16, 128, all features",
        "decode, bf16, 128, cache int8, scales of tokens",
        "decode, fp32, 128",
        "decode, fp16, 80",
        "prefill, bf16, 128",
        "short, bf16, 128",
        "write, bf16 to int8, 8 x 128, scales of tokens",
        "copy, runs of 16 bytes",
    ],
    "sm_80": ["decode, bf16, 128, cache e4m3", "prefill, bf16, 128"],
    "sm_100": ["prefill, bf16, 128"],
    "gfx942": ["decode, bf16, 128"],
}

Facts = dict[str, dict[str, Any]]  # "target  variant  kernel" -> facts


def flat(targets: dict[str, dict[str, dict[str, Any]]]) -> Facts:
    """One entry for each kernel. A variant that did not compile has only `error`."""
    return {
        f"{target}  {variant}  {kernel}": facts
        for target, variants in targets.items()
        for variant, kernels in variants.items()
        for kernel, facts in kernels.items()
    }


@pytest.fixture(scope="session")
def compiled_now() -> Facts:
    found: dict[str, Any] = {}
    for target, names in COMPILED_NOW.items():
        command = ["--exact", "--only", "|".join(names), "--targets", target, "--out", "-"]
        found |= outside_the_interpreter("-m", "bench.compile", *command)["targets"]
    assert {target: set(found[target]) for target in found} == {
        t: set(names) for t, names in COMPILED_NOW.items()
    }
    return flat(found)


@pytest.fixture(scope="session")
def written() -> dict[str, Any]:
    return json.loads(RESULT.read_text())


@pytest.fixture(params=["compiled_now", "written"])
def kernels(request: pytest.FixtureRequest) -> Facts:
    """Those just compiled, and those of compile.json."""
    facts = request.getfixturevalue(request.param)
    return flat(facts["targets"]) if request.param == "written" else facts


def test_keys_and_values_are_loaded_16_bytes_at_a_time(kernels: Facts) -> None:
    """Narrow loads cost eight times the instructions: a stride without its divisibility gives them.

    Heads of 16 and, in warps of 64 threads as AMD has, of 32 are too small for that. So are rows of 8-bit
    codes: they get 8.
    """
    for name, facts in kernels.items():
        if "runs of any" in name or "reduce_kernel" in name or re.search(r", 16\b", name):
            continue
        is_small = "cache" in name or "write" in name or ("gfx" in name and re.search(r", 32\b", name))
        assert facts["loads"].get("16", 0) + (facts["loads"].get("8", 0) if is_small else 0) > 0, name
        assert not {"1", "2"} & set(facts["loads"]), name


def test_nothing_spills_and_shared_memory_suffices(kernels: Facts) -> None:
    for name, facts in kernels.items():
        assert facts["stack"] == facts["spills"] == 0, name
        assert facts["shared"] <= MAX_SHARED[name.split()[0]], name


# 8-bit codes as float32, and tiles of 64 rows: these compute more than they read
ALONE = "fp32, 128, cache|decode.*group 64|short.*group 24"


def test_two_decode_programs_share_a_multiprocessor(kernels: Facts) -> None:
    """One alone leaves the memory idle while it computes."""
    for name, facts in kernels.items():
        target = name.split()[0]
        if "decode_kernel" in name and target in SM_SHARED and not re.search(ALONE, name):
            assert 2 * facts["shared"] <= SM_SHARED[target], name
            assert 2 * facts["registers"] * facts["num_warps"] * 32 <= SM_REGISTERS, name


def test_float32_is_exact_and_16_bits_use_the_tensor_cores(kernels: Facts) -> None:
    """A float32 product on NVIDIA's tensor cores would be TF32: ten bits of mantissa."""
    for name, facts in kernels.items():
        if "decode_kernel" in name or "prefill_kernel" in name:
            is_float32 = ", fp32," in name
            if not (is_float32 and "gfx" in name):  # AMD's have float32 proper
                assert (facts["tensor_core"] > 0) == (not is_float32), name


def test_long_loads_are_pipelined_on_nvidia(kernels: Facts) -> None:
    """Asynchronous copies into shared memory, several tiles ahead."""
    for name, facts in kernels.items():
        if "decode_kernel" in name and "sm_" in name:
            assert facts["async_loads"] > 0, name


def test_compile_json_has_every_variant_of_the_launch_tables(written: dict[str, Any]) -> None:
    shipped = outside_the_interpreter("-m", "bench.compile", "--names")
    assert {target: [*compiled] for target, compiled in written["targets"].items()} == dict.fromkeys(
        MAX_SHARED, shipped
    ), "run: python -m bench.compile"


def test_compile_json_was_made_from_the_kernels_as_they_are(written: dict[str, Any]) -> None:
    """Few variants are compiled anew here: of the others this is what tells that they are stale."""
    assert written["sources"] == fingerprint(SOURCES), "run: python -m bench.compile"


def test_the_fingerprint_is_of_the_code_and_of_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"

    def of(text: str) -> str:
        file.write_text(text)
        return fingerprint([file])

    plain = of('"""One."""\nx = [1, "a"]\n\n\ndef f():\n    return x\n')
    words = '"""Two."""\n\n# why\nx = [\n    1,\n    "a"\n]\ndef f():\n    """Three."""\n    return x  # so\n'
    assert of(words) == plain
    assert of('"""One."""\nx = [1, "b"]\n\n\ndef f():\n    return x\n') != plain
    assert of('"""One."""\nx = [1, "a"]\n\n\ndef f():\n    return -x\n') != plain


def test_compile_json_is_what_the_kernels_become_today(written: dict[str, Any], compiled_now: Facts) -> None:
    if written["machine"]["triton"] != version("triton"):
        pytest.skip(f"compile.json was made by Triton {written['machine']['triton']}")
    old = flat(written["targets"])
    for name, facts in compiled_now.items():
        assert old[name] == facts, "run: python -m bench.compile"
