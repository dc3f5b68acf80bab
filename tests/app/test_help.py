"""Help that says where to look."""

import click
import pytest
from click.testing import CliRunner

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


def test_every_name_in_a_section_is_an_option_of_some_command():
    known = {name_of(o) for c in COMMANDS for o in c.params if isinstance(o, click.Option)}
    named = [name for names in SECTIONS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) == known | {"help"}
