"""Programs that kill, trace or inspect processes."""

import re
from typing import Final

from safetyd.core.shell.calls import Call, after_options, split_command
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import Effect
from safetyd.core.shell.words import Word

_is_job = re.compile(r"%[\w+%-]*|\$!|\$\$").fullmatch
_is_signal = re.compile(r"-[A-Za-z0-9]+").fullmatch
_only_looks = re.compile(
    r"r|run|start|bt|bt full|backtrace|where|q|quit|c|continue|list|l|info [\w ]+"
    r"|thread apply all bt( full)?|set (pagination|confirm) off"
).fullmatch
_LISTS: Final = frozenset({"-l", "-L", "--list", "--table"})
_MORE: Final = frozenset({"-u", "-U", "--euid", "--uid", "-g", "-P", "-t", "-v", "-s", "-G"})
_OWN_JOB: Final = "as `kill $!` or `kill %1` for a process that this command started"
_PROFILES: Final = frozenset({"stat", "record", "trace", "top", "mem", "c2c", "lock"})
_REPORTS: Final = frozenset({"report", "annotate", "list", "diff", "evlist", "version", "help"})


def read_kill(inv: Invocation) -> None:
    """Analyse `kill`. Killing a process that the same command started is allowed."""
    words = list(inv.call.words)
    if not words or words[0].text in _LISTS:
        inv.found(Effect.READ, "lists signals")
        return
    targets, signal = _targets(words)
    if signal in {"0", "EXIT"}:
        inv.found(Effect.READ, "checks whether a process is running")
    elif "-1" in targets:
        inv.found(Effect.IRREVERSIBLE, "kills every process of the user", blocks=True)
    elif all(_is_job(target) for target in targets):
        inv.found(Effect.WORK, "stops a process that this command started")
    else:
        why = "kills a process that this command did not start"
        inv.found(Effect.IRREVERSIBLE, why, remedy=_OWN_JOB)


def _targets(words: list[Word]) -> tuple[list[str], str]:
    """Return the targets and the signal."""
    texts = [word.text for word in words]
    if texts[0] in {"-s", "-n", "--signal"}:
        signal, rest = (texts[1] if len(texts) > 1 else ""), texts[2:]
    elif texts[0].startswith("--signal="):
        signal, rest = texts[0].partition("=")[2], texts[1:]
    elif _is_signal(texts[0]):
        signal, rest = texts[0][1:], texts[1:]
    else:
        signal, rest = "", texts
    return [text for text in rest if text != "--"], signal


def read_kill_by_name(inv: Invocation) -> None:
    """Analyse `pkill` and `killall`."""
    texts = {word.text for word in inv.call.words}
    if texts & {"-0", "-l", "--list"} and not texts & {"-9", "-KILL", "-TERM", "-15"}:
        inv.found(Effect.READ, "lists processes")
        return
    names = [w.text for w in inv.call.arguments if w.fixed]
    started = inv.scope.started
    if names and all(any(name in each for each in started) for name in names) and not texts & _MORE:
        inv.found(Effect.WORK, "stops a process that this command started")
        return
    inv.found(
        Effect.IRREVERSIBLE,
        "kills all processes with this name, even those of other programs",
        remedy=_OWN_JOB,
    )


def read_tracer(inv: Invocation) -> None:
    """Analyse `strace` and similar programs, and the program that they trace."""
    own, words = split_command(inv.call)
    for value in own.values("-o", "--output"):
        if value.text.startswith(("|", "!")):
            inv.shell(value.with_text(value.text[1:]), f"{inv.call.name} -o")
        else:
            inv.writes(value)
    if own.has("-E", "--env"):
        inv.found(Effect.UNKNOWN, "sets environment variables for the traced program")
    _watch(inv, own, words)


def read_profiler(inv: Invocation) -> None:
    """Analyse `perf`, and the program that it measures."""
    verb = inv.call.verb
    inv.named = f"{inv.call.name} {verb}".strip()
    if verb in _REPORTS:
        inv.found(Effect.READ, "shows a profile")
        inv.reads(*inv.call.values("-i", "--input"))
    elif verb not in _PROFILES:
        inv.found(Effect.UNKNOWN)
    else:
        at = [word.text for word in inv.call.words].index(verb) + 1
        words = after_options(inv.call.words[at:], inv.call.program.valued)
        own = inv.call.words[: len(inv.call.words) - len(words)]
        call = Call(inv.call.program, inv.call.name, own, None)
        for value in call.values("-o", "--output"):
            inv.writes(value)
        _watch(inv, call, words)


def _watch(inv: Invocation, own: Call, words: list[Word]) -> None:
    """Analyse the traced command. Tracing a running process needs approval."""
    if own.has("-p", "--pid", "--attach", "-a", "--all-cpus") or not words:
        inv.found(Effect.PRIVILEGED, "inspects running processes")
    else:
        inv.output = inv.runner.program(words, inv.command, inv.scope, inv.call.name)


def read_debugger(inv: Invocation) -> None:
    """Analyse `gdb` and `lldb`: the debugger commands, and the program."""
    call = inv.call
    typed = call.values("-ex", "-iex", "--ex", "-eval-command", "--eval-command", "-o", "-O")
    if call.has("-p", "-pid", "--pid", "-n"):
        inv.found(Effect.PRIVILEGED, "inspects a running process")
    if not typed or not all(_only_looks(word.text) for word in typed):
        inv.found(Effect.UNKNOWN, "runs debugger commands that are not analysed")
    if call.has("-x", "-command", "--command", "-s", "-S", "-source"):
        inv.found(Effect.UNKNOWN, "runs a file of debugger commands, which is not analysed")
    words = list(call.arguments)
    texts = [word.text for word in call.words]
    if "--args" in texts or "--" in texts:
        at = next(n for n, text in enumerate(texts) if text in {"--args", "--"})
        words = list(call.words[at + 1 :])
    if words:
        inv.runner.program(words, inv.command, inv.scope, call.name)
