"""Text programs with their own language: sed, awk, pagers, Miller."""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from safetyd.core.shell import rows
from safetyd.core.shell.code.awk_code import read_awk as awk_code
from safetyd.core.shell.code.secret_names import looks_secret
from safetyd.core.shell.code.sed_code import read_sed as sed_code
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.readers.deletions import run_code
from safetyd.core.shell.reading import HOLE, Code, Effect
from safetyd.core.shell.words import DECODED, NETWORK, Word

# Relevant options of sed, by their shortest abbreviation.
_SED_LONG: Final = {"--e": "e", "--fi": "f", "--l": "l", "--i": "i", "--s": "s"}
_DESCRIBING: Final = ("-o", "-d", "-p", "--pretty-print", "--profile", "--dump-variables")
_IN_PLACE: Final = frozenset({"inplace", "inplace.awk"})
_only_moves = re.compile(r"\+(F|[0-9]*[gG]?|/[^\n]*)").fullmatch
_in_address = re.compile(rf"((?:^|[,;{{\n])\s*\+?){HOLE}(?=\s*[,!{{a-zA-Z=])").sub
_compared = re.compile(rf"([=!<>]=\s*){HOLE}(?=\s*(?:$|[&|){{;,]))").sub
_acts = re.compile(
    r"tee$|split$|case$|.*\b(system|exec|tee|dump|emit\w*|print\w*)\b.*(\(|>|\|)", re.DOTALL
).match


# The environment in a filter of jq: `env`, `$ENV.X`, but not `.env` or `{env: 1}`.
_environment = re.compile(r"(?:(?<![.\w$\"'-])env\b(?!\s*[:\"'-])|\$ENV\b)(?:\.(\w+))?").finditer


class _Script(NamedTuple):
    """The arguments of sed: scripts, script files, and input files."""

    texts: list[Word]
    files: list[Word]
    arguments: list[Word]
    in_place: bool
    known: bool  # False if an option is only known at run time


def read_jq(inv: Invocation) -> None:
    """Analyse `jq`, whose filter may print environment variables."""
    rows.apply(inv)
    for word in inv.call.arguments[:1]:
        if any(not found[1] or looks_secret(found[1]) for found in _environment(word.text)):
            why = "prints environment variables, including secrets"
            inv.found(Effect.SECRETS, why, type="read_credentials")


def read_sed(inv: Invocation) -> None:
    """Analyse `sed`: its script, and the files that it prints or changes in place."""
    script = _sed(inv)
    texts, files = list(script.texts), list(script.arguments)
    if script.in_place and len(files) > 1 and not files[0].text:
        files = files[1:]  # in `sed -i '' ...` the suffix is a separate word
    if not texts and not script.files and files:
        texts.append(files.pop(0))
    if not script.known:
        inv.found(Effect.UNKNOWN, "has options that are only known at run time")
    inv.found(Effect.WORK if script.in_place else Effect.READ, "edits text", said="")
    for word in texts:
        _code(inv, word, _sed_with_numbers)
    for word in script.files:
        _script_file(inv, word, sed_code)
    _files(inv, files, changed=script.in_place)


def _sed(inv: Invocation) -> _Script:
    script = _Script([], [], [], in_place=False, known=True)
    words = iter(inv.call.words)
    for word in words:
        if word.text == "--":
            script.arguments.extend(words)
        elif word.text.startswith("-") and len(word.text) > 1:
            script = _sed_option(script, word, words)
        else:
            script.arguments.append(word)
    return script


def _sed_option(script: _Script, word: Word, words: Iterator[Word]) -> _Script:
    text = word.text
    if HOLE in text.partition("=")[0] and not text.startswith(("-e", "-i")):
        return script._replace(known=False)
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        letter = next((_SED_LONG[begin] for begin in _SED_LONG if name.startswith(begin)), "")
        rest = word.with_text(value) if equals else None
    else:
        at = next((n for n, each in enumerate(text) if each in "efli"), 0)
        letter = text[at] if at else ""
        rest = word.with_text(text[at + 1 :]) if text[at + 1 :] else None
    if letter == "i":
        return script._replace(in_place=True)
    if letter in {"e", "f", "l"} and rest is None:
        rest = next(words, None)
    if rest is not None and letter == "e":
        script.texts.append(rest)
    elif rest is not None and letter == "f":
        script.files.append(rest)
    return script


def read_awk(inv: Invocation) -> None:
    """Analyse `awk`: its program, and the files that it reads."""
    call = inv.call
    programs, included = call.values("-f", "--file", "-E", "--exec"), call.values("-i", "--include")
    texts, files = call.values("-e", "--source"), call.arguments
    if not texts and not programs and files:
        texts, files = files[:1], files[1:]
    inv.found(Effect.READ, "reads text", said="")
    if call.has("-l", "--load"):
        inv.found(Effect.UNKNOWN, "loads a library")
    if call.has(*_DESCRIBING):
        inv.found(Effect.UNKNOWN, "writes a profile or dump of its program")
    for word in texts:
        _code(inv, word, _awk_with_numbers)
    for word in (*programs, *included):
        if word.text not in _IN_PLACE:
            _script_file(inv, word, awk_code)
    files = [word for word in files if "=" not in word.text]
    _files(inv, files, changed=any(word.text in _IN_PLACE for word in included))


def _sed_with_numbers(script: str) -> Code:
    """Analyse a sed script. An unknown line address counts as a number."""
    return sed_code(_in_address(r"\g<1>1", script))


def _awk_with_numbers(program: str) -> Code:
    """Analyse an awk program. An unknown operand of a comparison counts as a number."""
    return awk_code(_compared(r"\g<1>1", program))


def _code(inv: Invocation, word: Word, read: Callable[[str], Code]) -> None:
    """Record the effects of a script in the arguments."""
    if word.text == HOLE or word.origin in {NETWORK, DECODED}:
        inv.runs_unknown(word.origin, "a script")
    else:
        run_code(inv, read(word.text), word, inv.call.name)


def _script_file(inv: Invocation, word: Word, read: Callable[[str], Code]) -> None:
    """Record the effects of a script in a file."""
    name = inv.call.name
    inv.script(word, f"{name} -f", lambda text: run_code(inv, read(text), word, name))


def _files(inv: Invocation, files: list[Word], *, changed: bool) -> None:
    """Record that files are read, or changed in place."""
    for word in files if changed else ():
        inv.writes(word, "changes")
    inv.reads(*files)
    inv.output = rows.printed(inv)


def read_pager(inv: Invocation) -> None:
    """Analyse `less` and similar programs. An argument that starts with `+` is a pager command."""
    inv.found(Effect.READ, "shows files")
    typed = [word for word in inv.call.words if word.text.startswith("+")]
    if not all(_only_moves(word.text) for word in typed):
        inv.found(Effect.UNKNOWN, "runs a pager command that is not analysed")
    for word in inv.call.values("-o", "-O", "--log-file", "--LOG-FILE"):
        inv.writes(word)
    files = [word for word in inv.call.arguments if not word.text.startswith("+")]
    inv.reads(*files, *inv.call.values("-k", "--lesskey-file", "--lesskey-src"))
    inv.output = rows.printed(inv)


def read_mlr(inv: Invocation) -> None:
    """Analyse `mlr`, whose language can run commands and write files."""
    call = inv.call
    inv.found(Effect.READ, "prints tables", said="")
    if any(_acts(word.text) for word in call.words):
        inv.found(Effect.UNKNOWN, "runs code that can write files or run commands")
    if call.has("--prepipe", "--prepipex", "--load", "--mload", "-s"):
        inv.found(Effect.UNKNOWN, "runs commands or scripts before reading its input")
    files = [word for word in call.arguments if "." in word.text or "/" in word.text]
    inv.reads(*call.values("--from"))
    _files(inv, files, changed=call.has("-I"))
