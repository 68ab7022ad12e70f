"""Commits for display: lists, single commits, and diffs."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import asdict

from safetyd.extras.file_history.commit_messages import CommitNote, read, value_line
from safetyd.extras.file_history.git_process import Git
from safetyd.operators.contract.history_contract import CommitRow

# A diff and a message of these sizes fit into one answer together, as JSON.
MAX_DIFF: Final = 192 * 1024  # bytes
MAX_MESSAGE: Final = 16 * 1024
_PLAIN: Final = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_COUNTS: Final = re.compile(
    r"(\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?"
)


class ReadCommit(NamedTuple):
    """A commit and its parsed message."""

    commit: str
    at: datetime
    note: CommitNote


def read_commits(git: Git, names: list[str]) -> Iterator[ReadCommit]:
    """Yield commits in the order of their names."""
    for record in _logged(git, names, "%H %at%n%B%x00").split("\0")[:-1]:
        head, _, message = record.lstrip("\n").partition("\n")
        commit, _, seconds = head.partition(" ")
        yield ReadCommit(commit, datetime.fromtimestamp(int(seconds), UTC), read(message))


def lacking(git: Git, commit: str) -> Iterator[tuple[bytes, str]]:
    """Yield the files that are missing from a commit, according to its message."""
    if left_out := next(read_commits(git, [commit])).note.left_out:
        yield left_out.encode(), f"(left out of {commit[:12]})"


class Wanted(NamedTuple):
    """Filter for commits; empty fields match anything."""

    note: dict[str, str]  # fields of a message and their values
    paths: list[bytes]  # paths that a commit changed, or folders that contain such a path
    since: datetime | None = None
    until: datetime | None = None
    before: str = ""  # only commits listed after this one


def matching(git: Git, pages: Iterable[list[str]], limit: int, wanted: Wanted) -> list[ReadCommit]:
    """Return the first matching commits."""
    asked = {field: value_line(value) for field, value in wanted.note.items() if value}
    found = list[ReadCommit]()
    for names in _after(pages, wanted.before):
        touching = _touching(git, names, wanted.paths) if wanted.paths else names
        for commit in read_commits(git, touching):
            told = all(getattr(commit.note, field) == value for field, value in asked.items())
            if told and _in_time(commit.at, wanted):
                found.append(commit)
            if len(found) >= limit:
                return found
    return found


def rows(git: Git, project: str, commits: list[ReadCommit]) -> list[CommitRow]:
    """Return commits with the numbers of changed files and lines."""
    names = [commit.commit for commit in commits]
    counted = dict[str, tuple[int, ...]]()
    for record in _logged(git, names, "%x00%H", "--shortstat", "--no-renames").split("\0")[1:]:
        counts = _COUNTS.search(record)
        counted[record[: record.find("\n")]] = (
            tuple(int(number or 0) for number in counts.groups()) if counts else (0, 0, 0)
        )
    return [_row(project, commit, *counted[commit.commit]) for commit in commits]


def shown_commit(git: Git, commit: str) -> str:
    """Return a commit's message and the list of changed files."""
    form = "--format=commit %H%nDate: %aI%n%n%B"
    asked = ("log", "--no-walk", form, "--stat=100", *_PLAIN, commit, "--")
    text, whole = _bounded(git, MAX_MESSAGE, *asked)
    return text if whole else f"{text}\n[cut after {MAX_MESSAGE // 1024} KiB]\n"


def shown_diff(git: Git, commit: str, other: str) -> str:
    """Return the diff of a commit, or the diff between two commits."""
    trees = (commit, other) if other else ("--root", "--no-commit-id", commit)
    text, whole = _bounded(git, MAX_DIFF, "diff-tree", "-p", "-r", *_PLAIN, *trees, "--")
    if whole:
        return text
    asked = f"diff {commit} {other}" if other else f"show {commit}"
    where = shlex.quote(str(git.folder))
    command = f"git --git-dir {where} {asked} --no-ext-diff --no-textconv"
    return f"{text}\n[cut after {MAX_DIFF // 1024} KiB; for the whole diff, run: {command}]\n"


def _after(pages: Iterable[list[str]], commit: str) -> Iterator[list[str]]:
    """Yield the names that come after a commit, or all names."""
    rest = iter(pages)
    if commit:
        for names in rest:
            if commit in names:
                yield names[names.index(commit) + 1 :]
                break
    yield from rest


def _touching(git: Git, names: list[str], paths: list[bytes]) -> list[str]:
    """Return the commits that changed one of the paths, even if a path looks like an option."""
    asked = "".join(f"{name}\n" for name in names).encode()
    walk = ("diff-tree", "--stdin", "-r", "--root", "-m", "-s", "--format=%H", *_PLAIN, "--")
    found = git.read(*walk, *map(os.fsdecode, paths), stdin=asked).decode().split()
    return list(dict.fromkeys(found))


def _in_time(at: datetime, wanted: Wanted) -> bool:
    since, until = wanted.since, wanted.until
    return (since is None or at >= since) and (until is None or at <= until)


def _row(project: str, commit: ReadCommit, files: int, added: int, removed: int) -> CommitRow:
    about = asdict(commit.note)
    del about["why"], about["target"]
    return CommitRow(
        project=project,
        commit=commit.commit,
        at=commit.at,
        author=commit.note.author,
        files=files,
        added=added,
        removed=removed,
        **about,
    )


def _logged(git: Git, names: list[str], form: str, *options: str) -> str:
    if not names:
        return ""
    asked = "".join(f"{name}\n" for name in names).encode()
    walk = ("log", "--no-walk=unsorted", "--stdin", f"--format={form}")
    return git.read(*walk, *options, stdin=asked).decode(errors="replace")


def _bounded(git: Git, limit: int, *arguments: str) -> tuple[str, bool]:
    """Return as much of git's output as fits as JSON, and True if it is complete."""
    out, whole = git.beginning(limit, *arguments)
    text = out.decode(errors="replace")
    while (size := len(msgspec.json.encode(text))) > limit:
        text, whole = text[: len(text) * limit // size], False
    return (text, True) if whole else (text[: text.rfind("\n") + 1] or text, False)
