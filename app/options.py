"""Command-line options made from `sim.Config`: one option a field, with its help and its choices."""

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from typing import Any

import click

from sim import Config, InputError, Trace
from sim.errors import unknown_name
from sim.fleet import Fleet
from sim.presets import PRESETS
from sim.scopes import applies
from sim.trace import TraceChoice

Command = Callable[..., Any]


def config_options(
    *,
    only: Iterable[str] | None = None,
    skip: Iterable[str] = (),
    of: type[Any] = Config,
    repeatable: bool = False,
    usual: Mapping[str, str] | None = None,
) -> Callable[[Command], Command]:
    """Adds an option for each field of `Config` (or `of`); one that is not given is passed as None.

    With `repeatable` all but flags may be given several times, and are passed as a tuple. `usual` is what
    help calls the default where the command has one of its own.
    """

    def decorate(command: Command) -> Command:
        hints = typing.get_type_hints(of)
        chosen = [f for f in fields(of) if (only is None or f.name in only) and f.name not in skip]
        for item in reversed(chosen):
            given = usual.get(item.name) if usual else None
            command = _option(item, hints[item.name], repeatable=repeatable, usual=given)(command)
        return command

    return decorate


def _option(
    item: Field[Any], hint: Any, *, repeatable: bool, usual: str | None
) -> Callable[[Command], Command]:
    flag = "--" + item.name.replace("_", "-")
    help_text = describe(item, usual)
    if hint is bool:
        return click.option(flag, item.name, is_flag=True, default=None, help=help_text)
    kind = next(kind for kind in (typing.get_args(hint) or (hint,)) if kind is not types.NoneType)
    more: dict[str, Any] = {"multiple": True} if repeatable else {"default": None}
    if typing.get_origin(kind) is tuple:
        kind, more = typing.get_args(kind), {**more, "metavar": "T0 T1"}
    return click.option(flag, item.name, type=kind, help=help_text, **more)


def describe(item: Field[Any], usual: str | None = None) -> str:
    """Help of one dial: what it is, its unit, its choices and its default (`usual`, or the field's own)."""
    choices = item.metadata["choices"]
    parts = [item.metadata["help"]]
    if item.metadata["unit"]:
        parts.append(f"[{item.metadata['unit']}]")
    if choices:
        parts.append(f"({' | '.join(choices())})")
    default = usual or item.default
    if default not in (None, False):
        parts.append(f"(default {default})")
    return " ".join(parts)


def preset_option(command: Command) -> Command:
    """Adds `--preset`, which gives other options their defaults; one that is given itself wins."""

    def take(context: click.Context, _: click.Parameter, name: str | None) -> None:
        if name is None:
            return
        if name not in PRESETS:
            raise unknown_name("preset", name, PRESETS)
        dials = dict(PRESETS[name])
        context.default_map = {"allocators": (dials.pop("allocator"),), **dials}

    return click.option(
        "--preset",
        callback=take,
        is_eager=True,
        expose_value=False,
        help=f"the policy of a known server ({' | '.join(PRESETS)}); options beside it win",
    )(command)


def fleet_options(command: Command) -> Command:
    """Adds the dials of several replicas behind a router."""
    return config_options(of=Fleet)(command)


def take_fleet(options: dict[str, Any]) -> Fleet | None:
    """Removes from `options` what `fleet_options` added; None when no fleet was asked for."""
    given = {item.name: options.pop(item.name) for item in fields(Fleet)}
    given = {name: value for name, value in given.items() if value is not None}
    if "router" in given and "replicas" not in given:
        raise InputError(
            f"--router {given['router']} without --replicas: a single server needs no router; "
            "add --replicas 2"
        )
    return Fleet(**given) if given else None


def trace_options(command: Command) -> Command:
    """Adds TRACE and the options that cut or scale it."""
    command = config_options(of=TraceChoice, skip=("trace",))(command)
    return click.argument("trace", metavar="TRACE")(command)


def output_options(command: Command) -> Command:
    """Adds what a run may write, and where."""
    decorators = [
        click.option(
            "--json", "as_json", is_flag=True, help="one JSON document on standard output, nothing else"
        ),
        click.option(
            "--events",
            type=click.Path(dir_okay=False),
            help="write the event log as it comes, one JSON object a line; - is standard output, .parquet is "
            "columns",
        ),
        click.option(
            "--chrome-trace",
            type=click.Path(dir_okay=False),
            help="write spans, counters and reasons as one JSON file that Perfetto opens",
        ),
        click.option(
            "--series", type=click.Path(dir_okay=False), help="write one row a step: CSV, or .parquet"
        ),
        click.option(
            "--per-request", type=click.Path(dir_okay=False), help="write one row a request: CSV, or .parquet"
        ),
        click.option(
            "--prometheus",
            type=click.Path(dir_okay=False),
            help="write gauges a step and histograms as OpenMetrics text, under vLLM's names",
        ),
        click.option(
            "--out", type=click.Path(file_okay=False), help="folder for report.html, report.json and plots"
        ),
        click.option("--quiet", is_flag=True, help="no progress, no table"),
        click.option(
            "--check",
            is_flag=True,
            help="hold every event against the numbered invariants of sim/invariants.py",
        ),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def take_trace(options: dict[str, Any]) -> Trace:
    """Removes from `options` what `trace_options` added and returns the trace they ask for."""
    return take_choice(options).read(options.get("seed") or 0)


def take_choice(options: dict[str, Any]) -> TraceChoice:
    """Removes from `options` what `trace_options` added: which trace, and what is cut from it."""
    return TraceChoice(**{item.name: options.pop(item.name) for item in fields(TraceChoice)})


def make_config(given: dict[str, Any], **defaults: Any) -> Config:
    """A config of the options that were given, over `defaults`, over `Config`'s own."""
    return Config(**{**defaults, **{name: value for name, value in given.items() if value is not None}})


def make_configs(allocators: Iterable[str], given: dict[str, Any], **defaults: Any) -> list[Config]:
    """One config for each allocator, all from the same options.

    An option goes to the allocators that have a use for it. Where none of them has, it goes to all, so that
    `Config` refuses it and says why.
    """
    names = list(allocators)
    useless = [option for option in given if not any(applies(option, name) for name in names)]
    configs = [
        make_config(
            {option: value for option, value in given.items() if option in useless or applies(option, name)},
            allocator=name,
            **defaults,
        )
        for name in names
    ]
    if given.get("hardware") is not None and all(config.timing != "roofline" for config in configs):
        raise InputError(
            f"--hardware {given['hardware']} with --timing {configs[0].timing}: only roofline asks what a "
            "device can do; drop one of them"
        )
    return configs
