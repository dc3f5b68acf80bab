"""The command `pagelab`.

Exit codes: 0 done; 1 done, and a comparison failed; 2 bad input or usage, with one line on standard error.
"""

import difflib
import os
import sys
from importlib import import_module
from io import TextIOWrapper

import click

from sim import InputError, __version__
from sim.errors import one_line
from sim.files import reason

# name -> where it is below app.commands, what it does. Imported when it is called: the list needs no torch.
COMMANDS = {
    "simulate": ("simulate.simulate", "simulate a trace under one or more allocators"),
    "measure": ("measure.measure", "execute a trace with real tensors and measure its memory"),
    "compare": ("compare.compare", "simulate and execute a trace, and compare the two"),
    "sweep": ("sweep.sweep", "simulate many configurations, one durable row each"),
    "capacity": ("capacity.capacity", "the highest rate that meets a latency target"),
    "trace": ("trace.trace", "list, inspect and convert request traces"),
    "generate": ("generate.generate_command", "let a real model answer prompts"),
    "model": ("model.model", "fetch a real model, or list the known ones"),
    "kv-events": ("kv_events.kv_events", "show what a vLLM server cached, from its KV-cache events"),
    "calc": ("calc.calc", "bytes, blocks and slots of a model's KV cache"),
    "claims": ("claims.claims", "check what two documents state about paging"),
    "paper": ("paper.paper", "reproduce figures of the PagedAttention paper"),
    "lessons": ("lessons.lessons", "list the lessons, or open one in Jupyter"),
    "replay": ("replay.replay", "a recorded run as one offline page"),
    "quiz": ("quiz.quiz", "print questions about a run, for a class"),
    "class": ("classroom.classroom", "gather the results of a class"),
    "bench": ("bench.bench", "measure this machine"),
    "app": ("serve.app", "serve the visualizer in the browser"),
}


class LazyGroup(click.Group):
    """Loads a command on first use and answers a wrong name with the nearest right one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; UsageError for an unknown one."""
        if cmd_name not in COMMANDS:
            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise click.UsageError(f"no command {cmd_name!r}: {hint}there are {', '.join(COMMANDS)}")
        module, _, attribute = COMMANDS[cmd_name][0].partition(".")
        return getattr(import_module(f"app.commands.{module}"), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in COMMANDS.items()])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="pagelab")
def cli() -> None:
    """Learn and measure how LLM servers manage KV-cache memory.

    TRACE is a path, `-` for standard input, or the name of a built-in (`pagelab trace list`).
    """


def run(arguments: list[str] | None = None) -> int:
    """Runs one command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):  # a file's name, or a terminal, may be no UTF-8
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        return cli.main(arguments, prog_name="pagelab", standalone_mode=False) or 0
    except InputError as error:
        return _refuse(str(error))
    except click.ClickException as error:
        return _refuse(error.format_message())
    except click.exceptions.Abort as abort:
        return _refuse(str(abort) or "interrupted", code=130)
    except AssertionError as error:
        return _refuse(f"a fault of ours, please report it: {error}", code=1)
    except BrokenPipeError:
        # The reader (`| head`) has gone; Python must not complain about it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of a file that nobody expected to fail: it says itself what is wrong
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{where}{reason(error)}; the results are not complete")
    except MemoryError:
        return _refuse("out of memory: take fewer requests (--first N), or write no --events and no --out")


def main() -> None:
    """Entry point of the `pagelab` script and of `python -m app`."""
    sys.exit(run())


def _refuse(message: str, code: int = 2) -> int:
    print(f"pagelab: {one_line(message)}", file=sys.stderr)
    return code
