"""Shells, and the scripts that they run."""

from safetyd.core.shell import places
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import HOLE, Effect
from safetyd.core.shell.words import Word


def read_shell(inv: Invocation) -> None:
    """Analyse `sh -c TEXT`, `sh FILE`, and a shell that runs its input."""
    call, name = inv.call, inv.call.name
    if _has_socket(inv):
        inv.found(Effect.UNKNOWN, "gives another machine a shell on this machine", blocks=True)
        return
    for _, value in call.options:
        if value is not None and value.text and call.has("--rcfile", "--init-file"):
            inv.script(value, name)
    text, script, checks = _given(inv)
    if checks and text is None:
        inv.found(Effect.READ, "only checks syntax")
        inv.reads(*call.arguments)
    elif text is not None:
        after = call.words[call.words.index(text) + 1 :]  # the first is the name of the script
        inv.output = inv.shell(text, f"{name} -c", inv.stdin, after[1:])
    elif script is not None:
        inv.script(script, name)
        inv.reads(*call.arguments[1:])
    else:
        _from_input(inv)


def _given(inv: Invocation) -> tuple[Word | None, Word | None, bool]:
    """Return the text of `-c`, the script file, and whether the shell only checks the syntax."""
    text = script = None
    checks = takes_text = takes_input = False
    words = list(inv.call.words)
    while words:
        word = words.pop(0)
        said = word.text
        if said in {"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}:
            words = words[1:]
        elif said.startswith(("-", "+")) and len(said) > 1 and not said.startswith("--"):
            takes_text = takes_text or "c" in said[1:]
            takes_input = takes_input or "s" in said[1:]
            checks = checks or ("n" in said[1:] and said[0] == "-")
        elif said.startswith("--"):
            continue
        elif takes_text:
            text = word
            break
        else:
            script = None if takes_input or said == "-" else word
            break
    return text, script, checks


def _from_input(inv: Invocation) -> None:
    """Analyse the input of a shell."""
    given = inv.stdin
    if given is None:
        inv.found(Effect.UNKNOWN, "opens an interactive shell", traits=("open_input",))
    elif given.text is not None and HOLE not in given.text:
        word = inv.command.words[0]._replace(inner=-1)
        inv.output = inv.runner.text(given.text, word, inv.scope, inv.call.name, None)
    else:
        inv.runs_unknown_input(given)


def _has_socket(inv: Invocation) -> bool:
    return any(
        inv.scope.place(redirect.target.text).kind == places.SOCKET
        for redirect in inv.command.redirects
    )
