"""Safetensors folders: the logits of `transformers` on the same weights, and clear refusals."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.checkpoint.export import export
from sim import InputError
from sim.models import get_model
from tests.engine.checkpoint.making import (
    LLAMA3_SCALING,
    loaded,
    reference,
    reference_logits,
    served_logits,
    write_sharded,
)

IDS = [5, 60, 3, 3, 77, 12, 90, 1, 44, 8, 19, 63, 27, 31, 50, 2, 71, 36, 9, 10, 85, 4, 58, 66]

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("Llama", {}),
    ("Llama", {"tie_word_embeddings": True}),
    ("Llama", {"num_key_value_heads": 4, "head_dim": 16}),
    ("Llama", {"rope_parameters": {**LLAMA3_SCALING, "rope_theta": 500.0}}),
    ("Mistral", {"sliding_window": None}),
    ("Qwen2", {}),
]


@pytest.mark.parametrize(("kind", "changes"), KINDS, ids=[f"{kind}-{list(c)}" for kind, c in KINDS])
def test_logits_equal_those_of_transformers(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = reference(kind, **changes)
    theirs.save_pretrained(tmp_path)
    model = loaded(tmp_path)
    for length in (1, 7, len(IDS)):
        expected = reference_logits(theirs, IDS[:length])
        torch.testing.assert_close(served_logits(model, IDS[:length]), expected, rtol=1e-4, atol=1e-4)


def test_shards_give_the_weights_of_one_file(tmp_path: Path) -> None:
    theirs = reference()
    theirs.save_pretrained(tmp_path)
    whole = loaded(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    write_sharded(dict(theirs.state_dict()), tmp_path, 3)
    sharded = loaded(tmp_path)
    assert torch.equal(whole.lm_head, sharded.lm_head)
    for one, other in zip(whole.layers, sharded.layers, strict=True):
        assert torch.equal(one.qkv, other.qkv)
        assert torch.equal(one.gate_up, other.gate_up)


@pytest.mark.parametrize(("kind", "changes"), [KINDS[0], KINDS[1], KINDS[5]])
def test_an_exported_model_is_the_same_model(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = reference(kind, **changes)
    theirs.save_pretrained(tmp_path / "theirs")
    model = loaded(tmp_path / "theirs")
    export(model, tmp_path / "ours")
    again = loaded(tmp_path / "ours")
    assert replace(again.spec, name="", source="") == replace(model.spec, name="", source="")
    ours = type(theirs).from_pretrained(tmp_path / "ours").state_dict()
    assert ours.keys() == theirs.state_dict().keys()
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.state_dict().items())
    assert torch.equal(served_logits(again, IDS), served_logits(model, IDS))


def test_a_tied_model_holds_its_embedding_once(tmp_path: Path) -> None:
    theirs = reference(tie_word_embeddings=True)
    theirs.save_pretrained(tmp_path)
    model = loaded(tmp_path)
    assert model.lm_head.data_ptr() == model.embedding.data_ptr()
    assert model.num_weight_bytes == 4 * sum(p.numel() for p in theirs.parameters())


def test_the_spec_counts_the_parameters_of_the_folder(tmp_path: Path) -> None:
    theirs = reference("Qwen2")
    theirs.save_pretrained(tmp_path)
    assert get_model(str(tmp_path)).num_parameters == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2'"),
        ({"attention_bias": True}, "attention_bias true"),
        ({"mlp_bias": True}, "mlp_bias true"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope scaling 'yarn'"),
        ({"num_hidden_layers": None}, "field 'num_hidden_layers' is missing"),
        ({"hidden_size": "64"}, "field 'hidden_size' is '64'"),
        ({"num_attention_heads": 0}, "field 'num_attention_heads' is 0"),
        ({"quantization_config": {"bits": 4}}, "quantized"),
    ],
)
def test_a_model_of_another_kind_is_refused_by_its_config(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    from tests.engine.checkpoint.making import SHAPE

    config = {"model_type": "llama", **SHAPE, **change}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        get_model(str(tmp_path))


def test_a_config_that_says_another_shape_than_its_weights_is_refused(tmp_path: Path) -> None:
    reference().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_key_value_heads": 4}), encoding="utf-8")
    with pytest.raises(InputError, match=r"k_proj.weight: has shape \[64, 64\], its model's is \[128, 64\]"):
        loaded(tmp_path)


def test_missing_tensors_broken_files_and_missing_weights_are_refused(tmp_path: Path) -> None:
    theirs = reference()
    theirs.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is no whole safetensors file"):
        loaded(tmp_path)
    file.unlink()
    with pytest.raises(InputError, match=r"neither model.safetensors nor"):
        loaded(tmp_path)
    state = {name: tensor for name, tensor in theirs.state_dict().items() if "1.mlp.up_proj" not in name}
    write_sharded(state, tmp_path, 2)
    with pytest.raises(InputError, match=r"tensor model.layers.1.mlp.up_proj.weight: is missing"):
        loaded(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(InputError, match=r"00002-of-00002.safetensors: is named by .* and missing"):
        loaded(tmp_path)


def test_a_path_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        get_model(str(tmp_path / "nothing"))
