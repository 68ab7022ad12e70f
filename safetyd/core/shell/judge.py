"""Analyses a command without running anything or opening a file."""

from collections.abc import Sequence
from typing import Final

import msgspec

from safetyd.core.shell.declared_checks import declared
from safetyd.core.shell.places import Project
from safetyd.core.shell.programs import Table
from safetyd.core.shell.readers import READERS
from safetyd.core.shell.reading import Effect, Finding
from safetyd.core.shell.scope import Scope, Trace
from safetyd.core.shell.shape import filled
from safetyd.core.shell.simple_commands import Commands
from safetyd.core.shell.tree import syntax
from safetyd.core.shell.tree.syntax import NotAnalysable

NOWHERE: Final = Project()


class Reading(msgspec.Struct, frozen=True, gc=False):
    """The result of an analysis: the findings in the order of execution."""

    findings: tuple[Finding, ...]
    shape: str = ""  # the command with placeholders for variable parts, see `shape`

    @property
    def effect(self) -> Effect:
        """The strictest effect of all findings."""
        return max((f.effect for f in self.findings), key=lambda e: e.rank, default=Effect.READ)


def read(
    text: str, table: Table, project: Project = NOWHERE, checks: Sequence[str] = ()
) -> Reading:
    """Analyse a command. If it cannot be analysed, a finding says why.

    `checks` are commands that the project declares; see `declared_checks`.
    """
    trace = Trace(text)
    try:
        syntax.check(text)
        known = declared(tuple(checks), table) if checks else None
        Commands(table, READERS, trace, known).read(text, Scope(project))
    except NotAnalysable as exc:
        trace.findings.append(_unreadable(text, str(exc)))
        return Reading(tuple(trace.findings), text)
    except RecursionError:
        trace.findings.append(_unreadable(text, "it is nested too deeply"))
        return Reading(tuple(trace.findings), text)
    return Reading(tuple(trace.findings), filled(text, trace.blanks))


def _unreadable(text: str, why: str) -> Finding:
    whole = Trace(text)
    end = len(text.encode("utf-8", "replace"))
    return Finding(
        effect=Effect.UNKNOWN,
        why=f"cannot be analysed: {why}",
        shown=whole.shown(0, end),
        end=end,
        remedy="as a simpler command",
        said=text,
    )
