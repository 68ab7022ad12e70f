"""The layout of help pages: a summary, usage, grouped options, examples."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from safetyd.operators.contract.question import Call
    from safetyd.operators.replies import Done

_split_examples = re.compile(r"^(?:For example|Examples):\n", re.MULTILINE).split


# Options that make a command do more. They are never suggested for a mistyped option.
_WIDENS: Final = frozenset({"--all", "--auto", "--force", "--grant", "--now", "--program", "--yes"})


class SectionOption(click.Option):
    """An option that the help lists under the heading `section`."""

    def __init__(self, *args: Any, section: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.section = section


class Command(click.Command):
    """A command. Its help is its docstring, with the examples at the end of the page.

    If the command sends a message to the daemon (`sends`), its help begins with the summary of that
    message. Options in `widens` are never suggested for a mistyped option.
    """

    def __init__(
        self,
        *args: Any,
        sends: "type[Call[Done]] | None" = None,
        widens: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        about = inspect.cleandoc(settings.pop("help", None) or "")
        text, *rest = _split_examples(about, maxsplit=1)
        examples = "".join(rest)
        if sends is not None:
            # Imported only here, so that the list of commands is shown quickly.
            from safetyd.operators.contract.question import summary_of  # noqa: PLC0415

            text = f"{summary_of(sends)}\n\n{text}"
        settings |= {"help": text.strip(), "options_metavar": "[options]"}
        super().__init__(*args, **settings)
        self.sends = sends
        self._widens = {*_WIDENS, *widens}
        self.examples = inspect.cleandoc(examples).splitlines()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as exc:
            # A user in a hurry may run a suggestion without thinking about it.
            near = sorted({*(exc.possibilities or ())} - self._widens)
            raise click.NoSuchOption(exc.option_name, possibilities=near, ctx=exc.ctx) from None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_text(self.help or "")
        with formatter.section("Usage"):
            formatter.write_text(" ".join((ctx.command_path, *self.collect_usage_pieces(ctx))))
        self.format_options(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}".rstrip() + "\n" for line in self.examples))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and record[1]:
                sections.setdefault(_section(parameter), []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _section(parameter: click.Parameter) -> str:
    if isinstance(parameter, SectionOption):
        return parameter.section
    return "Arguments" if isinstance(parameter, click.Argument) else "Options"


class Group(Command, click.Group):
    """A command with subcommands."""

    command_class = Command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def command(
    name: str | None = None,
    *,
    sends: "type[Call[Done]] | None" = None,
    widens: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command."""
    return click.command(name, cls=Command, sends=sends, widens=widens)


def group(
    *, sends: "type[Call[Done]] | None" = None, invoke_without_command: bool = False
) -> Callable[[Callable[..., Any]], Group]:
    """Return a decorator that makes a function a group of commands."""
    return click.group(cls=Group, sends=sends, invoke_without_command=invoke_without_command)
