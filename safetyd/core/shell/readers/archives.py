"""Archives: what is packed, and where it is unpacked."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from safetyd.core.shell import rows
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import HOLE, Effect
from safetyd.core.shell.words import DECODED, NOTHING, Flow, Word, least_trusted

_VALUED: Final = "fbCTXIgHKLNVF"
_LONG: Final = {
    "--create": "c",
    "--extract": "x",
    "--get": "x",
    "--list": "t",
    "--append": "r",
    "--update": "u",
    "--catenate": "A",
    "--concatenate": "A",
    "--delete": "D",
    "--diff": "d",
    "--compare": "d",
    "--file": "f",
    "--directory": "C",
    "--to-stdout": "O",
    "--absolute-names": "P",
    "--files-from": "T",
    "--exclude-from": "X",
    "--use-compress-program": "I",
    "--info-script": "F",
    "--new-volume-script": "F",
    "--one-top-level": "C",
    "--listed-incremental": "g",
}
_LONG_VALUED: Final = frozenset(
    {
        *("--file", "--directory", "--files-from", "--exclude-from", "--use-compress-program"),
        *("--info-script", "--new-volume-script", "--listed-incremental", "--exclude", "--owner"),
        *("--transform", "--xform", "--strip-components", "--group", "--mode", "--mtime"),
        *("--to-command", "--checkpoint-action", "--rsh-command", "--rmt-command", "--format"),
        *("--blocking-factor", "--record-size", "--label", "--starting-file", "--newer"),
    }
)
_RUNS: Final = frozenset({"--to-command", "--rsh-command", "--rmt-command", "I", "F"})
_moves = re.compile(r"-\w*m\w*|--mov?e?").fullmatch  # letters may stand together


class _Given(NamedTuple):
    """What tar is told: its options with their values, by letter or long name, and the rest."""

    options: list[tuple[str, Word | None]]
    arguments: list[Word]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, name: str) -> list[Word]:
        return [value for each, value in self.options if each == name and value is not None]


def read_tar(inv: Invocation) -> None:
    """Read `tar`: what it lists, packs or unpacks, and what its options run."""
    given = _tar(inv)
    _tar_options(inv, given)
    inv.reads(*given.values("T"), *given.values("X"))
    if given.has("x"):
        _unpacked(inv, given)
    elif given.has("c", "r", "u", "A", "D"):
        inv.found(Effect.WORK, "packs files")
        for word in given.values("f"):
            inv.writes(word)
        inv.reads(*given.arguments)
        inv.output = rows.printed(inv)
    elif given.has("t", "d"):
        inv.found(Effect.READ, "looks into an archive")
        inv.reads(*given.values("f"))
    else:
        inv.found(Effect.UNKNOWN, rows.WHY[Effect.UNKNOWN])


def _tar(inv: Invocation) -> _Given:
    given, words = _Given([], []), iter(inv.call.words)
    for number, word in enumerate(words):
        text = word.text
        if number == 0 and text[:1] != "-":
            for letter in text:  # the values stand behind all letters
                given.options.append((letter, next(words, None) if letter in _VALUED else None))
        elif text == "--":
            given.arguments.extend(words)
        elif text.startswith("--"):
            given.options.append(_long(word, words))
        elif text.startswith("-") and len(text) > 1:
            given.options.extend(_short(word, words))
        else:
            given.arguments.append(word)
    return given


def _long(word: Word, words: Iterator[Word]) -> tuple[str, Word | None]:
    name, equals, value = word.text.partition("=")
    known = [each for each in (*_LONG, *_LONG_VALUED) if each.startswith(name)]
    name = name if name in known or not known else known[0]
    said = word._replace(text=value, inner=-1) if equals else None
    if said is None and name in _LONG_VALUED:
        said = next(words, None)
    return _LONG.get(name, name), said


def _short(word: Word, words: Iterator[Word]) -> Iterator[tuple[str, Word | None]]:
    for at, letter in enumerate(word.text[1:], start=2):
        if letter in _VALUED:
            rest = word.text[at:]
            yield letter, word._replace(text=rest, inner=-1) if rest else next(words, None)
            return
        yield letter, None


def _tar_options(inv: Invocation, given: _Given) -> None:
    for name, value in given.options:
        if HOLE in name:
            inv.found(Effect.UNKNOWN, "has options that are not known before it runs")
        elif value is not None and name in _RUNS:
            inv.shell(value, "tar")
        elif value is not None and name == "--checkpoint-action":
            action, _, command = value.text.partition("=")
            if action.strip() == "exec" or HOLE in action:
                inv.shell(value._replace(text=command, inner=-1), "tar --checkpoint-action")
    for word in given.values("f"):
        if ":" in word.text and not given.has("--force-local"):
            inv.found(Effect.LEAVES, "uses an archive on another machine")
    for word in given.values("g"):
        inv.writes(word)
    if given.has("--remove-files", "--recursive-unlink"):
        inv.found(Effect.IRREVERSIBLE, "deletes what it packs or replaces")


def _unpacked(inv: Invocation, given: _Given) -> None:
    archives = given.values("f")
    inv.reads(*archives)
    if given.has("O", "--to-command"):
        held = [inv.scope.files.get(inv.scope.place(word.text).path) for word in archives]
        flows = [flow for flow in (inv.stdin, *held) if flow is not None]
        inv.found(Effect.READ, "prints what an archive holds")
        inv.output = Flow(None, least_trusted([DECODED, *(flow.origin for flow in flows)]))
        return
    inv.found(Effect.WORK, "unpacks an archive")
    if given.has("P"):
        inv.found(Effect.IRREVERSIBLE, "unpacks to wherever the archive says")
    for word in given.values("C") or [inv.command.words[0]._replace(text=".", inner=-1)]:
        inv.writes(word, "unpacks into")
    inv.output = NOTHING


def read_zip(inv: Invocation) -> None:
    """Read `zip`: the archive, the files, and what its options run."""
    call = inv.call
    inv.found(Effect.WORK, "packs files")
    for value in call.values("-TT", "--unzip-command"):
        inv.shell(value, "zip -TT")
    for value in (*call.arguments[:1], *call.values("-O", "--out")):
        inv.writes(value)
    if any(_moves(option) for option, _ in call.options):
        inv.found(Effect.IRREVERSIBLE, "deletes what it packs")
    inv.reads(*call.arguments[1:])
    inv.output = NOTHING


def read_archiver(inv: Invocation) -> None:
    """Read `7z` and its kin: a verb, an archive, and files."""
    call, verb = inv.call, inv.call.verb
    inv.named = f"{call.name} {verb}".strip()
    folders = [w._replace(text=w.text[2:], inner=-1) for w in call.words if w.text.startswith("-o")]
    if any(word.text.startswith("-sdel") for word in call.words):
        inv.found(Effect.IRREVERSIBLE, "deletes what it packs")
    if verb in {"l", "t", "i", "h", "b", ""}:
        inv.found(Effect.READ, "looks into an archive")
        inv.reads(*call.arguments[1:])
    elif verb in {"x", "e"}:
        inv.found(Effect.WORK, "unpacks an archive")
        inv.reads(*call.arguments[1:2])
        for word in folders or [call.words[0]._replace(text=".")]:
            inv.writes(word, "unpacks into")
    elif verb in {"a", "u", "d", "rn"}:
        inv.found(Effect.WORK, "packs files")
        for word in call.arguments[1:2]:
            inv.writes(word)
        inv.reads(*call.arguments[2:])
    else:
        inv.found(Effect.UNKNOWN, rows.WHY[Effect.UNKNOWN])
    inv.output = Flow(None, DECODED)
