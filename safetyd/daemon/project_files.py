"""Reads project files. Agents may write them, so an invalid file never prevents a start or reload.

They are read only at the start and at each reload, and journalled with the rules. If a file is
invalid, every action in its project needs approval.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from safetyd.core.guards.projects import ProjectConfig, ProjectSettings
from safetyd.core.policy import Policy
from safetyd.core.text.visible_text import marked
from safetyd.daemon.config import ConfigError, parse_project

MAX_BYTES: Final = 64 * 1024
# A limit for all project files together, because they become one line of the journal.
MAX_JOURNALLED_BYTES: Final = 96 * 1024
# Lines with more dots are rejected, because a key with thousands of dots takes minutes to parse.
MAX_DOTS: Final = 100
SHOWN_ERRORS: Final = 3
SHOWN_CHARS: Final = 400


class _Broken(Exception):
    """A project file is invalid. The text says why."""


def with_files(policy: Policy) -> Policy:
    """Return the policy with the content of each project file, or why it is invalid."""
    if not any(project.file for project in policy.projects.values()):
        return policy
    return msgspec.structs.replace(policy, projects=dict(_read_all(policy)))


def _read_all(policy: Policy) -> Iterator[tuple[str, ProjectConfig]]:
    room = MAX_JOURNALLED_BYTES
    for name, project in policy.projects.items():
        if not project.file:
            yield name, project
            continue
        try:
            settings = _settings(Path(project.file))
            room -= _size(settings, room)
        except _Broken as exc:
            yield name, msgspec.structs.replace(project, file_broken=_shown(str(exc)))
        else:
            yield name, msgspec.structs.replace(project, from_file=settings)


def _settings(path: Path) -> ProjectSettings:
    text = _text(path)
    if any(line.count(".") > MAX_DOTS for line in text.split("\n")):
        raise _Broken(f"a line has more than {MAX_DOTS} dots")
    try:
        return parse_project(text)
    except ConfigError as exc:
        more = len(exc.errors) - SHOWN_ERRORS
        shown = "; ".join(exc.errors[:SHOWN_ERRORS])
        raise _Broken(f"{shown}; and {more} more" if more > 0 else shown) from exc
    except RecursionError as exc:
        raise _Broken("it is nested too deeply") from exc


def _text(path: Path) -> str:
    try:
        content = _content(path)
        return content.decode()
    except OSError as exc:
        raise _Broken(f"cannot read it: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise _Broken(f"it is not UTF-8: {exc.reason} at byte {exc.start}") from exc


def _content(path: Path) -> bytes:
    # An agent may have put a pipe there, or a link to another file.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise _Broken("it is not a regular file")
        with os.fdopen(number, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    finally:
        os.close(number)
    if len(content) > MAX_BYTES:
        raise _Broken(f"it is larger than {MAX_BYTES} bytes")
    return content


def _size(settings: ProjectSettings, room: int) -> int:
    size = len(msgspec.json.encode(settings))
    if size > room:
        raise _Broken(f"its rules need {size} bytes, but only {room} are left")
    return size


def _shown(why: str) -> str:
    """Return a reason with invisible characters replaced, because it may contain agents' text."""
    line = marked(why[:SHOWN_CHARS], "?")
    return line if len(why) <= SHOWN_CHARS else f"{line}…"
