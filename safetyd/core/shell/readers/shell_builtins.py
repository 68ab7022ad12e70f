"""Shell builtins: `cd`, `eval`, `source`, `trap`, `alias`, `echo` and others."""

import re
from typing import Final

from safetyd.core.shell import places, rows
from safetyd.core.shell.code.secret_names import looks_secret, shows_names_only
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import HOLE, Effect
from safetyd.core.shell.words import (
    COMMAND,
    DECODED,
    KNOWN,
    LIST,
    NAME,
    NETWORK,
    NOTHING,
    PROJECT,
    SETUP,
    UNKNOWN_TEXT,
    VARIABLE,
    Flow,
    Word,
    as_one,
    least_trusted,
)

_TEMPORARY: Final = "/tmp/tmp.made"  # noqa: S108 - the assumed result of mktemp
_JOB: Final = "$!\n"  # the assumed content of a .pid file: the agent started that process
_variables = re.compile(r"\$(?:\{(\w+)(?::\d[^}]*)?\}|(\w+))").findall
_SHOWN: Final = "prints all environment variables, including secrets"
_ON_EXIT: Final = frozenset({"EXIT", "0"})
# Options of the shell that change the meaning of words or folders.
_CONFUSING: Final = frozenset({"cdable_vars", "xpg_echo", "keyword"})
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


def read_cd(inv: Invocation) -> None:
    """Analyse `cd` and `pushd`. Later relative paths start in the new folder."""
    inv.found(Effect.READ, "changes the current directory")
    target = inv.call.arguments[0] if inv.call.arguments else None
    if target is None:
        inv.scope.enter("~" if inv.call.name == "cd" else None)
    elif not target.fixed or target.text == "-":
        inv.scope.enter(None)
    else:
        inv.scope.enter(target.text)
    inv.output = NOTHING


def read_eval(inv: Invocation) -> None:
    if not inv.call.words:
        return
    text = as_one(inv.call.words)
    if text.known:
        inv.output = inv.runner.sourced(text.text, text, inv.scope, "eval")
    elif text.origin == SETUP and text.text == HOLE:
        _set_up(inv)
    else:
        inv.runs_unknown(text.origin, "a command")


def _set_up(inv: Invocation) -> None:
    """Record that a well-known tool sets up the shell. It may set any variable."""
    inv.found(Effect.WORK, "sets up the shell for a tool")
    inv.scope.forget_all()


def read_source(inv: Invocation) -> None:
    """Analyse a script that runs in the current shell."""
    if not inv.call.arguments:
        inv.found(Effect.UNKNOWN, "runs a script that the command does not name")
        return
    first = inv.call.arguments[0]
    source = inv.source(first)
    if source is not None and source.origin == SETUP:
        _set_up(inv)
    else:
        inv.script(first, inv.call.name)


def read_trap(inv: Invocation) -> None:
    """Analyse `trap`, whose script runs on exit, on a signal, or before every command."""
    inv.found(Effect.READ, "runs a command on exit")
    if not inv.call.arguments or inv.call.arguments[0].text in {"-", ""}:
        return
    script, *signals = inv.call.arguments
    if not script.known:
        inv.runs_unknown(script.origin, "a command")
        return
    inv.runner.trap(script, inv.scope, late=all(word.text in _ON_EXIT for word in signals))


def read_completion(inv: Invocation) -> None:
    """Analyse `compgen` and `complete`, which expand their list of words as a shell does."""
    rows.apply(inv)
    for word in inv.call.values("-W"):
        if not word.known and word.origin in {DECODED, NETWORK}:
            inv.runs_unknown(word.origin, "a list of words")
        elif not set("$`").isdisjoint(word.text):
            inv.shell(word.with_text(f": {word.text}"), f"{inv.call.name} -W")


def read_alias(inv: Invocation) -> None:
    inv.found(Effect.READ, "defines an alias")
    for word in inv.call.arguments:
        name, equals, value = word.text.partition("=")
        if not equals:
            continue
        if HOLE in name or HOLE in value:
            inv.runs_unknown(word.origin, "an alias")
        else:
            inv.scope.functions[name] = value
            inv.scope.called.discard(name)


def read_command(inv: Invocation) -> None:
    """Analyse `command`, `builtin` and `exec`, which run or look up a command."""
    call = inv.call
    if call.name == "command" and call.has("-v", "-V"):
        inv.found(Effect.READ, "looks up a program")
    elif not call.words:
        inv.found(Effect.READ, "does nothing")
    else:
        skipped = 1 if call.name == "exec" and call.words[0].text == "-c" else 0
        words = (
            [w for w in call.words[skipped:] if w.text != "-p"]
            if call.name == "command"
            else (list(call.words[skipped:]))
        )
        if call.name == "exec" and words and words[0].text == "-a":
            words = words[2:]
        if words:
            inv.output = inv.runner.program(words, inv.command, inv.scope, call.name)


def read_echo(inv: Invocation) -> None:
    """Analyse `echo` and `printf`, whose output is known."""
    call = inv.call
    inv.found(Effect.READ, "prints text", said="")
    if any(word.text.startswith(HOLE) and word.origin in {COMMAND, LIST} for word in call.words):
        _secret_shown(inv)
    texts = [word.text for word in call.words]
    origin = least_trusted([word.origin for word in call.words])
    escapes = call.name == "printf"
    if call.name == "echo":
        while texts and texts[0] in {"-n", "-e", "-E", "-ne", "-en"}:
            escapes = escapes or "e" in texts[0]
            texts = texts[1:]
    elif texts and texts[0].startswith("-v"):
        inv.output = NOTHING
        _printed_to(texts[0].removeprefix("-v") or "".join(texts[1:2]), inv)
        return
    elif texts and texts[0].startswith(HOLE) and call.words[0].origin not in {VARIABLE, NAME}:
        inv.scope.forget_all()  # it may be `-v` with the name of a variable
    elif texts:
        texts = [_formatted(texts[0], texts[1:])]
    said = " ".join(texts)
    if escapes and "\\" in said:
        for escape, char in _ESCAPES.items():
            said = said.replace(escape, char)
        if "\\x" in said or "\\0" in said or "\\1" in said or "\\u" in said:
            inv.output = Flow(None, "decoded")
            return
    inv.output = Flow(said if said.endswith("\n") else f"{said}\n", origin or KNOWN)


def _printed_to(variable: str, inv: Invocation) -> None:
    """Forget the variable that `printf -v` sets."""
    if HOLE in variable:
        inv.scope.forget_all()
    inv.scope.forget((variable.partition("[")[0],))


def read_shell_option(inv: Invocation) -> None:
    """Analyse `shopt`."""
    rows.apply(inv)
    _confuse(inv, [word.text for word in inv.call.arguments])


def _confuse(inv: Invocation, options: list[str]) -> None:
    """Record options of the shell that the analysis does not follow."""
    if not _CONFUSING.isdisjoint(options):
        why = "changes a shell option that affects the meaning of later commands"
        inv.found(Effect.UNKNOWN, why)


def _secret_shown(inv: Invocation) -> None:
    """Record that the command prints a variable whose name suggests a secret."""
    for braced, bare in _variables(inv.written):
        if looks_secret(braced or bare):
            why = f"prints {braced or bare}, whose name suggests a secret"
            inv.found(Effect.SECRETS, why, type="read_credentials")


def read_environment(inv: Invocation) -> None:
    """Analyse `printenv`, `set`, `export` and `declare`, which may print all variables."""
    call, name = inv.call, inv.call.name
    given = [word.text for word in call.arguments]
    if name == "printenv":
        shows = not given
    elif name == "set":
        shows = not call.words
        flags = [text for text, _ in call.options]
        if "-e" in flags or "errexit" in given:
            inv.scope.errexit = True
        if any(word.text.startswith("+") for word in call.words):
            inv.scope.errexit = False
        _confuse(inv, ["keyword"] if "-k" in flags else given[:1] if "-o" in flags else [])
        if call.words and call.words[0].text == "--":
            inv.scope.set_arguments(call.words[1:])
    else:
        shows = not given and not inv.command.assignments and not call.has("-f", "-F")
    if shows and not shows_names_only(inv.scope.piped_to):
        inv.found(Effect.SECRETS, _SHOWN, type="read_credentials")
    elif name == "printenv" and any(looks_secret(each) or HOLE in each for each in given):
        inv.found(Effect.SECRETS, "prints a secret from the environment", type="read_credentials")
    else:
        rows.apply(inv)


def _formatted(template: str, words: list[str]) -> str:
    """Fill arguments into a `printf` format, repeating it as needed."""
    if "%" not in template:
        return template
    parts = template.replace("%%", "\x01").split("%")
    if any(part[:1] not in {"s", "b", "d", "q"} for part in parts[1:]):
        return HOLE
    said, left = "", list(words)
    while True:
        said += parts[0]
        for part in parts[1:]:
            said += (left.pop(0) if left else "") + part[1:]
        if not left or len(parts) == 1:
            return said.replace("\x01", "%")


def read_cat(inv: Invocation) -> None:
    """Analyse programs that print files or their input unchanged."""
    rows.apply(inv)
    files = [word for word in inv.call.arguments if word.text != "-"]
    if not files:
        inv.output = inv.stdin or UNKNOWN_TEXT
        return
    flows = [_held(word, inv) for word in files]
    origin = least_trusted([flow.origin for flow in flows])
    known = all(flow.text is not None for flow in flows)
    inv.output = Flow("".join(flow.text or "" for flow in flows) if known else None, origin)


def _held(word: Word, inv: Invocation) -> Flow:
    where = inv.scope.place(word.text)
    if not word.fixed:
        return Flow(None, word.origin or COMMAND)
    inside = where.kind == places.INSIDE
    if where.path.endswith(".pid") and (inside or where.kind == places.TEMPORARY):
        return Flow(_JOB, KNOWN)
    return inv.scope.files.get(where.path, Flow(None, PROJECT if inside else COMMAND))


def read_ls(inv: Invocation) -> None:
    """Analyse `ls`, which prints the names of files, or of the files in a folder."""
    rows.apply(inv)
    words = inv.call.arguments
    names = [name for word in words for name in _listed(word, inv)]
    known = all(word.known for word in words)
    text = "".join(f"{name}\n" for name in names or ["./*"])
    inv.output = Flow(text if known else None, COMMAND)


def _listed(word: Word, inv: Invocation) -> tuple[str, ...]:
    """Return the names that `ls` may print: a file as it is given, and bare names in a folder."""
    if word.globs:
        return (word.text,)
    folder = inv.scope.place(word.text).kind in {places.SYSTEM, places.HOME}
    return ("./*",) if folder and not inv.call.has("-d") else (word.text, "./*")


def read_mktemp(inv: Invocation) -> None:
    inv.found(Effect.WORK, "creates a temporary file")
    elsewhere = inv.call.arguments or inv.call.has("-p", "--tmpdir")
    for word in (*inv.call.values("-p", "--tmpdir"), *inv.call.arguments):
        if "/" in word.text:
            inv.writes(word, "creates a file in")
    inv.output = UNKNOWN_TEXT if elsewhere else Flow(f"{_TEMPORARY}\n", KNOWN)


def read_pwd(inv: Invocation) -> None:
    """Analyse `pwd`."""
    inv.found(Effect.READ, "prints the current directory")
    cwd = inv.scope.cwd
    inv.output = UNKNOWN_TEXT if cwd is None else Flow(f"{cwd or '.'}\n", KNOWN)
