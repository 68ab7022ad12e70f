"""Finds the paths in the arguments of a tool call, whatever a host or server calls them."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

MAX_PATHS: Final = 1000  # one more than that is refused with the proposal
MAX_PATH: Final = 4096
MAX_DEPTH: Final = 8
MAX_ALTERNATIVES: Final = 64  # of the braces in one pattern

Arguments = Mapping[str, object]

PATHS: Final = (
    *("file_path", "path", "absolute_path", "filePath", "notebook_path", "dir_path"),
    *("paths", "include", "file_paths", "directory"),
)
# Patterns of the names of files whose content a search prints.
GLOBS: Final = (
    *("glob", "globs", "include", "includes", "include_pattern", "include_patterns"),
    *("includePattern", "file_pattern", "filePattern", "file_glob"),
)
# Arguments of file tools that are texts, or patterns of files that are left out.
_TEXTS: Final = frozenset(
    {
        *("pattern", "query", "content", "file_text", "old_string", "new_string", "oldString"),
        *("newString", "old_str", "new_str", "old_source", "new_source", "instruction", "edits"),
        *("description", "explanation", "diff", "regex", "ignore", "exclude", "exclude_pattern"),
        *("command", "input", "patch", "patchText", "insert_text", "prompt"),
    }
)
_NAMES_PATH: Final = re.compile(
    r"(?:\A|_)(?:path|file|filename|uri|dir|directory|folder|root|location|document|src|source"
    r"|dest|destination|target)s?\Z"
).search
# A path from the root, a home folder or the current folder. A lone slash is often something else.
_is_path = re.compile(r"(?:/[^/\s]|~[\w.-]*(?:/|\Z)|\.\.?/|file:)").match
_is_hidden = re.compile(r"\.\w[\w.-]*\Z").match
_has_scheme = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE).match
_file_uri = re.compile(r"file:(?://(?:localhost(?=/))?)?", re.IGNORECASE).match
_apart = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s-]+").sub
_braces = re.compile(r"\{([^{}]*)\}").search


def named_paths(given: Arguments) -> list[str]:
    """Return every path that the call of a file tool names, whatever its host calls it."""
    found = [path for name in PATHS for path in _each(given.get(name))]
    return list(dict.fromkeys(map(_local, found)))  # a proposal with too many paths is refused


def further_paths(given: Arguments) -> list[str]:
    """Return what looks like a path in the other arguments of a file tool."""
    others = {name: v for name, v in given.items() if name not in _KNOWN}
    return [_local(text) for _, text in _strings(others) if _is_path(text) or _is_hidden(text)]


def searched_files(given: Arguments) -> list[str]:
    """Return the patterns of the files whose content a search prints, below its folders."""
    folders = [path for path in named_paths(given) if path not in _each(given.get("include"))]
    wanted = [
        pattern
        for name in GLOBS
        for said in _each(given.get(name))
        for pattern in _alternatives(said)
        if not pattern.startswith("!")
    ]
    below = [posixpath.join(folder, each) for folder in folders or [""] for each in wanted]
    return list(dict.fromkeys(below))[: MAX_PATHS + 1]


def argument_paths(given: Arguments) -> list[str]:
    """Return the paths in the arguments of a tool that is known only by its name.

    An argument counts if its value looks like a path, or if its name says that it is one.
    """
    found = (
        _local(text)
        for name, text in _strings(given)
        if len(text) <= MAX_PATH
        and "\n" not in text
        and (_is_path(text) or (_says_path(name) and not _has_scheme(text) and text != "/"))
    )
    return list(dict.fromkeys(found))[: MAX_PATHS + 1]


def _says_path(name: str) -> bool:
    return _NAMES_PATH(_apart("_", name).lower()) is not None


def _local(path: str) -> str:
    """Return the path in a `file:` address. Other paths are unchanged."""
    if start := _file_uri(path):
        return unquote(path[start.end() :])
    return path


def _each(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(one) for one in value if one]
    return [str(value)] if value else []


def _strings(said: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield every text in an object with the name of its argument."""
    if isinstance(said, str):
        if said:
            yield name, said
    elif depth < MAX_DEPTH and isinstance(said, Mapping):
        for key, value in said.items():
            yield from _strings(value, str(key), depth + 1)
    elif depth < MAX_DEPTH and isinstance(said, list):
        for value in said:
            yield from _strings(value, name, depth + 1)


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns that one with braces or commas stands for."""
    done, todo = list[str](), [pattern]
    while todo:
        said = todo.pop()
        found = _braces(said)
        if found is None or len(done) + len(todo) > MAX_ALTERNATIVES:
            done += said.split(",") if found is None else [said]
            continue
        before, after = said[: found.start()], said[found.end() :]
        todo += [f"{before}{each}{after}" for each in reversed(found[1].split(","))]
    return [said.strip() for said in done if said.strip()]


_KNOWN: Final = frozenset({*PATHS, *GLOBS, *_TEXTS})
