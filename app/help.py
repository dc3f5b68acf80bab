"""Help by sections: sixty options in one list tell nobody where to look."""

import click

SECTIONS = {
    "The trace": (
        "format", "rate", "spread", "first", "rate-scale", "max-total", "between", "stream", "requests",
    ),
    "The pool, and who holds what of it": (
        "allocator", "pool-tokens", "pool-blocks", "memory", "block-size", "max-len", "placement", "growth",
        "size-classes", "large-block-size", "page-size", "compaction", "table",
    ),
    "Model and machine": (
        "model", "kv-dtype", "hardware", "tensor-parallel", "timing", "clock", "backend", "graphs",
        "device", "with", "seed",
    ),
    "Who runs when": (
        "preset", "batching", "step-rule", "max-seqs", "max-batch-tokens", "chunked-prefill", "watermark",
    ),
    "When memory runs short": ("preempt", "victim", "swap-blocks", "link"),
    "What is shared, forgotten or guessed": (
        "prefix-cache", "eviction", "window", "sinks", "keep-recent", "keep-heavy", "speculate", "accept",
    ),
    "What is swept, and who does the work": (
        "plan", "processes", "workers", "scheduler", "memory-limit", "retry",
    ),
    "What must be met, and what it costs": ("target", "price-per-hour", "power"),
    "Several servers": ("replicas", "router", "borrow"),
    "What is written": (
        "json", "events", "series", "per-request", "chrome-trace", "prometheus", "out",
        "quiet", "check", "step-by-step", "help",
    ),
}  # fmt: skip


class SectionedCommand(click.Command):
    """A command whose help lists its options by `SECTIONS`; those of no section come first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {name_of(option): option.get_help_record(ctx) for option in options}
        left = {name: record for name, record in records.items() if record is not None}
        sections = {
            title: [left.pop(name) for name in names if name in left] for title, names in SECTIONS.items()
        }
        for title, rows in {"Options": list(left.values()), **sections}.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def name_of(option: click.Option) -> str:
    """The option's long name without its dashes."""
    return max(option.opts, key=len).removeprefix("--")
