"""Finds what is wrong with a host, for `safetyd protect --status` and `safetyd doctor`."""

import os
import shutil
import socket
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from safetyd.client.discovery import start_command
from safetyd.console import recorded_files
from safetyd.console.failure import Failure
from safetyd.console.hosts import codex_trust
from safetyd.console.hosts.host_version import is_older
from safetyd.host import user_name
from safetyd.hosts import codex_confirmation
from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.hook_switches import switched_off
from safetyd.hosts.host_catalog import SCOPES, Host, Place, Scope, SettingsFile
from safetyd.hosts.json_text import NotJson
from safetyd.hosts.same_settings import same_settings
from safetyd.hosts.toml_block import NotToml

CONNECT_S: Final = 2.0
_ANY: Final = HookCommand("python3", "hook.py", "hook.sock", "agent")

# Problems that let no call run unasked, or that have their own state.
NOTES: Final = frozenset(
    {"not_protected", "daemon_away", "no_token", "key_readable", "two_guards", "fails_open"}
)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, and what to type or to change."""

    code: str
    message: str
    fix: str

    @property
    def breaks(self) -> bool:
        """Return whether the host may run a call that safetyd has not allowed."""
        return self.code not in NOTES


class SeenHost(NamedTuple):
    """A host in its current state."""

    host: Host
    scope: Scope
    place: Place
    version: str
    files: Sequence[SettingsFile]
    command: HookCommand | None  # that is in its settings
    data_dir: Path

    @property
    def protect(self) -> str:
        option = "" if self.scope == "user" else f" --{self.scope}"
        return f"safetyd protect {self.host.name}{option}"


def problems_of(seen: SeenHost) -> Iterator[Problem]:
    """Yield the problems of a host that has a part of safetyd in its settings."""
    yield from _versions(seen)
    yield from _unconfirmed(seen)
    yield from _incomplete(seen)
    if seen.command is not None:
        yield from _programs(seen, seen.command)
        yield from _daemon(seen, seen.command)
        yield from _token(seen, seen.command)
    yield from _trust(seen)
    yield from _switches(seen)
    yield from _second_guard(seen)
    yield from _key(seen)


def not_protected(seen: SeenHost) -> Problem:
    return Problem(
        code="not_protected",
        message=f"{seen.host.title} is installed and does not ask safetyd",
        fix=f"Run: {seen.protect}",
    )


def too_old(host: Host, version: str) -> str:
    """Return why a version is refused, or an empty text."""
    if not is_older(version, host.oldest):
        return ""
    return f"{host.title} {version} is older than {host.oldest}, the oldest version that was tested"


def _versions(seen: SeenHost) -> Iterator[Problem]:
    if old := too_old(seen.host, seen.version):
        yield Problem(code="old_version", message=old, fix=f"Update {seen.host.title}")
    elif is_older(seen.version, seen.host.fails_open_before):
        yield Problem(
            code="fails_open",
            message=f"{seen.host.title} {seen.version} runs a call if the hook takes too long or "
            "is killed",
            fix=f"Update {seen.host.title} to {seen.host.fails_open_before} or newer. From npm, "
            "that needs Node.js 22",
        )


def _unconfirmed(seen: SeenHost) -> Iterator[Problem]:
    if seen.host.confirms and not codex_confirmation.is_on(_text(seen.files[0])):
        yield Problem(
            code="fails_open",
            message=f"{seen.host.title} does not confirm its calls with safetyd, so it runs a call "
            "if a program kills its hook",
            fix=f"Start the daemon, then run as an operator: {seen.protect}"
            if seen.scope != "system"
            else "Run `safetyd protect codex` as each user: its settings can contain a token",
        )


def _text(file: SettingsFile) -> str:
    return (_readable(file.path) or b"").decode("utf-8", "replace")


def _incomplete(seen: SeenHost) -> Iterator[Problem]:
    for file in seen.files:
        try:
            text = (recorded_files.read(file.path) or b"").decode()
            current = is_current(file, text, seen.command or _ANY)
        except (NotJson, NotToml, UnicodeDecodeError) as exc:
            yield Problem(
                code="unreadable",
                message=f"{file.path} cannot be read: {exc}",
                fix=f"Fix the file, then run: {seen.protect}",
            )
        except Failure as exc:
            yield Problem(code="unreadable", message=exc.message, fix="Make the file readable")
        else:
            if seen.command is None or not current or _lacks_lock(seen, seen.command):
                yield Problem(
                    code="incomplete",
                    message=f"{file.path} lacks a part of what `safetyd protect` writes",
                    fix=f"Run: {seen.protect}",
                )


def _lacks_lock(seen: SeenHost, command: HookCommand) -> bool:
    return seen.scope in seen.host.locked and not command.lock


def is_current(file: SettingsFile, text: str, command: HookCommand) -> bool:
    """Return whether a file contains what `safetyd protect` would write for this command."""
    return same_settings(text, file.protected(text, command), ordered=file.ordered)


def _programs(seen: SeenHost, command: HookCommand) -> Iterator[Problem]:
    for name in filter(None, (command.python, command.script)):
        try:
            found = Path(name).stat()
        except OSError as exc:
            yield Problem(
                code="missing_program",
                message=f"the hook cannot run: {name}: {exc.strerror}",
                fix=f"Run: {seen.protect}",
            )
            continue
        if found.st_uid not in {0, os.geteuid()} or found.st_mode & stat.S_IWOTH:
            owner = user_name(found.st_uid)
            yield Problem(
                code="unsafe_program",
                message=f"{name}, which the hook runs, belongs to {owner} and has mode "
                f"{stat.S_IMODE(found.st_mode):04o}: others could change it",
                fix=f"Run: chmod o-w {name}"
                if found.st_uid in {0, os.geteuid()}
                else "Install safetyd as this user or as root, then run: " + seen.protect,
            )


def _daemon(seen: SeenHost, command: HookCommand) -> Iterator[Problem]:
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.settimeout(CONNECT_S)
            opened.connect(command.socket)
    except OSError as exc:
        yield Problem(
            code="daemon_away",
            message=f"nothing answers on {command.socket} ({exc.strerror or exc}), so "
            f"{seen.host.title} cannot use any tool",
            fix=f"Run: {start_command(seen.data_dir)}",
        )


def _token(seen: SeenHost, command: HookCommand) -> Iterator[Problem]:
    if command.token_file and not os.access(command.token_file, os.R_OK):
        yield Problem(
            code="no_token",
            message=f"{command.token_file}, the token of {command.agent}, cannot be read, so "
            f"{seen.host.title} cannot use any tool",
            fix=f"Run: {seen.protect}",
        )


def _trust(seen: SeenHost) -> Iterator[Problem]:
    program = shutil.which(seen.host.program) if seen.host.trusts_hooks else None
    if program is None:
        return
    try:
        hooks = codex_trust.our_hooks(program, seen.place.project, seen.place.environment)
        runs = bool(hooks) and all(hook.runs for hook in hooks)
    except (Failure, OSError):
        runs = False
    if not runs:
        yield Problem(
            code="not_trusted",
            message=f"{seen.host.title} does not trust the hooks, and skips them",
            fix=f"Run: {seen.protect}",
        )


def _switches(seen: SeenHost) -> Iterator[Problem]:
    for path, setting in switched_off(seen.host.name, seen.place, _readable):
        yield Problem(
            code="hooks_off",
            message=f"{path} switches hooks off: {setting}",
            fix=f"Remove that setting from {path}",
        )


def _readable(path: Path) -> bytes | None:
    try:
        return recorded_files.read(path)
    except Failure:
        return None  # the host cannot read it either


def _second_guard(seen: SeenHost) -> Iterator[Problem]:
    own = {file.path for file in seen.files}
    for scope in SCOPES:
        files = seen.host.files(scope, seen.place)
        if not files or files[0].path in own or not _is_here(files[0]):
            continue
        yield Problem(
            code="two_guards",
            message=f"{seen.host.title} is protected for the {seen.scope} and for the {scope}: "
            "it asks safetyd twice",
            fix=f"Run: safetyd unprotect {seen.host.name} --{scope}",
        )


def _is_here(file: SettingsFile) -> bool:
    return file.mark.encode() in (_readable(file.path) or b"")


def _key(seen: SeenHost) -> Iterator[Problem]:
    key = seen.data_dir / "keys" / "operator.nk"
    if os.access(key, os.R_OK):
        yield Problem(
            code="key_readable",
            message=f"{seen.host.title} runs as {user_name(os.geteuid())}, who can read {key}",
            fix="Run the agent or the daemon as another user. See `safetyd docs operations`",
        )
