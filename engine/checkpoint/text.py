"""What a model needs beside its weights to speak: tokenizer, end tokens, and how a chat is written."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from engine.checkpoint.tokenizer import tokenizer_of_folder, tokenizer_of_gguf
from sim.errors import InputError
from sim.gguf_file import field, open_gguf
from sim.json_file import read_object

ENDS = ("eos", "eot", "eom")  # GGUF's names of tokens after which a model is silent


@dataclass(frozen=True, kw_only=True)
class TextSide:
    """Turns prompts into token ids, and token ids into text."""

    tokenizer: Tokenizer
    end_ids: frozenset[int]  # tokens after which nothing is emitted
    begin_id: int | None  # what a plain prompt starts with, if its model wants that
    chat_template: str | None  # Jinja

    def encode(self, prompt: str) -> list[int]:
        """Ids of a plain text. Raises InputError for an empty one."""
        ids = self.tokenizer.encode(prompt, add_special_tokens=False).ids
        if self.begin_id is not None and ids[:1] != [self.begin_id]:
            ids = [self.begin_id, *ids]
        if not ids:
            raise InputError("empty prompt: a model needs at least one token to go on from")
        return ids

    def encode_chat(self, prompt: str, system: str | None = None) -> list[int]:
        """Ids of a conversation of one message, up to where the model's answer begins.

        Raises InputError when the model has no chat template.
        """
        if self.chat_template is None:
            raise InputError("this model has no chat template, it completes plain text: use --plain")
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        text = self._render(messages)
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: list[int]) -> str:
        """The text of `ids`, without special tokens."""
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def _render(self, messages: list[dict[str, str]]) -> str:
        # A template comes with the model's files: it may compute text, and reach nothing else.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            template = environment.from_string(self.chat_template or "")
            return template.render(messages=messages, add_generation_prompt=True, **self._special_tokens())
        except Exception as error:  # noqa: BLE001  the template is a program of the model's: it fails as it likes
            raise InputError(f"the model's chat template fails: {error}; use --plain") from None

    def _special_tokens(self) -> dict[str, str]:
        begin = None if self.begin_id is None else self.tokenizer.id_to_token(self.begin_id)
        return {"bos_token": begin or "", "eos_token": self.tokenizer.id_to_token(min(self.end_ids)) or ""}


def _raise(message: str) -> None:
    raise TemplateError(message)


def text_side(path: Path) -> TextSide:
    """Of the model in a folder or a GGUF file. Raises InputError for what is missing or not known."""
    return _of_folder(path) if path.is_dir() else _of_gguf(path)


def _of_gguf(path: Path) -> TextSide:
    reader = open_gguf(path)
    ids = {name: field(reader, f"tokenizer.ggml.{name}_token_id", None) for name in (*ENDS, "bos")}
    if all(ids[name] is None for name in ENDS):
        raise InputError(f"{path}: names no end token (tokenizer.ggml.eos_token_id)")
    tokenizer = tokenizer_of_gguf(path, reader)
    for name, one in ids.items():
        if one is not None and not _is_id(tokenizer, one):
            raise InputError(f"{path}: field tokenizer.ggml.{name}_token_id is {one!r}, which is no token")
    template = field(reader, "tokenizer.chat_template", None)
    return TextSide(
        tokenizer=tokenizer,
        end_ids=frozenset({ids[name] for name in ENDS} - {None}),
        begin_id=ids["bos"] if field(reader, "tokenizer.ggml.add_bos_token", False) else None,
        chat_template=template if _is_text(template) else None,
    )


def _of_folder(folder: Path) -> TextSide:
    tokenizer = tokenizer_of_folder(folder)
    settings = _json(folder / "tokenizer_config.json")
    config = {**_json(folder / "config.json"), **_json(folder / "generation_config.json")}
    end = config.get("eos_token_id")
    known = [*(end if isinstance(end, list) else [end]), _id(tokenizer, settings.get("eos_token"))]
    ends = {one for one in known if _is_id(tokenizer, one)}
    if not ends:
        raise InputError(f"{folder}: neither generation_config.json nor config.json names an eos_token_id")
    return TextSide(
        tokenizer=tokenizer,
        end_ids=frozenset(ends),
        begin_id=_begin_id(tokenizer),
        chat_template=_chat_template(folder, settings),
    )


def _chat_template(folder: Path, settings: dict[str, Any]) -> str | None:
    """Of a file of its own, or of `tokenizer_config.json`; None where there is none."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8", errors="replace")
    template = settings.get("chat_template")
    if template is None or _is_text(template):
        return template
    raise InputError(f"{folder / 'tokenizer_config.json'}: chat_template must be one text")


def _begin_id(tokenizer: Tokenizer) -> int | None:
    """What `tokenizer.json` itself puts before every text: it encodes nothing to just that."""
    ids = tokenizer.encode("", add_special_tokens=True).ids
    return ids[0] if ids else None


def _id(tokenizer: Tokenizer, token: Any) -> int | None:
    text = token.get("content") if isinstance(token, dict) else token
    return tokenizer.token_to_id(text) if text and _is_text(text) else None


def _is_id(tokenizer: Tokenizer, value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 2**32 and tokenizer.id_to_token(value) is not None


def _is_text(value: object) -> bool:
    """JSON can hold half a surrogate pair, which is no text that the tokenizer takes."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _json(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}
