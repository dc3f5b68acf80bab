"""Who works on how many threads while a model runs on a CPU."""

import threading
from dataclasses import replace

import pytest
import torch

from engine.model import LlamaModel
from engine.team import team_size, together, torch_gives_way
from engine.threads import SMALL_MODEL_BYTES, threads_for
from tests.engine.running import tiny

pytestmark = pytest.mark.usefixtures("three_threads")
SMALL = tiny().spec
LARGE = replace(SMALL, vocab=-(-SMALL_MODEL_BYTES // (4 * SMALL.hidden)))


def numbers_inside(model: LlamaModel) -> tuple[int, int]:
    """Threads of torch and of compiled loops while `model` runs; afterwards, they are as before."""
    with threads_for(model):
        numbers = torch.get_num_threads(), team_size()
        with threads_for(model):
            assert (torch.get_num_threads(), team_size()) == numbers, "a run within a run"
        assert (torch.get_num_threads(), team_size()) == numbers
    assert (torch.get_num_threads(), team_size()) == (3, 3)
    return numbers


def test_a_packed_model_leaves_all_threads_to_the_compiled_loops() -> None:
    model = LlamaModel(LARGE, seed=0, dtype=torch.float32, device="cpu")
    assert model.num_weight_bytes >= SMALL_MODEL_BYTES
    assert numbers_inside(model) == (3, 3), "its products are torch's as long as it is not packed"
    model.pack()
    assert numbers_inside(model) == (1, 3)


def test_a_small_model_runs_on_one_thread() -> None:
    assert numbers_inside(LlamaModel(SMALL, seed=0, dtype=torch.float32, device="cpu")) == (1, 1)


def test_an_error_gives_torch_its_threads_back() -> None:
    with pytest.raises(KeyError), torch_gives_way(2):
        raise KeyError
    assert (torch.get_num_threads(), team_size()) == (3, 3)


def test_the_team_has_as_many_threads_as_it_was_given_though_torch_has_one() -> None:
    met = threading.Barrier(3, timeout=20)
    with torch_gives_way(3):
        together(lambda: [met.wait()])  # breaks unless three are there at the same time
    assert not met.broken


def test_another_thread_keeps_the_number_of_torch() -> None:
    sizes: list[int] = []
    with torch_gives_way(2):
        other = threading.Thread(target=lambda: sizes.append(team_size()))
        other.start()
        other.join()
        assert team_size() == 2
    assert sizes == [1], "it is torch's, which gives way in the whole process"
