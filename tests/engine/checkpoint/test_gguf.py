"""GGUF files written by the `gguf` library: weights, tokenizer, refusals."""

from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, dequantize, quantize

from engine.checkpoint import text_side
from sim import InputError
from sim.gguf_file import open_gguf
from sim.models import get_model
from tests.engine.checkpoint.making import (
    SHAPE,
    loaded,
    permute,
    reference,
    reference_logits,
    served_logits,
    write_gguf,
)

IDS = [5, 60, 3, 3, 77, 12, 90, 1, 44, 8, 19, 63, 27, 31, 50, 2, 71]


@pytest.mark.parametrize("tied", [False, True])
def test_logits_equal_those_of_transformers_on_the_same_weights(tied: bool, tmp_path: Path) -> None:
    theirs, path = reference(tie_word_embeddings=tied), tmp_path / "tiny.gguf"
    state = dict(theirs.state_dict())
    if tied:
        del state["lm_head.weight"]
    write_gguf(state, path)
    torch.testing.assert_close(
        served_logits(loaded(path), IDS), reference_logits(theirs, IDS), rtol=1e-4, atol=1e-4
    )


def test_qwen2_has_biases_and_no_permuted_rows(tmp_path: Path) -> None:
    theirs, path = reference("Qwen2"), tmp_path / "tiny.gguf"
    write_gguf(dict(theirs.state_dict()), path, arch="qwen2")
    torch.testing.assert_close(
        served_logits(loaded(path), IDS), reference_logits(theirs, IDS), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_1"])
def test_quantized_weights_are_those_that_the_library_dequantizes(kind: str, tmp_path: Path) -> None:
    theirs, path = reference(), tmp_path / "tiny.gguf"
    quantization = GGMLQuantizationType[kind]
    write_gguf(dict(theirs.state_dict()), path, quantization)
    for parameter in theirs.parameters():
        if parameter.dim() == 2:  # rows are quantized one by one: their order changes nothing
            values = dequantize(quantize(parameter.detach().numpy(), quantization), quantization)
            parameter.data = torch.from_numpy(values).float()
    torch.testing.assert_close(
        served_logits(loaded(path), IDS), reference_logits(theirs, IDS), rtol=1e-4, atol=1e-4
    )


def test_the_spec_is_that_of_the_file(tmp_path: Path) -> None:
    theirs, path = reference(), tmp_path / "tiny.gguf"
    write_gguf(dict(theirs.state_dict()), path)
    spec = get_model(str(path))
    assert (spec.name, spec.num_heads, spec.num_kv_heads, spec.head_dim) == ("tiny", 4, 2, 32)
    assert (spec.rms_epsilon, spec.rope_base, spec.vocab) == (1e-3, 500.0, SHAPE["vocab_size"])
    assert spec.num_parameters == sum(parameter.numel() for parameter in theirs.parameters())


def test_a_quick_reader_reads_what_the_librarys_own_reads(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(dict(reference().state_dict()), path)
    quick, slow = open_gguf(path), GGUFReader(path)
    assert list(quick.fields) == list(slow.fields)
    for name, field in slow.fields.items():
        assert quick.fields[name].contents() == field.contents(), name
    for one, other in zip(quick.tensors, slow.tensors, strict=True):
        assert one.name == other.name
        assert (one.data == other.data).all()


def test_its_tokenizer_merges_spells_and_leaves_special_tokens_whole(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(
        dict(reference().state_dict()), path, tokenizer__chat_template="<|begin|>{{ messages[0].content }}"
    )
    text = text_side(path)
    the, space_the, digit = 31, 32, 33
    assert text.encode("the the12") == [the, space_the, digit + 1, digit + 2]
    assert text.decode([the, space_the, 2]) == "the the"
    assert text.end_ids == {2}
    assert text.encode_chat("the") == [1, the]


def test_a_chat_template_reaches_nothing_but_text(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    escape = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    write_gguf(dict(reference().state_dict()), path, tokenizer__chat_template=escape)
    with pytest.raises(InputError, match="chat template fails"):
        text_side(path).encode_chat("the")


def test_permuted_rows_are_interleaved_halves() -> None:
    assert permute(torch.arange(8), 1).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_what_is_no_model_of_ours_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"not a gguf file")
    with pytest.raises(InputError, match="cannot be read as GGUF"):
        get_model(str(path))
    state = dict(reference().state_dict())
    write_gguf(state, path, arch="gpt2")
    with pytest.raises(InputError, match="architecture 'gpt2'"):
        get_model(str(path))
    write_gguf(state, path, llama__rope__scaling__type="yarn")
    with pytest.raises(InputError, match="stretched rotary positions"):
        get_model(str(path))
    write_gguf(state, path, tokenizer=False, tokenizer__ggml__model="llama", tokenizer__ggml__eos="x")
    with pytest.raises(InputError, match="names no end token"):
        text_side(path)
