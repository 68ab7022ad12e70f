"""Rules for the arguments of every known program, also for options that its row does not list.

Readers and rows know the options of a program. These rules cover what they leave open: an option
whose name is only known at run time, an option that names a command or an output file, a command
after `--`, a secret file in any spelling, and text that leaves the machine in an address.
"""

import functools
import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from safetyd.core.shell import places
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import HOLE, Effect, Finding, word_set
from safetyd.core.shell.words import COMMAND, DECODED, LIST, NAME, NETWORK, PROJECT, Flow, Word

MAX_JOINED: Final = 32  # combinations of a folder and a name

# Parts of the names of options whose value is a command, or a file that is written.
_RUNS: Final = word_set("""
    exec execute command commands cmd fromcmd program hook hooks pager editor wrapper rsh handler
    callback interpreter executable launcher invoke preprocessor runner shell
""")
_WRITES: Final = word_set("""
    o out output outfile outdir outputdir output-file dest destination save write log logfile report
    dump into
""")
_part = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+").findall
_AWAY: Final = frozenset({places.OUTSIDE, places.SYSTEM, places.HOME, places.DISK})
# Readers of programs whose rows list all options that can do harm, or that have none.
_LISTING: Final = word_set("cat cd echo environment family fetch forge grep load ls pwd query")
# Readers that pass unlisted options to rows, or ignore them.
_ROWS: Final = frozenset({"", "bucket", "database_tool", "family", "forge", "query", "targets"})
_RUNNING: Final = frozenset({"run", "script"})
_LONG: Final = frozenset({"find"})  # readers of programs whose long options have one hyphen
# Readers that judge paths in arguments themselves, or of programs that only print or set text.
_PRINTING: Final = word_set("""
    alias cd echo environment eval fd find git grep interpreter sed trap
""")
_paths = re.compile(
    r"(?:^|^-[A-Za-z]|[=:,@;|(\[{\"'+!<>])(/[^\s,;|()\[\]{}\"'<>]+|~/[^\s,;|()\[\]{}\"'<>]+)"
).findall
_address = re.compile(r"(?<![\w+.-])(?!file:)[A-Za-z][\w+.-]*://[^\s\"'<>]*")
_is_compound = re.compile(r"[=:,@;|(\[{\"'+!<>][/~]").search
_LEAKING: Final = frozenset({COMMAND, DECODED, LIST, PROJECT})


def find_in_arguments(inv: Invocation, call: Call, found: Sequence[Finding]) -> None:
    """Add findings for arguments that the program's reader or row did not explain."""
    if call.stdin is not None and call.program.row.arguments in _RUNNING:
        _find_run_input(inv, call.stdin)
    said = " ".join([word.text for word in call.words])
    hidden, options = HOLE in said, "-" in said
    row = call.program.row
    if (hidden or options) and all(finding.passes for finding in found):
        if hidden:
            _find_unknown_names(inv, call)
            _find_sent_text(inv, call)
        if options and row.wraps is None and row.reader in _ROWS:
            _find_commands_and_outputs(inv, call)
    if "/" in said and row.reader not in _PRINTING and not inv.shows_only_names:
        _find_secrets(inv, call, found)


def _find_run_input(inv: Invocation, given: Flow) -> None:
    """Record that a program that runs files may also run its input, if that is a download."""
    if given.origin in {DECODED, NETWORK}:
        inv.runs_unknown_input(given)


@functools.lru_cache(maxsize=4096)
def names_command(option: str) -> bool:
    """Return True if the name of an option says that its value is a command."""
    parts = [part.lower() for part in _part(option.partition("=")[0])]
    return "no" not in parts and not _RUNS.isdisjoint(parts)


@functools.lru_cache(maxsize=4096)
def _names_output(option: str) -> bool:
    """Return True if the name of an option says that its value is a file that is written."""
    parts = [part.lower() for part in _part(option)]
    return option == "-o" or (len(option) > len("-o") and not _WRITES.isdisjoint(parts))


def _find_unknown_names(inv: Invocation, call: Call) -> None:
    """Record an option whose name is only known at run time, if it may be a harmful one."""
    given = {value for _, value in call.options}
    for word in call.words:
        name = word.text.partition("=")[0]
        if word.text == "--":
            break
        hidden = name[:1] == "-" and HOLE in name and word not in given
        numbered = word.origin == NAME and len(name.partition(HOLE)[0]) > 1  # `-j$(nproc)`
        if hidden and not numbered and _may_harm(call, name):
            why = "has an option whose name is only known at run time"
            inv.found(Effect.UNKNOWN, why, remedy="with the option written out")
            return


def _may_harm(call: Call, name: str) -> bool:
    row, known = call.program.row, name.partition(HOLE)[0]
    if row.reader in _LONG:
        return True
    if known[1:2] not in {"", "-"} and not row.long_options:
        # `-j$X` is most likely an option with its value.
        if len(known) == len("-x") or known[:2] in call.program.valued:
            return False
        known = "-"
    open_ended = known == "-" or known.startswith("--")
    if (row.reader or row.wraps) and row.reader not in _LISTING and open_ended:
        return True
    uses = (use for use in call.program.uses if not use.effect.passes)
    acting = [option for use in uses for option in (*use.options, *use.verb.with_)]
    listed = (*row.writes, *row.runs, *row.loads, *acting)
    return any(option.startswith(known) for option in listed)


def _find_sent_text(inv: Invocation, call: Call) -> None:
    """Record that a name or address that another machine receives contains local text."""
    if inv.runner.listed("contacting").isdisjoint((call.name, inv.named)):
        return
    if any(HOLE in word.text and word.origin in _LEAKING for word in call.words):
        why = "sends the output of a local command to another machine"
        inv.found(Effect.LEAVES, why, remedy="with the address written out")


def _find_commands_and_outputs(inv: Invocation, call: Call) -> None:
    """Record commands and output files in options that the row does not list."""
    for word, following in zip(call.words, (*call.words[1:], None), strict=True):
        if word.text == "--":
            _find_command_after(inv, call)
            return
        if word.text[:1] == "-" and len(word.text) > 1:
            _find_in_option(inv, call, word, following)


def _find_in_option(inv: Invocation, call: Call, word: Word, following: Word | None) -> None:
    name, equals, text = word.text.partition("=")
    if word.text[:2] == "-o" and word.text[2:3] in {"/", "~"}:
        name, equals, text = "-o", "=", word.text[2:]
    value = word.with_text(text) if equals else following
    if value is None or name in call.program.valued or (value.text[:1] == "-" and not equals):
        return
    if _names_output(name):
        converts = name != "-o" or call.program.row.effect is Effect.WORK
        if converts and inv.scope.place(value.text).kind in _AWAY:
            inv.writes(value)
    if names_command(name) and _is_command(inv, value):
        inv.shell(value, f"{call.name} {name}")


def _is_command(inv: Invocation, word: Word) -> bool:
    """Return True if the value of an option looks like a command, not like a name."""
    first = word.text.partition(" ")[0]
    return not word.known or not {"/", " "}.isdisjoint(word.text) or inv.runner.knows(first)


def _find_command_after(inv: Invocation, call: Call) -> None:
    """Record the effects of a command after `--`, if the words there are one."""
    texts = [word.text for word in call.words]
    words = list(call.words[texts.index("--") + 1 :])
    row = call.program.row
    is_command = len(words) > 1 and words[0].fixed and inv.runner.knows(words[0].text)
    if row.run or row.patterns or not is_command:
        return
    inv.runner.program(words, inv.command, inv.scope, call.name)


def _find_secrets(inv: Invocation, call: Call, found: Sequence[Finding]) -> None:
    """Record files outside the project that an argument names in any spelling."""
    texts = call.program.row.texts
    skipped = {value for name, value in call.options if name in texts}
    words = [
        word
        for word in call.words
        if "/" in word.text
        and (word.text[0] in "/~-" or _is_compound(word.text))
        and word not in skipped
        and not (word.quoted and " " in word.text)
    ]
    if not words:
        return
    known = {touch.path for finding in found for touch in finding.touches}
    named = [path for word in words for path in _paths(_address.sub("", word.text))]
    new = [path for path in named if inv.scope.place(path).path not in known]
    inv.names([*new, *islice(_joined(call), MAX_JOINED)])


def _joined(call: Call) -> Iterator[str]:
    """Yield the files that a program may open below a folder: `-C /etc shadow`."""
    folder = ""
    for word in call.words:
        if word.text[:1] in {"/", "~"}:
            folder = word.text
        elif word.text.startswith("--") and word.text.partition("=")[2][:1] in {"/", "~"}:
            folder = word.text.partition("=")[2]
        elif folder and word.text[:1] != "-":
            yield posixpath.join(folder, word.text)
