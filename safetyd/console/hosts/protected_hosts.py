"""The hosts of this user: their states, and the changes that protect or unprotect them."""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

import safetyd
from safetyd.console import recorded_files
from safetyd.console.failure import Failure, WrongUsage
from safetyd.console.hosts import codex_trust, settings_files
from safetyd.console.hosts.hook_trial import Trial, Tried
from safetyd.console.hosts.host_problems import (
    Problem,
    SeenHost,
    not_protected,
    problems_of,
    too_old,
)
from safetyd.console.hosts.host_telemetry import HostTelemetry, unprotected
from safetyd.console.hosts.host_version import version_of
from safetyd.console.hosts.settings_files import HostRecord, HostRecords
from safetyd.console.hosts.token_files import needs_token, write_token
from safetyd.console.locations import endpoint
from safetyd.console.recorded_files import Change
from safetyd.core.messages.proposal import is_token
from safetyd.host import SOCKET
from safetyd.hosts.call_lock import is_key, new_key
from safetyd.hosts.codex_confirmation import without
from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.host_catalog import HOSTS, Host, Place, Scope, SettingsFile, trusted_by_codex
from safetyd.hosts.json_text import NotJson
from safetyd.hosts.same_settings import same_settings
from safetyd.hosts.telemetry_settings import is_on
from safetyd.hosts.toml_block import NotToml
from safetyd.hosts.written_command import command_in, line_in

# Run by its path, never imported: hosts start it without this package.
HOOK: Final = Path(safetyd.__file__).with_name("hook.py")

HostCondition = Literal["protected", "open", "broken", "absent"]


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """A host as `--json` and `--status` show it."""

    host: str
    found: bool
    version: str
    scope: Scope
    agent: str
    state: HostCondition
    files: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    trials: tuple[Tried, ...] = ()
    telemetry: bool = False  # costs and tools that ran are reported
    without_telemetry: str = ""  # why they are not


class Plan(NamedTuple):
    """The changes that protect a host, and the command that they add."""

    host: Host
    command: HookCommand
    changes: Sequence[Change]


class ProtectedHosts:
    """The hosts of this user, and the daemon that they ask."""

    def __init__(self, *, scope: Scope, data_dir: Path) -> None:
        self._scope: Scope = scope
        self._data_dir = data_dir
        self._place = Place(Path.home(), os.environ, Path.cwd())
        self._records = HostRecords(Path.home(), os.environ)
        self._telemetry = HostTelemetry(data_dir, scope)

    def chosen(self, names: Sequence[str]) -> list[Host]:
        """Return the named hosts, or else all that are installed."""
        if names:
            return [HOSTS[name] for name in names]
        found = [host for host in HOSTS.values() if self._files(host) and self._found(host)]
        if not found:
            raise Failure(f"no coding agent was found. Name one of {', '.join(HOSTS)}", "not_found")
        return found

    def states(self, hosts: Sequence[Host]) -> list[HostState]:
        """Return the state of each host. Programs start slowly, so all start at once."""
        with ThreadPoolExecutor(max_workers=len(HOSTS)) as pool:
            return [*pool.map(self._state, hosts)]

    def protected(self, names: Sequence[str]) -> list[Host]:
        """Return the hosts that have a part of safetyd in their settings."""
        return [HOSTS[name] for name in names or HOSTS if any(self._here(HOSTS[name]))]

    def _state(self, host: Host) -> HostState:
        files = self._files(host)
        found, here = self._found(host), any(self._here(host))
        seen = SeenHost(
            host=host,
            scope=self._scope,
            place=self._place,
            version=version_of(host.program),
            files=files,
            command=self._written(host),
            data_dir=self._data_dir,
        )
        problems: tuple[Problem, ...] = ()
        state: HostCondition = "absent"
        if here:
            problems = tuple(problems_of(seen))
            state = "broken" if any(problem.breaks for problem in problems) else "protected"
        elif found:
            problems, state = (not_protected(seen),), "open"
        sends = any(
            is_on(without((recorded_files.read(file.path) or b"").decode("utf-8", "replace")))
            for file in files
        )
        return HostState(
            host=host.name,
            found=found,
            version=seen.version,
            scope=self._scope,
            agent=seen.command.agent if seen.command else "",
            state=state,
            files=tuple(str(file.path) for file in files),
            problems=problems,
            telemetry=sends,
        )

    def planned(self, host: Host, agent: str | None) -> Plan:
        """Return the changes that protect a host; refuse if they could do harm."""
        self._check_scope(host)
        if old := too_old(host, version_of(host.program)):
            raise Failure(f"{old}. Update it first. Nothing was written", "old_version")
        command = self._command(host, agent)
        changes = [self._protecting(host, file, command) for file in self._files(host)]
        changed = [change for change in changes if change.before != change.after]
        return Plan(host, command, changed)

    def _protecting(self, host: Host, file: SettingsFile, command: HookCommand) -> Change:
        """Return the change of one file; refuse files of other users and other programs."""
        before = recorded_files.read(file.path)
        settings_files.check_owner(file.path)
        if _is_foreign(file, before):
            raise Failure(
                f"{file.path} exists, and safetyd did not write it. Move it away first. "
                "Nothing was written",
                "foreign",
            )
        change = _edited(file, partial(self._telemetry.protected, host, file, command))
        if before is not None and same_settings(
            before.decode(), (change.after or b"").decode(), ordered=file.ordered
        ):
            return change._replace(after=before)
        return change

    def _check_scope(self, host: Host) -> None:
        if not self._files(host):
            offered = [one.title for one in HOSTS.values() if one.files("system", self._place)]
            raise Failure(
                f"--system is not offered for {host.title}, because no settings for all users were "
                f"tried with success. It is offered for {' and '.join(offered)}",
                "not_offered",
            )
        if self._scope == "system" and os.geteuid() != 0:
            raise Failure("--system changes files of root. Run this as root", "not_root")

    def write(self, plans: Sequence[Plan]) -> None:
        """Write all plans. If a step fails, put everything back."""
        begun: list[tuple[Plan, HostRecord | None]] = []
        try:
            for plan in plans:
                if plan.command.token_file:
                    token_file = Path(plan.command.token_file)
                    write_token(token_file, plan.command.agent, self._data_dir)
                if plan.changes:
                    earlier = self._records.read(plan.host.name, self._scope)
                    begun.append((plan, earlier))
                    self._write(plan, earlier)
        except BaseException:
            for plan, earlier in reversed(begun):
                self._put_back(plan, earlier)
            raise

    def _write(self, plan: Plan, earlier: HostRecord | None) -> None:
        host = plan.host
        files = recorded_files.recorded(plan.changes, earlier.files if earlier else ())
        record = HostRecord(
            host=host.name, scope=self._scope, agent=plan.command.agent, files=files
        )
        self._records.write(record)
        recorded_files.write(plan.changes)
        program = shutil.which(host.program) if host.trusts_hooks else None
        if program and self._scope != "system":  # hooks of the system are trusted
            self._trust(host, program, record)

    def _put_back(self, plan: Plan, earlier: HostRecord | None) -> None:
        recorded_files.put_back(plan.changes)
        record = self._records.read(plan.host.name, self._scope)
        if earlier is not None:
            self._records.write(earlier)
        elif record is not None:
            recorded_files.remove_folders(record.files)
            self._records.remove(plan.host.name, self._scope)

    def _trust(self, host: Host, program: str, record: HostRecord) -> None:
        """Write the hashes that the host itself gives for our hooks."""
        hooks = codex_trust.our_hooks(program, Path.cwd(), os.environ)
        hashes = {hook.key: hook.current_hash for hook in hooks}
        file = self._files(host)[0]
        change = _edited(file, lambda text: trusted_by_codex(text, hashes))
        self._records.write(
            msgspec.structs.replace(record, files=recorded_files.recorded([change], record.files))
        )
        recorded_files.write([change])

    def undone(self, host: Host) -> list[Change]:
        """Return the changes that remove safetyd's part."""
        record = self._records.read(host.name, self._scope)
        known = {} if record is None else {file.path: file for file in record.files}
        changes = []
        for file in self._files(host):
            if _is_foreign(file, recorded_files.read(file.path)):
                continue
            change = _edited(file, partial(unprotected, host, file))
            if change.before is None:
                continue
            if (kept := known.get(str(file.path))) is not None:
                change = recorded_files.undoing(kept, change.before) or change
            if change.before != change.after:
                changes.append(change._replace(after=change.after or None))
        return changes

    def undo(self, host: Host, changes: Sequence[Change]) -> None:
        recorded_files.write(changes)
        record = self._records.read(host.name, self._scope)
        if record is not None:
            recorded_files.remove_folders(record.files)
            self._records.remove(host.name, self._scope)

    def verified(self, hosts: Sequence[Host]) -> list[HostState]:
        """Return the state of each host, with trials of the command line in its settings."""
        return [self._tried(HOSTS[state.host], state) for state in self.states(hosts)]

    def _tried(self, host: Host, state: HostState) -> HostState:
        why = (
            "" if state.telemetry else self._telemetry.missing(host, state.agent, self._files(host))
        )
        return msgspec.structs.replace(
            state, trials=tuple(self._trials(host)), without_telemetry=why
        )

    def _trials(self, host: Host) -> list[Tried]:
        command = self._written(host)
        if command is None:
            return []
        line = line_in(host.dialect, self._text(host))
        if line is None:  # a plugin: it asks in the same way as the hook does
            command = command._replace(python=sys.executable, script=str(HOOK))
            line = command.ask(host.dialect)
        trials = [*Trial(line, command, host.dialect, Path.cwd()).results()]
        return [*trials, self._trusted(host)] if host.trusts_hooks else trials

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
        written = self._written(host)
        name = agent or (written.agent if written else self._usual_name(host))
        if not is_token(name):
            raise WrongUsage(f"{name!r} is not a valid agent name: use 1 to 64 of A-Z a-z 0-9 _ -")
        found = endpoint(self._data_dir)
        socket = found.hook if found and found.hook else str(self._data_dir.absolute() / SOCKET)
        command = HookCommand(sys.executable, str(HOOK), socket, name)
        if self._scope in host.locked:
            lock = written.lock if written else ""
            command = command._replace(lock=lock if is_key(lock) else new_key())
        trial = Trial(command.ask(host.dialect), command, host.dialect, Path.cwd())
        token_file = self._records.token_file(name)
        if token_file.exists() or needs_token(trial):
            return command._replace(token_file=str(token_file))
        return command

    def _usual_name(self, host: Host) -> str:
        if self._scope != "project":
            return host.name
        folder = re.sub(r"[^A-Za-z0-9_-]+", "-", self._place.project.name).strip("-")
        return f"{host.name}-{folder}"[:64].rstrip("-")

    def _written(self, host: Host) -> HookCommand | None:
        return command_in(host.dialect, self._text(host))

    def _text(self, host: Host) -> str:
        """Return the settings that have the hook."""
        files = self._files(host)
        content = recorded_files.read(files[0].path) if files else None
        return (content or b"").decode("utf-8", "replace")

    def _files(self, host: Host) -> Sequence[SettingsFile]:
        return host.files(self._scope, self._place)

    def _here(self, host: Host) -> list[bool]:
        """Return which files of a host have safetyd's part."""
        return [
            file.mark.encode() in (recorded_files.read(file.path) or b"")
            for file in self._files(host)
        ]

    def _found(self, host: Host) -> bool:
        files = self._files(host)
        return shutil.which(host.program) is not None or any(file.path.exists() for file in files)


def _is_foreign(file: SettingsFile, content: bytes | None) -> bool:
    return file.own and bool(content) and file.mark.encode() not in (content or b"")


def _edited(file: SettingsFile, edit: Callable[[str], str]) -> Change:
    before = recorded_files.read(file.path)
    try:
        after = edit((before or b"").decode()).encode()
    except (NotJson, NotToml, UnicodeDecodeError) as exc:
        error = f"{file.path} cannot be changed: {exc}. Nothing was written"
        raise Failure(error, "unreadable") from exc
    return Change(file.path, before, after)
