"""The help of every command: its sections, and examples that can be typed."""

import shlex
from collections.abc import Iterator

import click
import pytest

from safetyd.console.cli import commands
from safetyd.console.help_page import Command
from tests.console.console_rig import here

COLUMNS = 80


def typed(command: Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    """Yield a context for a command and everything below it."""
    context = click.Context(
        command, parent=parent, info_name=name, terminal_width=COLUMNS, **command.context_settings
    )
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert isinstance(found, Command), f"{context.command_path} {below}"
            yield from typed(found, context, below)


CONTEXTS = {context.command_path: context for context in typed(commands, None, "safetyd")}
EXAMPLES = [
    line
    for context in CONTEXTS.values()
    if isinstance(context.command, Command)
    for line in context.command.examples
    if "safetyd " in line
]


def test_examples_of_every_command_have_a_line_each():
    run_together = [
        path for path, context in CONTEXTS.items() if "Examples:" in (context.command.help or "")
    ]

    assert run_together == []


def test_an_option_that_widens_the_effect_is_never_suggested():
    assert "'--agent'" not in here("deny", "--agen", "x").stderr
    assert "'--grant'" not in here("approve", "req_1", "--grnt").stderr
    assert "'--yes'" not in here("deny", "--ye").stderr
    assert "'--agent'" in here("stop", "--agen", "x").stderr


def words_of(line: str) -> list[str]:
    """Return the arguments of `safetyd` in a line for a shell."""
    words = shlex.split(line[line.index("safetyd ") :], comments=True)
    ends = [words.index(sign) for sign in ("|", ">", "&&") if sign in words]
    return words[1 : min(ends, default=len(words))]


@pytest.mark.parametrize("path", CONTEXTS)
def test_help_fits_80_columns_and_starts_with_a_sentence(path: str) -> None:
    lines = CONTEXTS[path].get_help().splitlines()

    assert [line for line in lines if len(line) > COLUMNS] == []
    assert lines[0][0].isupper()
    assert "Usage:" in lines
    assert any(line.startswith(f"  {path}") for line in lines)


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_can_be_typed(line: str) -> None:
    command: click.Command = commands
    context, words = None, words_of(line)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        context = click.Context(command, parent=context, **command.context_settings)
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found

    with command.make_context("safetyd", words, context):
        pass


def test_options_have_sections_and_examples_come_last() -> None:
    said = here("approve", "--help").stdout

    sections = ("Usage", "Arguments", "Options", "Grant", "Connection", "Examples")
    places = [said.index(f"\n{section}:\n") for section in sections]
    assert places == sorted(places)
    assert "For example" not in said


@pytest.mark.parametrize("path", CONTEXTS)
def test_examples_are_not_part_of_the_text(path: str) -> None:
    command = CONTEXTS[path].command

    assert "  safetyd " not in (command.help or "")
    assert "Examples:" not in (command.help or "")
