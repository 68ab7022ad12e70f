"""Programs that run other commands: sudo, xargs, parallel, tmux and others."""

import re
from collections.abc import Sequence
from typing import Final

from safetyd.core.shell.calls import Call, split_command
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import HOLE, Effect
from safetyd.core.shell.words import COMMAND, Word

_ASKING: Final = ("-l", "--list", "-v", "--validate", "-k", "-K", "--remove-timestamp")
# Key names of tmux, and the text that they type.
_KEYS: Final = {"Enter": "\n", "C-m": "\n", "Space": " ", "C-c": "\n", "C-d": "\n", "C-l": ""}
_part_of = re.compile(r"\{(?:[#%]|=.*=|[0-9+-]*[./]*)(?<!\{)\}").sub  # `{.}` and similar
_STARTING: Final = frozenset(
    {"new", "new-session", "new-window", "neww", "split-window", "splitw", "respawn-pane"}
)
_LOOKING: Final = ("ls", "list-", "capture-pane", "capturep", "has", "display", "show", "info")


def read_sudo(inv: Invocation) -> None:
    """Analyse `sudo` and similar programs, and the command that they run."""
    own, words = split_command(inv.call)
    while words and "=" in words[0].text:
        words = words[1:]
    if not words and own.has(*_ASKING) and not own.has("-i", "-s", "-b"):
        inv.found(Effect.READ, "lists the permissions of the user")
        return
    inv.found(Effect.PRIVILEGED, "runs as another user")
    if own.has("-e", "--edit"):
        for word in words:
            inv.writes(word)
    elif words:
        inv.output = inv.runner.program(words, inv.command, inv.scope, inv.call.name)


def read_xargs(inv: Invocation) -> None:
    """Analyse the command of `xargs`, with the words of its input if they are known."""
    command = inv.command
    own, words = split_command(inv.call)
    if not words:
        inv.found(Effect.READ, "prints its input")
        return
    flow, from_file = inv.stdin, own.has("-a", "--arg-file")
    inv.reads(*own.values("-a", "--arg-file"))
    origin = COMMAND if flow is None else flow.origin or COMMAND
    marks = [value.text for value in own.values("-I", "-J", "--replace")]
    if own.has("-i", "--replace") and not marks:
        marks = ["{}"]
    known = flow.text if flow is not None and not from_file else None
    texts = [HOLE] if known is None else _input_words(own, known, by_line=bool(marks))
    if marks:
        words = [_filled(word, marks[0], texts, origin) for word in words]
    else:
        words += [
            Word(text, command.start, command.end, origin, globs="*" in text) for text in texts
        ]
    inv.output = inv.runner.program(words, command, inv.scope, inv.call.name)


def _input_words(own: Call, text: str, *, by_line: bool) -> list[str]:
    """Return the words of the input, or a hole if quotes or delimiters make them uncertain."""
    lines = text.splitlines()
    found = all("**" in line for line in lines)  # the output of a search, one name per line
    if own.has("-0", "--null", "-d", "--delimiter"):
        return lines if found or (len(lines) == 1 and own.has("-0", "--null")) else [HOLE]
    if any(sign in text for sign in "\"'\\"):
        return [HOLE]
    return lines if by_line else text.split()


def _filled(word: Word, mark: str, texts: Sequence[str], origin: str) -> Word:
    """Replace the mark in a word by the input."""
    if not mark or mark not in word.text:
        return word
    read = texts[0] if len(texts) == 1 else HOLE
    text = word.text.replace(mark, read)
    return word._replace(text=text, origin=origin, inner=-1, globs="*" in read)


def read_parallel(inv: Invocation) -> None:
    """Analyse the command of `parallel`, with arguments after `:::` or from its input."""
    own, words = split_command(inv.call)
    if own.has("-S", "--sshlogin", "--sshloginfile", "--slf", "--onall", "--nonall"):
        inv.found(Effect.LEAVES, "runs commands on other machines")
    texts = [word.text for word in words]
    at = next((n for n, text in enumerate(texts) if text.startswith(":::")), len(texts))
    if not at:
        inv.runs_unknown(COMMAND if inv.stdin is None else inv.stdin.origin or COMMAND, "its input")
        return
    given = texts[at + 1 :] if texts[at:] and texts[at] == ":::" else [HOLE]
    for each in given:
        _with_each(inv, words[:at], each)


def _with_each(inv: Invocation, words: list[Word], each: str) -> None:
    """Analyse a command of `parallel` with one of its arguments."""
    said = " ".join(word.text for word in words)
    marked = "{" in said
    text = _part_of(HOLE, said).replace("{}", each) if marked else f"{said} {each}"
    if HOLE not in text:
        inv.runner.text(text, words[0]._replace(inner=-1), inv.scope, inv.call.name, None)
        if not any(" " in word.text for word in words[1:]):
            return  # otherwise quotes may be literal, so analyse the words too
    words = [word.with_text(_part_of(HOLE, word.text)) for word in words]
    filled = [_filled(word, "{}", [each], COMMAND) for word in words]
    added = [] if marked else [Word(each, words[0].start, words[-1].end, COMMAND)]
    inv.runner.program([*filled, *added], inv.command, inv.scope, inv.call.name)


def read_script(inv: Invocation) -> None:
    """Analyse `script`, which records the output of a command."""
    for value in inv.call.values("-O", "--log-out", "-B", "--log-io", "-T", "--log-timing", "-I"):
        inv.writes(value)
    texts = inv.call.values("-c", "--command")
    for text in texts:
        inv.output = inv.shell(text, "script -c", inv.stdin)
    words = inv.call.arguments
    if words:
        inv.writes(words[0])
    if words[1:]:
        inv.output = inv.runner.program(words[1:], inv.command, inv.scope, "script")
    elif not texts:
        inv.found(Effect.UNKNOWN, "opens an interactive shell", traits=("open_input",))


def read_taskset(inv: Invocation) -> None:
    """Analyse `taskset` and similar programs, which run a command or change a process."""
    own, words = split_command(inv.call)
    if inv.call.name in {"taskset", "faketime"}:
        words = words[1:]
    if own.has("-p", "--pid"):
        inv.found(Effect.PRIVILEGED, "changes a running process")
    elif words:
        inv.output = inv.runner.program(words, inv.command, inv.scope, inv.call.name)
    else:
        inv.found(Effect.READ, "shows its settings")


def read_tmux(inv: Invocation) -> None:
    """Analyse `tmux` and the commands that it runs or types."""
    call, verb = inv.call, inv.call.verb
    if call.has("-f") or any(word.text.endswith(";") for word in call.words):
        why = "runs several tmux commands or a configuration file, which are not analysed"
        inv.found(Effect.UNKNOWN, why)
    elif not call.words or verb.startswith(_LOOKING):
        inv.found(Effect.READ, "lists terminals")
    elif verb in _STARTING:
        inv.found(Effect.WORK, "opens a terminal")
        words = call.arguments[1:]
        if len(words) == 1:
            inv.shell(words[0], f"tmux {verb}")
        elif words:
            inv.runner.program(words, inv.command, inv.scope, f"tmux {verb}")
    elif verb in {"send-keys", "send"}:
        _typed(inv)
    else:
        inv.found(Effect.UNKNOWN, "changes terminals that other programs may use")


def _typed(inv: Invocation) -> None:
    """Analyse text that is typed into a terminal."""
    inv.found(Effect.WORK, "types into a terminal")
    words = inv.call.arguments[1:]
    if {option for option, _ in inv.call.options} - {"-t", "-l", "-L", "-S"}:
        inv.found(Effect.UNKNOWN, "sends keystrokes that are not analysed")
    typed = "".join(_KEYS.get(word.text, word.text) for word in words).strip()
    if typed:
        origin = COMMAND if HOLE in typed else ""
        inv.shell(words[0]._replace(text=typed, inner=-1, origin=origin), "tmux send-keys")


def read_screen(inv: Invocation) -> None:
    """Analyse `screen`, which runs a command in another terminal."""
    own, words = split_command(inv.call)
    if own.has("-X", "-c"):
        inv.found(Effect.UNKNOWN, "types into a terminal, or runs screen commands")
    elif any(word.text in {"-ls", "-list"} for word in own.words):
        inv.found(Effect.READ, "lists terminals")
    elif words:
        inv.output = inv.runner.program(words, inv.command, inv.scope, "screen")
    else:
        inv.found(Effect.UNKNOWN, "opens an interactive shell", traits=("open_input",))
