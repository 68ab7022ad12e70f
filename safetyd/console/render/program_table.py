"""What is known of programs, in words."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from safetyd.console.render.layout import indented
from safetyd.console.terminal_text import plain
from safetyd.core.shell.programs import Program, Row, Table, Use, Wraps
from safetyd.core.shell.reading import Effect

BY_VERB: Final = "by verb"
WRAPS: Final = "runs another program"
BY_FUNCTION: Final = "by its words"  # a function reads them
GAP: Final = 2

_MEANS: Final = {
    Effect.READ: "only look",
    Effect.WORK: "work in the project",
    Effect.UNKNOWN: "may do anything",
    Effect.INSTALLS: "install something",
    Effect.LEAVES: "leave the machine",
    Effect.IRREVERSIBLE: "cannot be taken back",
    Effect.PRIVILEGED: "need another user's rights",
    Effect.SECRETS: "show secrets",
}
_ARGUMENTS: Final = {
    "read": "files that are read",
    "write": "files that are written",
    "delete": "files that are deleted",
    "text": "text, no files",
    "copy": "files that are copied, the last one is written",
    "move": "files that are moved, the last one is written",
}
_OUTPUT: Final = {
    "same": "what it was given",
    "text": "its words",
    "network": "what comes from the network",
    "decoded": "something decoded, which nobody has seen",
}


def by_effect(table: Table) -> dict[str, list[str]]:
    """Return all programs by what they do in every use, or by what that depends on."""
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
    """Return a row without what it leaves open."""
    row: dict[str, Any] = msgspec.to_builtins(program.row)
    kept = {key: value for key, value in row.items() if value not in (None, "", [], (), False, 0)}
    return {"program": program.name, **kept}


def one_program(program: Program, columns: int) -> str:
    """Return what is known of a program: uses, options, what becomes of its words."""
    lines = indented(_told(program))
    label = max((len(name) for name, _ in _told(program)), default=0) + 2 * GAP
    folded = (
        textwrap.wrap(
            line,
            max(columns, 2 * label),
            subsequent_indent=" " * label,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )
    return "\n".join((plain(program.name), *(line for each in folded for line in each)))


def _heading(program: Program) -> str:
    row = program.row
    if row.wraps is not None:
        return WRAPS
    if row.reader:
        return BY_FUNCTION
    return BY_VERB if program.uses or row.effect is None else str(row.effect)


def _told(program: Program) -> Iterator[tuple[str, str]]:
    row = program.row
    if row.effect is not None:
        yield "effect", _said(row.effect, row.why, blocks=row.blocks)
    for effect in Effect:
        yield from _uses(effect, [use for use in program.uses if use.effect is effect])
    if program.uses and row.effect is None:
        yield "otherwise", _said(row.otherwise or Effect.UNKNOWN, row.why, blocks=row.blocks)
    if row.bare is not None:
        yield "bare", f"{row.bare}, without any words"
    if row.wraps is not None:
        yield "wraps", _wraps(row.wraps)
    yield from _options(row)
    yield from _about_words(row)


def _about_words(row: Row) -> Iterator[tuple[str, str]]:
    if row.reader:
        yield "reader", "its words are read by a function of their own"
    elif row.wraps is None:
        yield "words", _words(row)
    if row.output:
        yield "prints", _OUTPUT[row.output]
    if row.type:
        yield "type", f"rules for {plain(row.type)} hold for it"
    if row.remedy:
        yield "allowed", plain(row.remedy)


def _uses(effect: Effect, uses: Sequence[Use]) -> Iterator[tuple[str, str]]:
    if uses:
        yield str(effect), ", ".join(sorted(map(_use, uses)))


def _use(use: Use) -> str:
    verb = use.verb
    said = plain(verb.words) or "any use"
    if verb.with_:
        said += f" with {' or '.join(map(plain, verb.with_))}"
    if verb.without:
        said += f" without {' or '.join(map(plain, verb.without))}"
    notes = [*(["blocked"] if verb.blocks else ()), *([plain(verb.why)] if verb.why else ())]
    return f"{said} ({': '.join(notes)})" if notes else said


def _said(effect: Effect, why: str, *, blocks: bool) -> str:
    return f"{effect}{', blocked' * blocks}{f': {plain(why)}' if why else ''}"


def _options(row: Row) -> Iterator[tuple[str, str]]:
    told = (
        ("writes", row.writes, "the file that follows is written"),
        ("reads", row.reads, "the file that follows is read"),
        ("runs", row.runs, "what follows is run as a command"),
        ("texts", row.texts, "what follows is text or a pattern"),
        ("values", row.options_with_value, "what follows is a value of theirs"),
        ("run", row.run, "what follows -- is a command, elsewhere"),
    )
    for name, options, means in told:
        if options:
            yield name, f"{', '.join(map(plain, options))}: {means}"


def _words(row: Row) -> str:
    first = f"{row.patterns} that are no files, then " if row.patterns else ""
    return f"{first}{_ARGUMENTS[row.arguments]}"


def _wraps(wraps: Wraps) -> str:
    said = ["runs the command that its words name"]
    if wraps.skip:
        said.append(f"after {wraps.skip} of its own")
    if wraps.after:
        said.append(f"after {plain(wraps.after)}")
    if wraps.assigns:
        said.append("after NAME=value")
    if wraps.text:
        said.append("joined and read by a shell")
    if wraps.elsewhere:
        said.append("elsewhere, so that paths are not ours")
    if wraps.input:
        said.append("with words from its standard input")
    return ", ".join(said)


def _columns(names: Sequence[str], columns: int) -> list[str]:
    """Return names in columns, read downwards."""
    width = max(map(len, names)) + GAP
    across = max(1, (columns - GAP) // width)
    down = -(-len(names) // across)
    rows = ("".join(name.ljust(width) for name in names[row::down]) for row in range(down))
    return [f"  {row}".rstrip() for row in rows]
