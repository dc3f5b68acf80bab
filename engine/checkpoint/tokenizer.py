"""Text to token ids and back, with the `tokenizers` library: by `tokenizer.json`, or by what a GGUF says.

A GGUF file carries vocabulary, merges and the name of the rule that splits text before merging; the rules
known here are those of byte-level BPE models (GPT-2, SmolLM, Llama 3, Qwen2).
"""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from sim.errors import InputError
from sim.gguf_file import QuickReader, field, take
from sim.json_file import read_object

# How each kind of model splits text into words, as regular expressions in its published tokenizer.json.
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CONTROL, USER_DEFINED = 3, 4  # token types of GGUF that are never split


def tokenizer_of_folder(folder: Path) -> Tokenizer:
    """Of `tokenizer.json`. Raises InputError where it is missing or broken."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path}: is missing; text needs it (`measure` and `compare` run without)")
    _check_merges_of(path)
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001  the library raises plain Exception
        raise InputError(f"{path}: is no tokenizer ({error})") from None


def tokenizer_of_gguf(path: Path, reader: QuickReader) -> Tokenizer:
    """Of a GGUF file's vocabulary. Raises InputError for a kind that is not byte-level BPE."""
    kind = take(path, reader, "tokenizer.ggml.model")
    if kind != "gpt2":
        raise InputError(
            f"{path}: its tokenizer is of kind {kind!r}, only byte-level BPE ('gpt2') is read from GGUF; use "
            "the model's folder with tokenizer.json"
        )
    tokens = _texts(path, reader, "tokenizer.ggml.tokens")
    merges = _texts(path, reader, "tokenizer.ggml.merges")
    vocab = {token: index for index, token in enumerate(tokens)}
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    _check_merges(path, vocab, pairs)
    try:
        tokenizer = Tokenizer(models.BPE(vocab, pairs))
    except Exception as error:  # noqa: BLE001  the library raises plain Exception
        raise InputError(f"{path}: its tokenizer is damaged ({error})") from None
    tokenizer.pre_tokenizer = _splitter(path, field(reader, "tokenizer.ggml.pre", "default"))
    tokenizer.decoder = decoders.ByteLevel()
    types: Any = field(reader, "tokenizer.ggml.token_type", [])
    if not isinstance(types, list):
        raise InputError(f"{path}: field tokenizer.ggml.token_type must be a list of numbers")
    whole = [token for token, type in zip(tokens, types, strict=False) if type in (CONTROL, USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in whole])
    return tokenizer


def _check_merges_of(path: Path) -> None:
    """`_check_merges` for `tokenizer.json`; everything else in it the library checks itself."""
    model: Any = read_object(path).get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        return
    vocab: Any = model.get("vocab")
    merges: Any = model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise InputError(f"{path}: is no tokenizer: its BPE model needs a vocab and merges")
    pairs = [tuple(merge.split(" ", 1)) if isinstance(merge, str) else merge for merge in merges]
    for pair in pairs:
        if (
            not isinstance(pair, (list, tuple))
            or len(pair) != 2
            or not all(isinstance(part, str) for part in pair)
        ):
            raise InputError(f"{path}: is no tokenizer: merge {str(pair)[:40]!r} must be two texts")
    if model.get("continuing_subword_prefix") not in (None, ""):
        raise InputError(f"{path}: continuing_subword_prefix is not known here; byte-level BPE has none")
    _check_merges(path, vocab, pairs)


def _check_merges(path: Path, vocab: Container[str], pairs: Iterable[Sequence[str]]) -> None:
    """Raises InputError for a merge of tokens that are not there: at some the library's Rust panics."""
    for left, right in pairs:
        if left not in vocab or right not in vocab or left + right not in vocab:
            raise InputError(
                f"{path}: is no whole tokenizer: merge {left!r} {right!r} is not in its vocabulary"
            )


def _texts(path: Path, reader: QuickReader, name: str) -> list[str]:
    texts: Any = take(path, reader, name)
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return texts
    raise InputError(f"{path}: field {name} must be a list of texts")


def _splitter(path: Path, rule: str) -> Any:
    split = {"llama-bpe": _LLAMA3, "llama3": _LLAMA3, "qwen2": _QWEN2}.get(rule)
    if split is not None:
        first: Any = pre_tokenizers.Split(Regex(split), "isolated")
        return pre_tokenizers.Sequence(
            [first, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
    if rule == "smollm":
        first = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([first, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    if rule in ("gpt-2", "default"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    raise InputError(
        f"{path}: splits text by the rule {rule!r}, which is not known here; use the model's folder"
    )
