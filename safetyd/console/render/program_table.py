"""Known shell programs as text: all of them by effect, or the entry of one as TOML."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from safetyd.console.subcommands.show_config import as_toml
from safetyd.core.shell.programs import Program, Table
from safetyd.core.shell.reading import Effect

BY_VERB: Final = "by verb"
WRAPS: Final = "runs another program"
BY_FUNCTION: Final = "by its words"  # a function derives the effect from the arguments
GAP: Final = 2
KEYS: Final = "# `safetyd docs shell` explains the keys."
_OPEN: Final = (None, "", (), False, 0)  # the default values in a row, which are not shown
_SHIPPED: Final = frozenset({"program", "names", "package"})  # operators cannot set these

_KEPT: Final = "\0"  # stands for a space at which a line must not be broken
_is_bare = re.compile(r"[\w-]+", re.ASCII).fullmatch
_MEANS: Final = {
    Effect.READ: "only read",
    Effect.WORK: "work in the project",
    Effect.UNKNOWN: "can do anything",
    Effect.INSTALLS: "install something",
    Effect.LEAVES: "leave the machine",
    Effect.IRREVERSIBLE: "cannot be undone",
    Effect.PRIVILEGED: "need another user's rights",
    Effect.SECRETS: "show secrets",
}


def by_effect(table: Table) -> dict[str, list[str]]:
    """Return the names of all programs, grouped by effect or by what the effect depends on."""
    headings: list[str] = [*Effect, WRAPS, BY_VERB, BY_FUNCTION]
    found: dict[str, list[str]] = {heading: [] for heading in headings}
    for name in table.names():
        program = table.find(name)
        if program is not None:
            found[_heading(program)].append(name)
    return {heading: names for heading, names in found.items() if names}


def all_programs(table: Table, columns: int) -> str:
    parts = []
    for heading, names in by_effect(table).items():
        means = f", {_MEANS[Effect(heading)]}" if heading in set(Effect) else ""
        parts.append("\n".join((f"{heading.upper()}{means}", *_columns(names, columns))))
    return "\n\n".join(parts)


def facts(program: Program) -> dict[str, Any]:
    """Return the settings of a program that differ from the defaults."""
    row: dict[str, Any] = msgspec.to_builtins(program.row)
    return {"program": program.name, **{key: row[key] for key in row if row[key] not in _OPEN}}


def one_program(program: Program, columns: int) -> str:
    """Return the entry of a program as TOML for the configuration."""
    name = program.name if _is_bare(program.name) else as_toml(program.name)
    row = {key: value for key, value in facts(program).items() if key not in _SHIPPED}
    lines = [line for key, value in row.items() for line in _setting(key, _brief(value), columns)]
    return "\n".join((KEYS, f"[shell.programs.{name}]", *lines))


def _setting(key: str, value: object, columns: int) -> Iterator[str]:
    """Yield a setting as lines of at most `columns`. Lists are broken only between items."""
    items = value if isinstance(value, tuple) else (value,)
    said = ", ".join(as_toml(item).replace(" ", _KEPT) for item in items)
    line = f"{key}{_KEPT}={_KEPT}{f'[{said}]' if isinstance(value, tuple) else said}"
    folded = textwrap.wrap(
        line, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return (part.replace(_KEPT, " ") for part in folded)


def _brief(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _brief(inner) for key, inner in value.items() if inner not in _OPEN}
    return tuple(map(_brief, value)) if isinstance(value, tuple) else value


def _heading(program: Program) -> str:
    row = program.row
    if row.wraps is not None:
        return WRAPS
    if row.reader:
        return BY_FUNCTION
    return BY_VERB if program.uses or row.effect is None else str(row.effect)


def _columns(names: Sequence[str], columns: int) -> list[str]:
    """Return names in columns, sorted from top to bottom."""
    width = max(map(len, names)) + GAP
    across = max(1, (columns - GAP) // width)
    down = -(-len(names) // across)
    rows = ("".join(name.ljust(width) for name in names[row::down]) for row in range(down))
    return [f"  {row}".rstrip() for row in rows]
