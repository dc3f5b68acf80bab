"""The formats that can be read, and how one is told from another by its first line."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.errors import InputError, unknown_name
from sim.trace import azure, bailian, burstgpt, length_only, mooncake, native, sharegpt, vidur
from sim.trace.fields import FieldError
from sim.trace.json_lines import parse_object
from sim.trace.reading import Reading, ReadOptions
from sim.trace.source import Source
from sim.trace.table import Column, has_column, header_cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format. A CSV format is told by `columns`, a JSON one by `keys`."""

    about: str
    read: Callable[[Source, ReadOptions], Reading]
    columns: tuple[Column, ...] = ()
    keys: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()  # fields of `ReadOptions` that it takes, beside the seed


# Of formats that fit a first line equally well, the one that stands first is taken.
FORMATS = {
    "native": Format(
        about="PageLab's own, JSON Lines: id, arrival, prompt, output and optional fields",
        read=native.read_native,
        keys=native.REQUIRED_KEYS,
    ),
    "azure": Format(
        about="Azure LLM inference 2023 and 2024, CSV: TIMESTAMP, ContextTokens, GeneratedTokens",
        read=azure.read_azure,
        columns=azure.COLUMNS,
    ),
    "burstgpt": Format(
        about="BurstGPT, CSV: Timestamp, Request tokens, Response tokens",
        read=burstgpt.read_burstgpt,
        columns=burstgpt.COLUMNS,
    ),
    "qwen-bailian": Format(
        about="Qwen-Bailian, JSON Lines: chats with hashes of 16-token blocks",
        read=bailian.read_bailian,
        keys=bailian.KEYS,
    ),
    "mooncake": Format(
        about="Mooncake, JSON Lines: timestamp (ms), lengths, hashes of 512-token blocks",
        read=mooncake.read_mooncake,
        keys=mooncake.KEYS,
        options=frozenset({"spread_s"}),
    ),
    "sharegpt": Format(
        about="ShareGPT, JSON: a list of conversations; token counts are estimated, arrivals generated",
        read=sharegpt.read_sharegpt,
        options=frozenset({"rate"}),
    ),
    "vidur": Format(
        about="vidur, CSV: arrived_at (s), num_prefill_tokens, num_decode_tokens",
        read=vidur.read_vidur,
        columns=vidur.COLUMNS,
    ),
    "lengths": Format(
        about="lengths only, CSV: num_prefill_tokens, num_decode_tokens; arrivals are generated",
        read=length_only.read_length_only,
        columns=(length_only.PROMPT, length_only.OUTPUT),
        options=frozenset({"rate"}),
    ),
}


def read_rows(source: Source, format: str | None, options: ReadOptions) -> Reading:
    """Read `source` in the format of this name, or in the one that its first line shows.

    Raises `InputError` for an unknown format, an option that the format does not take, and bad content.
    """
    source.first_line()
    name = format or detect(source)
    if name not in FORMATS:
        raise unknown_name("trace format", name, FORMATS)
    for option in ("rate", "spread_s"):
        if getattr(options, option) is not None and option not in FORMATS[name].options:
            takers = ", ".join(other for other, known in FORMATS.items() if option in known.options)
            raise InputError(f"{source.label}: {option} does not apply to format {name}; it is for {takers}")
    return FORMATS[name].read(source, options)


def detect(source: Source) -> str:
    """Name of the format that fits the first line best. Raises `InputError` when none fits at all."""
    number, line = source.first_line()
    if line.lstrip().startswith("["):
        return "sharegpt"
    if line.lstrip().startswith("{"):
        try:
            found = list(parse_object(line))
        except FieldError as error:
            raise source.error(error.problem, line=number, field=error.field) from None
        scores = {name: _share([key in found for key in known.keys]) for name, known in FORMATS.items()}
    else:
        found = header_cells(line)
        scores = {
            name: _share([has_column(found, column) for column in known.columns])
            for name, known in FORMATS.items()
        }
    best = max(scores, key=lambda name: scores[name])
    if not scores[best]:
        names = ", ".join(found)[:100]
        raise source.error(f"{names!r} fits no known format ({', '.join(FORMATS)})", line=number)
    return best


def _share(present: list[bool]) -> float:
    return sum(present) / len(present) if present else 0.0
