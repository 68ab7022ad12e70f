"""tar, zip and 7z: which files they pack, and where they unpack them."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.core.shell import rows
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import HOLE, Effect
from safetyd.core.shell.words import DECODED, NOTHING, Flow, Word, least_trusted

_CREATES: Final = ("-c", "--create", "-r", "--append", "-u", "--update", "-A", "--catenate")
_CHANGES: Final = (*_CREATES, "--concatenate", "--delete")
_ARCHIVE: Final = ("-f", "--file")
# Options that look like abbreviations of an option with a value, but are not.
_FLAGS: Final = frozenset({"--list", "--checkpoint"})
_moves = re.compile(r"-\w*m\w*|--mov?e?").fullmatch  # letters may be combined


def read_tar(inv: Invocation) -> None:
    """Analyse `tar`: listing, packing or unpacking, and options that run commands."""
    words = list(_spelled_out(inv.call.words, inv.call.program.valued))
    call = inv.call = Call(inv.call.program, inv.call.name, words, inv.stdin)
    _tar_options(inv)
    inv.reads(*call.values(*call.program.row.reads))
    if any(HOLE in name for name, _ in call.options):
        inv.found(Effect.UNKNOWN, "has options that are only known at run time")
        return
    if call.has("--remove-files", "--recursive-unlink"):
        why = "deletes files after packing them, or existing folders before unpacking"
        inv.found(Effect.IRREVERSIBLE, why)
    if call.has("-x", "--extract", "--get"):
        _unpacked(inv)
    elif call.has(*_CHANGES):
        inv.found(Effect.WORK, "packs files")
        for word in call.values(*_ARCHIVE):
            inv.writes(word)
        inv.reads(*call.arguments)
        inv.output = rows.printed(inv)
    elif call.has("-t", "--list", "-d", "--diff", "--compare"):
        inv.found(Effect.READ, "lists an archive")
        inv.reads(*call.values(*_ARCHIVE))
    else:
        inv.found(Effect.UNKNOWN)


def _spelled_out(words: Sequence[Word], valued: frozenset[str]) -> Iterator[Word]:
    """Yield the words of tar with `xf` written as `-x -f`, and with long options in full."""
    left = iter(words)
    for number, word in enumerate(left):
        name, equals, value = word.text.partition("=")
        if number == 0 and word.text[:1] != "-":
            for letter in word.text:  # the values follow after the last letter
                yield word.with_text(f"-{letter}")
                if f"-{letter}" in valued and (given := next(left, None)):
                    yield given
        elif name.startswith("--") and name != "--" and name not in valued | _FLAGS:
            full = min((option for option in valued if option.startswith(name)), default=name)
            yield word.with_text(f"{full}{equals}{value}")
        else:
            yield word


def _tar_options(inv: Invocation) -> None:
    call = inv.call
    for value in call.values(*call.program.row.runs):
        inv.shell(value, "tar")
    for value in call.values("--checkpoint-action"):
        action, _, command = value.text.partition("=")
        if action.strip() == "exec" or HOLE in action:
            inv.shell(value.with_text(command), "tar --checkpoint-action")
    for word in call.values(*_ARCHIVE):
        if ":" in word.text and not call.has("--force-local"):
            inv.found(Effect.LEAVES, "uses an archive on another machine")
    for word in call.values(*call.program.row.writes):
        inv.writes(word)


def _unpacked(inv: Invocation) -> None:
    call = inv.call
    archives = call.values(*_ARCHIVE)
    inv.reads(*archives)
    if call.has("-O", "--to-stdout", "--to-command"):
        held = [inv.scope.written_to(word.text) for word in archives]
        flows = [flow for flow in (inv.stdin, *held) if flow is not None]
        inv.found(Effect.READ, "prints the contents of an archive")
        inv.output = Flow(None, least_trusted([DECODED, *(flow.origin for flow in flows)]))
        return
    inv.found(Effect.WORK, "unpacks an archive")
    if call.has("-P", "--absolute-names"):
        inv.found(Effect.IRREVERSIBLE, "unpacks to absolute paths that the archive contains")
    folders = call.values("-C", "--directory", "--one-top-level")
    for word in folders or [inv.command.words[0].with_text(".")]:
        inv.writes(word, "unpacks into")
    inv.output = NOTHING


def read_zip(inv: Invocation) -> None:
    """Analyse `zip`: the archive, the files, and options that run commands."""
    call = inv.call
    inv.found(Effect.WORK, "packs files")
    for value in call.values("-TT", "--unzip-command"):
        inv.shell(value, "zip -TT")
    for value in (*call.arguments[:1], *call.values("-O", "--out")):
        inv.writes(value)
    if any(_moves(option) for option, _ in call.options):
        inv.found(Effect.IRREVERSIBLE, "deletes files after packing them")
    inv.reads(*call.arguments[1:])
    inv.output = NOTHING


def read_archiver(inv: Invocation) -> None:
    """Analyse `7z` and similar programs: a verb, an archive, and files."""
    call, verb = inv.call, inv.call.verb
    inv.named = f"{call.name} {verb}".strip()
    folders = [w.with_text(w.text[2:]) for w in call.words if w.text.startswith("-o")]
    if any(word.text.startswith("-sdel") for word in call.words):
        inv.found(Effect.IRREVERSIBLE, "deletes files after packing them")
    if verb in {"l", "t", "i", "h", "b", ""}:
        inv.found(Effect.READ, "lists an archive")
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
        inv.found(Effect.UNKNOWN)
    inv.output = Flow(None, DECODED)
