"""Commits as a table, and diffs with colours."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from safetyd.console.render.layout import Columns, names, table
from safetyd.console.terminal_text import plain
from safetyd.core.text.diff_lines import DiffKind, diff_lines
from safetyd.operators.contract.history_contract import SHORT, CommitRow, CommitsAnswer

NO_PROJECT: Final = (
    'No project has file history. Set history = "shadow" and root under [projects.NAME].'
)
NONE: Final = "No matching commits."
HINT: Final = (
    "`safetyd history diff COMMIT` shows what a commit changed.\n"
    "`safetyd rollback COMMIT --soft --reason WHY` restores the state after COMMIT.\n"
    "`safetyd rollback COMMIT --revert --reason WHY` undoes COMMIT itself."
)

_COLOURS: Final[Mapping[DiffKind, str]] = {
    "added": "green",
    "removed": "red",
    "hunk": "cyan",
    "file": "yellow",
}


def commits(answer: CommitsAnswer, limit: int) -> str:
    """Return a table of commits, and the commands to use with them."""
    problems = [plain(problem) for problem in answer.problems]
    if not answer.projects:
        return "\n".join((*problems, NO_PROJECT))
    if not answer.commits:
        return "\n".join(
            (*problems, f"{NONE} Projects with file history: {names(answer.projects)}")
        )
    older = f"For older commits, add `--before {plain(answer.commits[-1].commit[:SHORT])}`."
    return "\n".join(
        (
            *problems,
            table(answer.commits, _COMMITS),
            "",
            *_left_out(answer.commits),
            HINT,
            *((older,) if len(answer.commits) >= limit else ()),
        )
    )


def change(text: str) -> str:
    """Return a diff, coloured on a terminal, or a message if there is none."""
    lines = diff_lines(text)
    if not sys.stdout.isatty():
        return "\n".join(plain(line.text) for line in lines)
    return "\n".join(click.style(plain(line.text), fg=_COLOURS.get(line.kind)) for line in lines)


def _author(row: CommitRow) -> str:
    """Return who made the changes of a commit."""
    match row.author:
        case "human" | "unknown":
            return row.author
        case "rollback":
            return f"rollback by {row.approver or '-'}"
        case "automatic_rollback":
            return "automatic rollback"
    return row.agent or row.approver or "-"


_COMMITS: Final[Columns[CommitRow]] = {
    "time": lambda row: row.at,
    "commit": lambda row: row.commit[:SHORT],
    "project": lambda row: row.project,
    "author": _author,
    "action": lambda row: row.action,
    "files": lambda row: row.files,
    "lines": lambda row: f"+{row.added} -{row.removed}",
    "subject": lambda row: row.subject,
}


def _left_out(rows: Sequence[CommitRow]) -> Iterator[str]:
    """Yield a line for each commit that omits files."""
    for row in rows:
        if row.left_out:
            yield f"{plain(row.commit[:SHORT])} omits {plain(row.left_out)}"
