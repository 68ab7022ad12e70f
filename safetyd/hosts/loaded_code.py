"""What a file that a host loads would run or read: commands, hooks, servers, scripts, imports."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from safetyd.hosts import json_text

MAX_FOUND: Final = 20
MAX_WORDS: Final = 300

_INLINE: Final = re.compile(r"!`([^`\n]+)`|^```!\s*\n?(.*?)\n?```", re.MULTILINE | re.DOTALL)
_BRACED: Final = re.compile(r"!\{([^}]*)\}")
_FRONT: Final = re.compile(r"\A\ufeff?---\s*\n(.*?)\n---\s*$", re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"^[\s-]*(?:command|run|bash)\s*:\s*(.+)$", re.MULTILINE)
_FENCED: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_IMPORT: Final = re.compile(r"(?<!\S)@([~./\w][^\s`'\")>]*)")
_PROGRAMS: Final = frozenset(
    {".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".ps1"}
)
_RUNS: Final = ("command", "bash", "powershell", "apiKeyHelper", "notify", "url", "httpUrl")


def would_run(path: str, text: str) -> list[str]:
    """Return what the host would run or read because of this file, each in a few words."""
    suffix = PurePosixPath(path).suffix
    if suffix in _PROGRAMS:
        return [f"{path} is a program"]
    if suffix in {".json", ".jsonc", ".toml"}:
        found = [*_configured(_parsed(suffix, text)), *map(_inline, _BRACED.findall(text))]
    else:
        found = _in_words(text)
    return [f"{path}: {words[:MAX_WORDS]}" for words in dict.fromkeys(found)][:MAX_FOUND]


def imports(text: str) -> list[str]:
    """Return the files that a memory file imports. Code is no import."""
    found = _IMPORT.findall(_FENCED.sub(" ", text))
    return list(dict.fromkeys(name.rstrip(".,;:!?") for name in found))


def _in_words(text: str) -> list[str]:
    commands = [_inline(one or many) for one, many in _INLINE.findall(text)]
    front = _FRONT.match(text)
    hooks = [f"hook: {said.strip()}" for said in _COMMAND.findall(front[1])] if front else []
    return [*commands, *hooks, *(f"imports {name}" for name in imports(text) if _is_file(name))]


def _inline(command: str) -> str:
    return f"runs {command.strip()}"


def _is_file(name: str) -> bool:
    """Return whether an import looks like a file, and not like somebody's name."""
    return "/" in name or "." in name[1:]


def _parsed(suffix: str, text: str) -> object:
    try:
        return tomllib.loads(text) if suffix == ".toml" else json_text.parse(text)
    except (json_text.NotJson, tomllib.TOMLDecodeError, RecursionError):
        return None


def _configured(value: object) -> Iterator[str]:
    """Yield the commands and servers in settings."""
    if isinstance(value, list):
        for one in value:
            yield from _configured(one)
    if not isinstance(value, Mapping):
        return
    for name in _RUNS:
        if name in value and isinstance(value[name], str | list):
            yield f"{name}: {_line(value[name], value.get('args'))}"
    for one in value.values():
        yield from _configured(one)


def _line(command: object, arguments: object) -> str:
    words = command if isinstance(command, list) else [command]
    more = arguments if isinstance(arguments, list) else []
    return " ".join(map(str, (*words, *more)))
