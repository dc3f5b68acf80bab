import pytest

from tests.engine.attention.processes import outside_the_interpreter

pytest.importorskip("triton.backends.nvidia")


def test_no_kernel_is_compiled_again_when_only_sizes_change() -> None:
    """Batches, lengths, pools and tables of every size, views at every offset. Triton compiles anew for an
    integer that is 1 or a multiple of 16, and for a pointer that is aligned: servers stalled for seconds."""
    counts = outside_the_interpreter("-m", "tests.engine.attention.steady")
    assert counts == {
        "write_kernel": [1, 0],
        "write_codes_kernel": [1, 0],
        "decode_kernel": [6, 0],  # with one chunk and with several: one query, a few, and over codes
        "reduce_kernel": [3, 0],
        "prefill_kernel": [1, 0],
        "copy_kernel": [1, 0],
    }
