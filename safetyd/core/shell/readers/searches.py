"""Programs that search for files, and their actions on the results.

The results are represented as patterns: `src/**/*.pyc` means every such file below `src`.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.core.shell import places, rows
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.readers.deletions import delete
from safetyd.core.shell.reading import HOLE, Effect
from safetyd.core.shell.words import COMMAND, Flow, Word

MAX_PATTERNS: Final = 8

_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITES: Final = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})
_LISTED: Final = "-files0-from"  # its value is a file with a list of folders
_ACTS: Final = _RUNS | _WRITES | {"-delete", "-print", "-print0", "-printf", "-ls"}
_NAMES: Final = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename"})
_OR: Final = frozenset({"-o", "-or", ","})
_NOT: Final = frozenset({"!", "-not"})
_SETTINGS: Final = frozenset({"-H", "-L", "-P", "-E", "-X", "-x", "-d", "-s", "-D"})
_LISTS: Final = ("-l", "--files-with-matches", "--files", "-L", "--files-without-match")
_secret = re.compile(
    r"passw|secret|token|api.?key|private key|credential|BEGIN .*KEY", re.IGNORECASE
).search
_fd_runs = re.compile(r"(?:-[HIaLsipgFl0u1hq]*[xX]|--exec(?:-batch)?(?:=|$))(.*)").fullmatch


def read_find(inv: Invocation) -> None:
    """Analyse `find`: folders, names and actions."""
    roots, expression = _roots(list(inv.call.words))
    said = [word.text for word in expression]
    inv.reads(*roots)
    inv.found(Effect.READ, "searches for files", said="")
    before = [*(root.text for root in roots), *said]
    if any(map(_may_act, [*roots, *expression][1:], before)):
        inv.found(Effect.UNKNOWN, "may run an action that is only known at run time")
    for name, target in zip(said, expression[1:], strict=False):
        if name in _WRITES:
            inv.writes(target)
        elif name == _LISTED:
            inv.reads(target)
    folders = [HOLE] if _LISTED in said else [root.text for root in roots] or ["."]
    found = list(_below(folders, _patterns(said)))
    commands = list(_commands(expression))
    for path in found:
        target = Word(path, inv.command.start, inv.command.end, globs=True)
        if "-delete" in said:
            _delete(inv, target, said)
        for command in commands:
            inv.runner.program(_filled(command, target), inv.command, inv.scope, "find -exec")
    prints = set(said).isdisjoint(_ACTS - {"-print", "-print0"})
    inv.output = Flow("".join(f"{path}\n" for path in found) if prints else None, COMMAND)


def _roots(words: list[Word]) -> tuple[list[Word], list[Word]]:
    """Split the arguments into folders and expression."""
    while words and (words[0].text in _SETTINGS or words[0].text.startswith("-O")):
        words = words[2:] if words[0].text == "-D" else words[1:]
    at = next((n for n, w in enumerate(words) if w.text[:1] in {"-", "(", "!"}), len(words))
    return words[:at], words[at:]


def _may_act(word: Word, before: str) -> bool:
    """Return True if an unknown word may be an action."""
    return word.text.startswith((HOLE, f"-{HOLE}")) and not word.quoted and before[:1] != "-"


def _delete(inv: Invocation, target: Word, said: Sequence[str]) -> None:
    """Record the effect of `-delete`. Deleting empty folders is harmless."""
    kinds = [kind for name, kind in itertools.pairwise(said) if name == "-type"]
    inside = inv.scope.place(target.text).kind == places.INSIDE
    if inside and kinds == ["d"] and _precede(said, "-empty", "-type") and _OR.isdisjoint(said):
        inv.found(Effect.WORK, "deletes empty folders")
    else:
        delete(inv, target, recursive=True)


def _precede(said: Sequence[str], *tests: str) -> bool:
    """Return True if all tests precede `-delete` and none is negated."""
    before = list(said[: said.index("-delete")])
    return _NOT.isdisjoint(before) and all(test in before for test in tests)


def read_fd(inv: Invocation) -> None:
    """Analyse `fd`. The command after `-x` runs for each file."""
    words = list(inv.call.words)
    at = next((n for n, word in enumerate(words) if _fd_runs(word.text)), len(words))
    attached = _fd_runs(words[at].text) if at < len(words) else None
    first = [words[at].with_text(attached[1])] if attached and attached[1] else []
    command = [*first, *(word for word in words[at + 1 :] if word.text != ";")]
    call = Call(inv.call.program, inv.call.name, words[:at], None)
    roots = [*call.arguments[1:], *call.values("--base-directory", "--search-path")]
    inv.found(Effect.READ, "searches for files", said="")
    inv.reads(*roots)
    endings = [word.text.lstrip(".") for word in call.values("-e", "--extension")]
    names = [f"*.{ending}" for ending in endings] or [""]
    found = list(_below([root.text for root in roots] or ["."], names))
    for path in found if command else []:
        target = Word(path, inv.command.start, inv.command.end, globs=True)
        inv.runner.program(_filled(command, target), inv.command, inv.scope, "fd -x")
    inv.output = Flow(None if command else "".join(f"{path}\n" for path in found), COMMAND)


def read_grep(inv: Invocation) -> None:
    """Analyse `grep` and similar programs. With `-l` they print file names."""
    call, row = inv.call, inv.call.program.row
    given = call.has("-e", "--regexp", "-f", "--file", "--files", "--type-list")
    files = call.arguments if given else call.arguments[1:]
    inv.found(Effect.READ, "searches text", said="")
    inv.reads(*files)
    _read_included(inv, files)
    sought = call.values("-e", "--regexp") or call.arguments[:1]
    recursive = call.has("-r", "-R", "--recursive") or bool(call.unnamed)
    walks = recursive or not call.name.endswith("grep")
    if walks and any(map(_is_shared, files)) and any(_secret(word.text) for word in sought):
        inv.found(
            Effect.SECRETS, "searches for secrets outside the project", type="read_credentials"
        )
    for name, value in call.options:
        if value is not None and name in row.runs:
            inv.shell(value, f"{call.name} {name}")
        elif value is not None and name in row.reads:
            inv.reads(value)
    if not call.has(*_LISTS):
        inv.output = rows.printed(inv)
        return
    names = [f"{word.text.rstrip('/')}/**" if walks else word.text for word in files] or ["./**"]
    inv.output = Flow("".join(f"{name}\n" for name in names), COMMAND)


def _read_included(inv: Invocation, files: Sequence[Word]) -> None:
    """Record the files that `--include` selects below the searched folders."""
    names = [word.text for word in inv.call.values("--include")]
    start, end = inv.command.start, inv.command.end
    for path in _below([word.text for word in files] or ["."], names):
        inv.reads(Word(path, start, end, globs=True))


def _is_shared(word: Word) -> bool:
    """Return True for system and home folders."""
    return (
        word.text.startswith(("/etc", "/home", "/root", "/Users", "/var", "~")) or word.text == "/"
    )


def _below(roots: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Yield patterns for files below these folders with these names."""
    for root in roots:
        folder = root.rstrip("/")
        for name in names:
            yield f"{folder}/**/{name}" if name else f"{folder}/**"


def _patterns(expression: Sequence[str]) -> list[str]:
    """Return a name for each alternative, or one empty name if an alternative matches any name."""
    found, name, number = list[str](), "", 0
    while number < len(expression):
        word = expression[number]
        negated = number > 0 and expression[number - 1] in _NOT
        if (word in _ACTS and not name) or (word == "(" and negated):
            return [""]
        if word in _RUNS:
            number = _end(expression, number)
        elif word in _OR:
            found.append(name)
            name = ""
        elif word in _NAMES and number + 1 < len(expression):
            number += 1
            if not negated:
                name = name or _named(word, expression[number])
        number += 1
    found.append(name)
    return found if len(found) <= MAX_PATTERNS and all(found) else [""]


def _named(test: str, pattern: str) -> str:
    """Return the pattern of a test, without the leading part that `**/` replaces."""
    return pattern.lstrip("*").lstrip("/") if test in {"-path", "-ipath", "-wholename"} else pattern


def _end(expression: Sequence[str], start: int) -> int:
    """Return the position of the end of a command."""
    ends = (n for n in range(start, len(expression)) if expression[n] in {";", "+"})
    return next(ends, len(expression))


def _commands(expression: Sequence[Word]) -> Iterator[list[Word]]:
    said = [word.text for word in expression]
    for at, text in enumerate(said):
        if text in _RUNS and (command := list(expression[at + 1 : _end(said, at)])):
            yield command


def _filled(command: Sequence[Word], target: Word) -> list[Word]:
    """Replace `{}` in a command with the file that was found."""
    if not any("{" in word.text for word in command):
        return [*command, target]
    return [
        word._replace(text=word.text.replace("{}", target.text), inner=-1, globs=word.text == "{}")
        if "{}" in word.text
        else word
        for word in command
    ]
