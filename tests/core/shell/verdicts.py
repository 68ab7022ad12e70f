"""The verdict on a command: pass (allowed), ask (needs approval) or block."""

from collections.abc import Sequence

from safetyd.core.shell import judge, programs
from safetyd.core.shell.judge import NOWHERE
from safetyd.core.shell.places import Project
from safetyd.core.shell.reading import Finding

TABLE = programs.shipped()


def stopping(
    command: str,
    project: Project = NOWHERE,
    table: programs.Table = TABLE,
    checks: Sequence[str] = (),
) -> list[Finding]:
    """Return the findings that need approval or are blocked."""
    findings = judge.read(command, table, project, checks).findings
    return [finding for finding in findings if not finding.passes]


def verdict(command: str, project: Project = NOWHERE, table: programs.Table = TABLE) -> str:
    found = stopping(command, project, table)
    if any(finding.blocks for finding in found):
        return "block"
    return "ask" if found else "pass"
