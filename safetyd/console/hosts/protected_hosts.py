"""The hosts of this user: which are protected, and the changes that protect or undo."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

import msgspec

import safetyd
from safetyd.bus.keyring import Keyring, KeyUnusable
from safetyd.bus.telemetry_tokens import read_tokens
from safetyd.console.failure import Failure, WrongUsage
from safetyd.console.hosts import codex_trust, settings_files
from safetyd.console.hosts.hook_trial import Tried, tried
from safetyd.console.hosts.settings_files import Change, HostRecord, HostRecords
from safetyd.console.locations import endpoint
from safetyd.core.messages.proposal import is_token
from safetyd.host import SOCKET
from safetyd.hosts import telemetry_settings
from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.host_catalog import (
    HOSTS,
    Host,
    Place,
    Scope,
    SettingsFile,
    trusted_by_codex,
)
from safetyd.hosts.json_text import NotJson
from safetyd.hosts.telemetry_settings import TelemetryTarget
from safetyd.hosts.toml_block import NotToml

# Run by its path, never imported: hosts start it without this package.
HOOK: Final = Path(safetyd.__file__).with_name("hook.py")

HostCondition = Literal["protected", "open", "absent"]


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """A host as `--json` and `--status` show it."""

    host: str
    found: bool
    state: HostCondition
    files: tuple[str, ...]
    trials: tuple[Tried, ...] = ()
    telemetry: bool = False  # costs and tools that ran are reported
    without_telemetry: str = ""  # why they are not


class ProtectedHosts:
    """The hosts of this user, and the daemon that they ask."""

    def __init__(self, *, project: bool, data_dir: Path) -> None:
        self._scope: Scope = "project" if project else "user"
        self._data_dir = data_dir
        self._place = Place(Path.home(), os.environ, Path.cwd())
        self._records = HostRecords(Path.home(), os.environ)
        self._telemetry = HostTelemetry(data_dir)

    def chosen(self, names: Sequence[str]) -> list[Host]:
        """Return the named hosts, or else all that are installed."""
        if names:
            return [HOSTS[name] for name in names]
        found = [host for host in HOSTS.values() if self._found(host)]
        if not found:
            raise Failure(f"no coding agent was found. Name one of {', '.join(HOSTS)}", "not_found")
        return found

    def state(self, host: Host) -> HostState:
        files = host.files(self._scope, self._place)
        texts = [settings_files.read(file.path) or b"" for file in files]
        here = [file.mark.encode() in text for file, text in zip(files, texts, strict=True)]
        found = self._found(host)
        sends = any(telemetry_settings.is_on(text.decode(errors="replace")) for text in texts)
        guarded: HostCondition = "protected" if all(here) else "open" if found else "absent"
        paths = tuple(str(file.path) for file in files)
        return HostState(host=host.name, found=found, state=guarded, files=paths, telemetry=sends)

    def planned(self, host: Host, agent: str | None) -> list[Change]:
        """Return the changes that protect a host."""
        line = self._command(host, agent)
        changes = (
            _edited(file, partial(self._protected, host, file, line))
            for file in host.files(self._scope, self._place)
        )
        return [change for change in changes if change.before != change.after]

    def write(self, host: Host, changes: Sequence[Change], agent: str | None) -> None:
        if not changes:
            return
        earlier = self._records.read(host.name, self._scope)
        files = settings_files.recorded(changes, earlier)
        record = HostRecord(
            host=host.name, scope=self._scope, agent=agent or host.name, files=files
        )
        self._records.write(record)
        settings_files.write(changes)
        if host.trusts_hooks and (program := shutil.which(host.program)):
            self._trust(host, program, record)

    def _trust(self, host: Host, program: str, record: HostRecord) -> None:
        """Write the hashes that the host itself gives for our hooks."""
        hooks = codex_trust.our_hooks(program, Path.cwd(), os.environ)
        hashes = {hook.key: hook.current_hash for hook in hooks}
        (file,) = host.files(self._scope, self._place)
        change = _edited(file, lambda text: trusted_by_codex(text, hashes))
        self._records.write(
            msgspec.structs.replace(record, files=settings_files.recorded([change], record))
        )
        settings_files.write([change])

    def undone(self, host: Host) -> list[Change]:
        """Return the changes that remove safetyd's part."""
        record = self._records.read(host.name, self._scope)
        known = {} if record is None else {file.path: file for file in record.files}
        changes = []
        for file in host.files(self._scope, self._place):
            change = _edited(file, partial(_unprotected, host, file))
            if change.before is None:
                continue
            if (kept := known.get(str(file.path))) is not None:
                change = settings_files.undoing(kept, change.before) or change
            if change.before != change.after:
                changes.append(change._replace(after=change.after or None))
        return changes

    def undo(self, host: Host, changes: Sequence[Change]) -> None:
        settings_files.write(changes)
        record = self._records.read(host.name, self._scope)
        if record is not None:
            settings_files.remove_folders(record)
            self._records.remove(host.name, self._scope)

    def verified(self, host: Host, agent: str | None) -> HostState:
        trials = [*tried(self._command(host, agent), host.dialect, Path.cwd())]
        if host.trusts_hooks:
            trials.append(self._trusted(host))
        state = self.state(host)
        why = "" if state.telemetry else self._without_telemetry(host, agent)
        return msgspec.structs.replace(state, trials=tuple(trials), without_telemetry=why)

    def _protected(self, host: Host, file: SettingsFile, line: HookCommand, text: str) -> str:
        """Return a settings file with our hooks, and with telemetry if that is possible."""
        target = self._telemetry.target(line.agent)
        if file.own or isinstance(target, str):
            return file.protected(text, line)
        bare = telemetry_settings.removed(host.dialect, text)
        guarded = file.protected(bare, line)
        if telemetry_settings.elsewhere(host.dialect, bare, os.environ):
            return guarded
        return telemetry_settings.added(host.dialect, guarded, target)

    def _without_telemetry(self, host: Host, agent: str | None) -> str:
        """Return why a host sends no telemetry."""
        target = self._telemetry.target(self._command(host, agent).agent)
        if isinstance(target, str):
            return target
        if named := telemetry_settings.variable(host.dialect, target):
            return f"{host.title} has no setting for it. Start it with {named}"
        for file in host.files(self._scope, self._place):
            text = (settings_files.read(file.path) or b"").decode(errors="replace")
            if other := telemetry_settings.elsewhere(host.dialect, text, os.environ):
                return f"{host.title} sends telemetry to another place ({other})"
        return f"{host.title} sends none"

    def _trusted(self, host: Host) -> Tried:
        begun = time.monotonic()
        program = shutil.which(host.program)
        hooks = codex_trust.our_hooks(program, Path.cwd(), os.environ) if program else []
        return Tried(
            claim=f"{host.title} trusts the hooks",
            holds=bool(hooks) and all(hook.runs for hook in hooks),
            took_ms=(time.monotonic() - begun) * 1000,
        )

    def _command(self, host: Host, agent: str | None) -> HookCommand:
        record = self._records.read(host.name, self._scope)
        name = agent or (record.agent if record else host.name)
        if not is_token(name):
            raise WrongUsage(f"{name!r} is not a valid agent name: use 1 to 64 of A-Z a-z 0-9 _ -")
        found = endpoint(self._data_dir)
        socket = found.hook if found and found.hook else str(self._data_dir.absolute() / SOCKET)
        return HookCommand(sys.executable, str(HOOK), socket, name)

    def _found(self, host: Host) -> bool:
        files = host.files(self._scope, self._place)
        return shutil.which(host.program) is not None or any(file.path.exists() for file in files)


def _unprotected(host: Host, file: SettingsFile, text: str) -> str:
    bare = text if file.own else telemetry_settings.removed(host.dialect, text)
    return file.unprotected(bare)


class HostTelemetry:
    """Where hosts send telemetry: the running daemon, with a token that its key derives."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def target(self, agent: str) -> TelemetryTarget | str:
        """Return where an agent sends telemetry, or why that is unknown."""
        found = endpoint(self._data_dir)
        if found is None:
            return "the daemon is not running. Start it, and run `safetyd protect` again"
        key = Keyring(self._data_dir / "keys").telemetry_key
        try:
            return TelemetryTarget(found.web, read_tokens(key).token(agent))
        except (OSError, KeyUnusable) as exc:
            return f"{key} cannot be read: {exc}. Run `safetyd protect` as an operator"


def _edited(file: SettingsFile, edit: Callable[[str], str]) -> Change:
    before = settings_files.read(file.path)
    try:
        after = edit((before or b"").decode()).encode()
    except (NotJson, NotToml, UnicodeDecodeError) as exc:
        error = f"{file.path} cannot be changed: {exc}. Nothing was written"
        raise Failure(error, "unreadable") from exc
    return Change(file.path, before, after)
