"""Ten thousand malformed files, each refused with one clear line: no traceback, no hang, no 200 MB.

Seeded, so that a failure comes back. What was once met badly has a test of its own below.
"""

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from engine.checkpoint.safetensors_folder import SafetensorsFolder
from engine.checkpoint.text import text_side
from sim import InputError, Trace
from sim.model_files import folder_spec
from tests.malformed.checkpoints import CHECKPOINTS, CONFIG, settings_seeds, tokenizer_seeds
from tests.malformed.judging import Target, count_refused, judge, limits
from tests.malformed.mutations import mutants
from tests.malformed.own_files import OWN_FILES
from tests.malformed.traces import TRACES

TARGETS = {**TRACES, **CHECKPOINTS, **OWN_FILES}


def test_more_than_ten_thousand_are_refused_in_all():
    assert sum(target.wanted for target in TARGETS.values()) >= 10_000


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_malformed_file_is_refused_with_one_line(target: Target, tmp_path: Path):
    seeds = target.seeds(tmp_path)
    path = tmp_path / target.file
    for seed in seeds:
        path.write_bytes(seed)
        assert judge(lambda: target.read(path), seed) is None, "a seed must be valid"
    inputs = mutants(seeds, target.mutations, Random(target.file))
    count_refused(target.read, path, inputs, wanted=target.wanted, most_taken=target.wanted)


@pytest.mark.parametrize("content", [b"\0" * 10**6, b"1,1\n" * 250_000], ids=["zeros", "rows"])
def test_a_small_gzip_file_that_unpacks_to_a_gigabyte_is_refused_early(content: bytes, tmp_path: Path):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(content) * 1000)  # members one after the other are one file
    with limits():
        assert "unpacks to more than" in (judge(lambda: Trace.read(path), path) or "")


def test_an_index_of_shards_cannot_point_outside_its_folder(tmp_path: Path):
    index = {"weight_map": {"model.norm.weight": "../other/model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="is no name of a file beside it"):
        SafetensorsFolder(tmp_path)


def test_a_config_that_is_a_list_or_too_deep_or_too_large_is_refused(tmp_path: Path):
    path = tmp_path / "config.json"
    for content, told in (("[1]", "one JSON object"), ("[" * 10**5, "nested too deeply")):
        path.write_text(content)
        with pytest.raises(InputError, match=told):
            folder_spec(tmp_path)
    with path.open("wb") as file:
        file.truncate(10**9)  # a hole, which takes no room on the disk
    with limits(), pytest.raises(InputError, match="954 MiB; at most 64"):
        folder_spec(tmp_path)


def test_a_merge_at_which_the_tokenizers_library_panics_is_refused(tmp_path: Path):
    document = json.loads(tokenizer_seeds(tmp_path)[0])
    del document["model"]["vocab"]["ab"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="merge 'a' 'b' is not in its vocabulary"):
        text_side(tmp_path)


@pytest.mark.parametrize(
    "template", ["{{ 1 / 0 }}", "{{ messages + 1 }}", "{% for %}", "{{ ''.__class__.mro() }}"]
)
def test_a_chat_template_that_fails_says_so_and_reaches_nothing(template: str, tmp_path: Path):
    settings_seeds_folder = settings_seeds(tmp_path)
    settings = {**json.loads(settings_seeds_folder[0]), "chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="chat template fails"):
        text_side(tmp_path).encode_chat("ab")


def test_an_error_is_one_printable_line_whatever_it_quotes():
    error = InputError("bad\nname \x1b[31mred\x1b[0m \ud800 " + "x" * 5000)
    assert str(error).isprintable()
    assert len(str(error)) < 1001
    assert str(error).startswith("bad name \\x1b[31mred")


def test_head_dim_and_window_of_a_config_must_be_numbers(tmp_path: Path):
    for name in ("head_dim", "sliding_window"):
        (tmp_path / "config.json").write_text(json.dumps({**CONFIG, name: "1e9"}))
        with pytest.raises(InputError, match=f"field '{name}' is '1e9', must be a int"):
            folder_spec(tmp_path)
