"""What the Triton kernels become on real GPUs, compiled without one (sm_80: A100, sm_90: H100, H200)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton.backends.nvidia")

MAX_SHARED = {"sm_80": 163 * 1024, "sm_90": 227 * 1024}  # bytes that one program can have
SM_SHARED = {"sm_80": 164 * 1024, "sm_90": 228 * 1024}
SM_REGISTERS = 64 * 1024


@pytest.fixture(scope="module")
def machine_code() -> dict[str, dict[str, int]]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.engine.attention.compiled"]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_keys_and_values_are_loaded_16_bytes_at_a_time(machine_code: dict) -> None:
    """Narrow loads cost eight times the instructions: a stride without its divisibility gives them."""
    for name, facts in machine_code.items():
        assert facts["async_16_byte"] > 0, name
        assert facts["narrow_loads"] == 0, name


def test_nothing_spills_and_shared_memory_suffices(machine_code: dict) -> None:
    for name, facts in machine_code.items():
        assert facts["spills"] == facts["stack"] == 0, name
        assert facts["shared"] <= MAX_SHARED[name[:5]], name


def test_two_decode_programs_share_a_multiprocessor(machine_code: dict) -> None:
    """One alone leaves the memory idle while it computes."""
    for name, facts in machine_code.items():
        if "decode" in name:
            assert 2 * facts["shared"] <= SM_SHARED[name[:5]], name
            assert 2 * facts["registers"] * facts["num_warps"] * 32 <= SM_REGISTERS, name


def test_float32_is_exact_and_16_bits_use_the_tensor_cores(machine_code: dict) -> None:
    """A float32 product on the tensor cores would be TF32: ten bits of mantissa."""
    for name, facts in machine_code.items():
        assert (facts["tensor_core"] > 0) == ("fp32" not in name), name
