"""The command `pagelab`.

Exit codes: 0 done; 1 done, and a comparison failed; 2 bad input or usage, with one line on standard error.
"""

import difflib
import os
import sys
from importlib import import_module

import click

from sim import InputError, __version__

# name -> (module, attribute): a command is imported when it is called, so that `--help` needs no torch
COMMANDS = {
    "simulate": ("app.commands.simulate", "simulate"),
    "measure": ("app.commands.measure", "measure"),
    "compare": ("app.commands.compare", "compare"),
    "sweep": ("app.commands.sweep", "sweep"),
    "capacity": ("app.commands.capacity", "capacity"),
    "trace": ("app.commands.trace", "trace"),
    "generate": ("app.commands.generate", "generate_command"),
    "model": ("app.commands.model", "model"),
    "calc": ("app.commands.calc", "calc"),
    "claims": ("app.commands.claims", "claims"),
    "paper": ("app.commands.paper", "paper"),
    "lessons": ("app.commands.lessons", "lessons"),
    "replay": ("app.commands.replay", "replay"),
    "quiz": ("app.commands.quiz", "quiz"),
    "class": ("app.commands.classroom", "classroom"),
    "bench": ("app.commands.bench", "bench"),
    "app": ("app.commands.serve", "app"),
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
        module, attribute = COMMANDS[cmd_name]
        return getattr(import_module(module), attribute)


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


def main() -> None:
    """Entry point of the `pagelab` script and of `python -m app`."""
    sys.exit(run())


def _refuse(message: str, code: int = 2) -> int:
    print(f"pagelab: {' '.join(message.split())}", file=sys.stderr)
    return code
