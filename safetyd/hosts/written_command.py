"""Reads the hook's command line back from the settings of a host."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from typing import Final

from safetyd.hosts import json_text
from safetyd.hosts.hook_command import MARK, TAIL_BEGIN, HookCommand
from safetyd.hosts.hook_event import Dialect

_CONSTANT: Final = re.compile(r'^const (SOCKET|AGENT|TOKEN_FILE) = (".*")$', re.MULTILINE)
_OPTIONS_AT: Final = 5  # after python, -I, -S, the script and the dialect


def line_in(dialect: Dialect, text: str) -> str | None:
    """Return the command line that asks, as it is in a settings file; None if there is none."""
    try:
        settings = tomllib.loads(text) if dialect == "codex" else json_text.parse(text or "{}")
    except (json_text.NotJson, tomllib.TOMLDecodeError):
        return None
    ours = (said for said in _strings(settings) if MARK in said and TAIL_BEGIN in said)
    return next(ours, None)


def command_in(dialect: Dialect, text: str) -> HookCommand | None:
    """Return the parts of the command line in a settings file, or those of OpenCode's plugin."""
    if dialect == "opencode":
        return _of_plugin(text)
    line = line_in(dialect, text)
    return None if line is None else _parsed(line)


def _of_plugin(text: str) -> HookCommand | None:
    """Return the command with the plugin's values; a plugin starts no Python."""
    found = {name: str(json.loads(value)) for name, value in _CONSTANT.findall(text)}
    if len(found) != len(("SOCKET", "AGENT", "TOKEN_FILE")):
        return None
    return HookCommand("", "", found["SOCKET"], found["AGENT"], found["TOKEN_FILE"])


def _parsed(line: str) -> HookCommand | None:
    try:
        words = shlex.split(line.partition(TAIL_BEGIN)[0])
    except ValueError:
        return None
    options = dict(zip(words[_OPTIONS_AT::2], words[_OPTIONS_AT + 1 :: 2], strict=False))
    if len(words) < _OPTIONS_AT:
        return None
    return HookCommand(
        words[0],
        words[_OPTIONS_AT - 2],
        options.get("--socket", ""),
        options.get("--agent", ""),
        options.get("--token-file", ""),
        options.get("--lock", ""),
    )


def _strings(value: object) -> Iterator[str]:
    match value:
        case str(text):
            yield text
        case dict(members):
            for member in members.values():
                yield from _strings(member)
        case list(items):
            for item in items:
                yield from _strings(item)
