"""`safetyd completion`: shell completion of commands and options.

To be fast, completion imports no command. It reads completions.json, which docs/generate.py
generates from the commands.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from safetyd.console.help_page import command

TABLE: Final = Path(__file__).with_name("completions.json")
ENDING: Final = "_COMPLETE"

_SHELLS: Final[Mapping[str, type[ShellComplete]]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}

Node = Mapping[str, Any]
Items = list[CompletionItem[str]]


@command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Generate a shell completion script.

    For example:
      safetyd completion bash > ~/.local/share/bash-completion/completions/safetyd
      safetyd completion zsh > "${fpath[1]}/_safetyd"
      safetyd completion fish > ~/.config/fish/completions/safetyd.fish
    """
    root = click.get_current_context().find_root()
    name = root.info_name or "safetyd"
    made = _SHELLS[shell](root.command, {}, name, f"_{name.upper()}{ENDING}")
    # `BashComplete.source` would start bash to find out its version.
    click.echo(ShellComplete.source(made))


def register() -> None:
    """Make click complete from completions.json."""
    for kind in _SHELLS.values():
        add_completion_class(type(kind.__name__, (_FromTable, kind), {}), kind.name)


class _FromTable(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> Items:
        return list(following(json.loads(TABLE.read_text()), args, incomplete))


def following(root: Node, words: Sequence[str], begun: str) -> Iterator[CompletionItem[str]]:
    """Yield the completions of `begun`, the unfinished word after `words`."""
    node, option, arguments = _walk(root, words)
    if option is not None:
        yield from _values(option, begun)
    elif begun.startswith("-"):
        yield from _named(_options(node), begun)
    elif commands := _commands(node):
        yield from _named(commands, begun)
    elif arguments < len(expected := node.get("arguments", ())):
        yield from _values(expected[arguments], begun)


def _walk(root: Node, words: Sequence[str]) -> tuple[Node, Node | None, int]:
    """Return the command, the option that needs a value (or None), and the argument count."""
    node, option, arguments = root, None, 0
    for word in words:
        if option is not None:
            option = None
        elif word in _options(node):
            found = node["options"][word]
            option = found if found.get("value") else None
        elif word in _commands(node):
            node, arguments = node["commands"][word], 0
        elif not word.startswith("-"):
            arguments += 1
    return node, option, arguments


def _options(node: Node) -> Node:
    options: Node = node.get("options", {})
    return options


def _commands(node: Node) -> Node:
    commands: Node = node.get("commands", {})
    return commands


def _named(said: Node, begun: str) -> Iterator[CompletionItem[str]]:
    for name, one in said.items():
        if name.startswith(begun):
            yield CompletionItem(name, help=one.get("help"))


def _values(parameter: Node, begun: str) -> Iterator[CompletionItem[str]]:
    if parameter.get("files"):
        yield CompletionItem(begun, type="file")
    yield from _named({name: {} for name in parameter.get("choices", ())}, begun)


def table(root: click.Group) -> str:
    """Return the contents of completions.json for a group of commands."""
    context = click.Context(root, info_name="safetyd", **root.context_settings)
    return json.dumps(_node(root, context), indent=1) + "\n"


def _node(command: click.Command, context: click.Context) -> Node:
    shown = [parameter for parameter in command.get_params(context) if _is_shown(parameter)]
    options = [one for one in shown if isinstance(one, click.Option)]
    return _some(
        help=command.get_short_help_str(limit=100),
        options={name: _option(one) for one in options for name in _names(one)},
        arguments=[_value(one) for one in shown if isinstance(one, click.Argument)],
        commands=dict(_below(command, context)),
    )


def _below(command: click.Command, context: click.Context) -> Iterator[tuple[str, Node]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield name, _node(found, click.Context(found, parent=context, info_name=name))


def _is_shown(parameter: click.Parameter) -> bool:
    return not getattr(parameter, "hidden", False)


def _names(option: click.Option) -> tuple[str, ...]:
    return (*option.opts, *option.secondary_opts)


def _option(option: click.Option) -> Node:
    return _some(help=option.help, value=not option.is_flag, **_value(option))


def _value(parameter: click.Parameter) -> dict[str, object]:
    kind = parameter.type
    choices = list(map(str, kind.choices)) if isinstance(kind, click.Choice) else []
    return _some(files=isinstance(kind, click.Path), choices=choices)


def _some(**facts: object) -> dict[str, object]:
    """Return the keyword arguments whose values are not empty."""
    return {name: fact for name, fact in facts.items() if fact}
