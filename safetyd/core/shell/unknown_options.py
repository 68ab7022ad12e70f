"""Finds arguments that are only known at run time and may be harmful options."""

from collections.abc import Sequence
from typing import Final

from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import HOLE, Effect, Finding, word_set
from safetyd.core.shell.words import LIST, NAME, VARIABLE, Flow

# Readers of programs whose rows do not list all options that write, delete or run something.
_READERS: Final = frozenset({"awk", "git", "sed", "tar", "zip"})
# Readers that handle unknown words themselves, or pass them to another program.
_OTHERS: Final = frozenset({"find", "targets", "interpreter", "package_runner"})
# Git verbs that have no harmful options, or whose reader handles unknown words.
_HARMLESS: Final = word_set("""
    add blame cat-file check-ignore checkout describe ls-files ls-tree merge-base name-rev
    rev-list rev-parse show-ref status stash switch restore
""")


# Uses that print only generated names if one of these options is given.
_NAMING: Final = {
    "docker ps": ("-q", "-aq", "-qa", "--quiet"),
    "docker images": ("-q", "--quiet"),
    "podman ps": ("-q", "--quiet"),
    "podman images": ("-q", "--quiet"),
    "kubectl get": ("-o=name", "--output=name"),
    "nproc": (),
    "go list": (),
    "pkg-config": ("--cflags", "--libs"),
}

_NAMERS: Final = frozenset(name.partition(" ")[0] for name in _NAMING)


def printed(inv: Invocation, call: Call) -> Flow:
    """Return the output of a program. Its origin is `NAME` if it consists of generated names."""
    if call.name not in _NAMERS:
        return inv.output
    options = _NAMING.get(f"{call.name} {call.verb}", _NAMING.get(call.name))
    if options is None or not all(word.fixed for word in call.words):
        return inv.output
    plain = any(map(call.has_surely, options)) if options else not call.has("-f")
    return Flow(None, NAME) if plain else inv.output


def find_unknown_options(inv: Invocation, call: Call, found: Sequence[Finding]) -> None:
    """Record that a call may have harmful options, unless it needs approval anyway."""
    unknown = [word for word in call.words if HOLE in word.text]
    if not unknown:
        return
    named = VARIABLE if call.program.row.reader not in _READERS else NAME
    opened = [w for w in unknown if w.origin == LIST or not (w.quoted or w.origin == named)]
    if not opened or set(opened).isdisjoint(call.unnamed) or not _can_harm(call):
        return
    if all(finding.passes for finding in found):
        why = "has arguments that are only known at run time and may be harmful options"
        inv.found(Effect.UNKNOWN, why, remedy="with these arguments written out, or after `--`")


def _can_harm(call: Call) -> bool:
    """Return True if an option of the program may write, delete or run something."""
    row = call.program.row
    if row.reader in _READERS:
        return call.verb not in _HARMLESS
    if row.wraps is not None or row.reader in _OTHERS:
        return False
    return bool(row.writes or row.runs or row.loads) or any(
        use.options or use.verb.with_ for use in call.program.uses if not use.effect.passes
    )
