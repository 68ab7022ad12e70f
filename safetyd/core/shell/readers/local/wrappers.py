"""Programs that run others in ways that a row cannot describe."""

from collections.abc import Sequence
from typing import Final

from safetyd.core.shell.commands import command_of
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.programs import Wraps
from safetyd.core.shell.reading import HOLE, Effect
from safetyd.core.shell.words import COMMAND, Word

_ASKING: Final = ("-l", "--list", "-v", "--validate", "-k", "-K", "--remove-timestamp")
_PLAIN: Final = Wraps()


def read_sudo(inv: Invocation) -> None:
    """Read `sudo` and its kin: the rights of another user, and what is done with them."""
    words = list(command_of(inv.call, _PLAIN))
    while words and "=" in words[0].text:
        words = words[1:]
    if not words and inv.call.has(*_ASKING) and not inv.call.has("-i", "-s", "-b"):
        inv.found(Effect.READ, "asks what it may do")
        return
    inv.found(Effect.PRIVILEGED, "runs with the rights of another user")
    if inv.call.has("-e", "--edit"):
        for word in words:
            inv.writes(word)
    elif words:
        inv.output = inv.runner.program(words, inv.command, inv.scope, inv.call.name)


def read_xargs(inv: Invocation) -> None:
    """Read `xargs`: its command with the words of its input, where they are known."""
    command, words = inv.command, list(command_of(inv.call, _PLAIN))
    if not words:
        inv.found(Effect.READ, "prints its input")
        return
    flow, from_file = inv.stdin, inv.call.has("-a", "--arg-file")
    inv.reads(*inv.call.values("-a", "--arg-file"))
    origin = COMMAND if flow is None else flow.origin or COMMAND
    marks = [value.text for value in inv.call.values("-I", "-J", "--replace")]
    if inv.call.has("-i", "--replace") and not marks:
        marks = ["{}"]
    known = flow.text if flow is not None and not from_file else None
    texts = [HOLE] if known is None else _taken(inv, known, by_line=bool(marks))
    if marks:
        words = [_filled(word, marks[0], texts, origin) for word in words]
    else:
        words += [
            Word(text, command.start, command.end, origin, globs="*" in text) for text in texts
        ]
    inv.output = inv.runner.program(words, command, inv.scope, inv.call.name)


def _taken(inv: Invocation, text: str, *, by_line: bool) -> list[str]:
    """Return the words that are made of an input; a hole where quotes or signs decide that."""
    lines = text.splitlines()
    found = all("**" in line for line in lines)  # by a search, whose names end as it is told
    if inv.call.has("-0", "--null", "-d", "--delimiter"):
        return lines if found or (len(lines) == 1 and inv.call.has("-0", "--null")) else [HOLE]
    if any(sign in text for sign in "\"'\\"):
        return [HOLE]
    return lines if by_line else text.split()


def _filled(word: Word, mark: str, texts: Sequence[str], origin: str) -> Word:
    """Return a word with what is read from the input in place of its mark."""
    if not mark or mark not in word.text:
        return word
    read = texts[0] if len(texts) == 1 else HOLE
    text = word.text.replace(mark, read)
    return word._replace(text=text, origin=origin, inner=-1, globs="*" in read)
