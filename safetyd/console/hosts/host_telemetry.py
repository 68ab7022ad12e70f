"""Adds telemetry to the settings of hosts, so that they report costs and the tools that ran."""

import os
from collections.abc import Sequence
from pathlib import Path

from safetyd.bus.keyring import Keyring, KeyUnusable
from safetyd.bus.telemetry_tokens import read_tokens
from safetyd.console import recorded_files
from safetyd.console.locations import endpoint
from safetyd.hosts import codex_confirmation, telemetry_settings
from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.host_catalog import Host, Scope, SettingsFile
from safetyd.hosts.telemetry_settings import TelemetryTarget


class HostTelemetry:
    """The telemetry of hosts: sent to the running daemon, with a token derived from its key."""

    def __init__(self, data_dir: Path, scope: Scope) -> None:
        self._data_dir = data_dir
        self._scope = scope

    def protected(self, host: Host, file: SettingsFile, command: HookCommand, text: str) -> str:
        """Return a settings file with our hooks, and with telemetry if that is possible."""
        target = self._target(command.agent)
        if file.own or isinstance(target, str):
            return file.protected(text, command)
        bare = telemetry_settings.removed(host.dialect, text)
        guarded = file.protected(bare, command)
        if host.confirms:
            guarded = codex_confirmation.added(guarded, target)
        if telemetry_settings.elsewhere(host.dialect, bare, os.environ):
            return guarded
        return telemetry_settings.added(host.dialect, guarded, target)

    def missing(self, host: Host, agent: str, files: Sequence[SettingsFile]) -> str:
        """Return why a host sends no telemetry."""
        target = self._target(agent)
        if isinstance(target, str):
            return target
        if named := telemetry_settings.variable(host.dialect, target):
            return f"{host.title} has no setting for telemetry. Start it with {named}"
        for file in files:
            if file.own:
                continue
            text = (recorded_files.read(file.path) or b"").decode("utf-8", "replace")
            if other := telemetry_settings.elsewhere(host.dialect, text, os.environ):
                return f"{host.title} sends telemetry to another place ({other})"
        return f"{host.title} sends no telemetry"

    def _target(self, agent: str) -> TelemetryTarget | str:
        """Return where an agent sends telemetry, or why that is unknown."""
        if self._scope == "system":
            return "all users can read these settings, so they must not contain a token"
        found = endpoint(self._data_dir)
        if found is None:
            return "the daemon is not running. Start it, and run `safetyd protect` again"
        key = Keyring(self._data_dir / "keys").telemetry_key
        try:
            return TelemetryTarget(found.web, read_tokens(key).token(agent))
        except (OSError, KeyUnusable) as exc:
            return f"{key} cannot be read: {exc}. Run `safetyd protect` as an operator"


def unprotected(host: Host, file: SettingsFile, text: str) -> str:
    """Return a settings file without our hooks and our telemetry."""
    bare = text if file.own else telemetry_settings.removed(host.dialect, text)
    return file.unprotected(bare)
