"""Help that says where to look."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from app.cli import COMMANDS as LISTED
from app.commands.capacity import capacity
from app.commands.compare import compare
from app.commands.measure import measure
from app.commands.simulate import simulate
from app.commands.sweep import sweep
from app.help import SECTIONS, name_of

COMMANDS = (simulate, compare, measure, sweep, capacity)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_stands_in_a_section(command: click.Command):
    text = CliRunner().invoke(command, ["--help"]).output
    assert "\nOptions:" not in text
    for option in command.params:
        if isinstance(option, click.Option):
            assert text.count(f"\n  --{name_of(option)} ") == 1


def test_the_list_of_commands_imports_none_of_them():
    """Else a glance at it would wait for PyTorch."""
    look = (
        "import sys; from app.cli import run; run(['--help']); "
        "print([name for name in sys.modules if name == 'torch' or name.startswith('app.commands.')])"
    )
    said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
    assert all(f"\n  {name} " in said for name in LISTED)
    assert said.endswith("\n[]\n")


def test_every_name_in_a_section_is_an_option_of_some_command():
    known = {name_of(o) for c in COMMANDS for o in c.params if isinstance(o, click.Option)}
    named = [name for names in SECTIONS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) == known | {"help"}
