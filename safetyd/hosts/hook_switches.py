"""Settings that switch hooks off, in the files of a user or of a project."""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from safetyd.hosts import json_text
from safetyd.hosts.host_catalog import Place

Found = Callable[[object], str]  # the setting that switches hooks off, or an empty text


class Switch(NamedTuple):
    """A file, and the setting in it that switches safetyd's hook off."""

    path: Path
    setting: str


class _Looked(NamedTuple):
    files: Callable[[Place], Sequence[Path]]
    found: Found


def switched_off(host: str, place: Place, read: Callable[[Path], bytes | None]) -> Iterator[Switch]:
    """Yield the settings that switch the hooks of a host off; `read` returns a file's content."""
    looked = _LOOKED.get(host)
    for path in dict.fromkeys(looked.files(place)) if looked else ():
        text = (read(path) or b"").decode("utf-8", "replace")
        if looked and text.strip() and (setting := looked.found(_parsed(path, text))):
            yield Switch(path, setting)


def _parsed(path: Path, text: str) -> object:
    try:
        return tomllib.loads(text) if path.suffix == ".toml" else json_text.parse(text)
    except (json_text.NotJson, tomllib.TOMLDecodeError):
        return None  # the host cannot read it either


def _all_hooks(settings: object) -> str:
    match settings:
        case {"disableAllHooks": True}:
            return '"disableAllHooks": true'
    return ""


def _codex(settings: object) -> str:
    match settings:
        case {"features": {"hooks": False}}:
            return "features.hooks = false"
    return ""


def _gemini(settings: object) -> str:
    match settings:
        case {"hooksConfig": {"enabled": False}}:
            return '"hooksConfig": {"enabled": false}'
        case {"hooksConfig": {"disabled": list(names)}} if "safetyd" in names:
            return '"hooksConfig": {"disabled": ["safetyd"]}'
    return ""


def _claude_files(place: Place) -> Sequence[Path]:
    folders = place.folder("CLAUDE_CONFIG_DIR", ".claude"), place.project / ".claude"
    return [folder / name for folder in folders for name in _CLAUDE_NAMES]


_CLAUDE_NAMES: Final = ("settings.json", "settings.local.json")


def _copilot_files(place: Place) -> Sequence[Path]:
    folders = place.folder("COPILOT_HOME", ".copilot"), place.project / ".github" / "copilot"
    return [folder / name for folder in folders for name in (*_CLAUDE_NAMES, "config.json")]


_LOOKED: Final = {
    "claude-code": _Looked(_claude_files, _all_hooks),
    "copilot": _Looked(_copilot_files, _all_hooks),
    "codex": _Looked(
        lambda place: (
            place.folder("CODEX_HOME", ".codex") / "config.toml",
            place.project / ".codex" / "config.toml",
        ),
        _codex,
    ),
    "gemini": _Looked(
        lambda place: (
            place.home / ".gemini" / "settings.json",
            place.project / ".gemini" / "settings.json",
        ),
        _gemini,
    ),
}
