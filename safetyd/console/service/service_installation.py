"""Writes the unit of a service and what it needs, and removes exactly that again."""

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from safetyd.console import recorded_files
from safetyd.console.failure import Failure, using_file
from safetyd.console.recorded_files import Change, FileRecord
from safetyd.console.service import service_manager
from safetyd.console.service.service_manager import ServiceManager
from safetyd.console.service.service_unit import (
    HIDDEN,
    SYSTEM_CONFIG,
    UNIT,
    DaemonCommand,
    Scope,
    unit_text,
)
from safetyd.console.shipped_files import PRODUCTION, SERVICE_USER, shipped

ACCOUNT: Final = "safetyd"
DATA_MODE: Final = 0o750  # like StateDirectoryMode in the unit
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108
_PACKAGED: Final = ("usr/lib/systemd/system", "lib/systemd/system")
_PREFIXES: Final = (Path(sys.prefix), Path(sys.base_prefix))


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The files that `install-service` wrote, so that `uninstall-service` can undo exactly that."""

    files: tuple[FileRecord, ...]


class ServicePlaces(NamedTuple):
    """The files of a service."""

    unit: Path
    record: Path
    config: Path | None  # written if it is missing; None: the daemon needs none

    @classmethod
    def of_user(cls, home: Path, environment: Mapping[str, str]) -> "ServicePlaces":
        config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
        state = Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state")
        return cls(config / "systemd" / "user" / UNIT, state / "safetyd" / "service.json", None)

    @classmethod
    def of_system(cls, root: Path) -> "ServicePlaces":
        # Only root can change the record: it is not in the data directory of the service.
        config = root / SYSTEM_CONFIG.relative_to("/")
        return cls(root / "etc/systemd/system" / UNIT, config.with_name("service.json"), config)


def is_installed() -> bool:
    """Return whether a service starts safetyd on this machine, for this user or for all."""
    own = ServicePlaces.of_user(Path.home(), os.environ).unit
    packaged = (Path("/", folder, UNIT) for folder in _PACKAGED)
    return any(unit.exists() for unit in (own, ServicePlaces.of_system(Path("/")).unit, *packaged))


class Removal(NamedTuple):
    removed: list[Path]
    left: list[Path]  # files that somebody changed


class ServiceInstallation:
    def __init__(
        self,
        scope: Scope,
        places: ServicePlaces,
        manager: ServiceManager,
        prefixes: Sequence[Path] = _PREFIXES,
    ) -> None:
        self._scope = scope
        self._places = places
        self._manager = manager
        self._prefixes = prefixes

    # -- install -----------------------------------------------------------------------------------

    def planned(self, command: DaemonCommand) -> list[Change]:
        """Return the changes to files that install the service."""
        if self._scope == "system":
            self._check_places(command)
        unit = unit_text(self._scope, command)
        if complaints := self._manager.complaints(unit):
            raise Failure(
                "systemd does not accept the unit, so nothing was written:\n"
                + "\n".join(complaints),
                "unit",
                complaints,
            )
        changes = [self._change(self._places.unit, unit.encode())]
        config = self._places.config
        if config and command.config == SYSTEM_CONFIG and not config.exists():
            production = shipped(PRODUCTION).read_bytes()
            changes.append(self._change(config, production))
        return [change for change in changes if change.before != change.after]

    def foreign(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of files that somebody else wrote, or changed since."""
        known = {file.path: file for file in self._recorded()}
        return [
            change
            for change in changes
            if change.before is not None and not _is_ours(known.get(str(change.path)), change)
        ]

    def write(self, changes: Sequence[Change], data_dir: Path | None) -> None:
        if self._scope == "system":
            self._make_account(data_dir)
        files = recorded_files.recorded(changes, self._recorded())
        recorded_files.write_record(self._places.record, ServiceRecord(files=files))
        recorded_files.write(changes)
        self._manager.reload()

    def warnings(self, environment: Mapping[str, str], home: Path) -> Iterator[str]:
        """Yield what could stop the service later."""
        prefix = self._prefixes[0]
        if _is_temporary(prefix, environment, home):
            yield (
                f"safetyd runs from {prefix}, which may be deleted at any time. Install it with "
                "pip, pipx or `uv tool install`, and run this command again"
            )
        if self._scope == "system" and prefix.stat().st_uid != 0:
            yield (
                f"{prefix} does not belong to root, so its owner can change safetyd. "
                f"Run: chown -R root: {prefix}"
            )
        if self._scope == "user" and not self._manager.lingers():
            yield (
                "the service ends when you log out. To run it from boot to shutdown: "
                "loginctl enable-linger"
            )
        if not shutil.which("systemd-analyze"):
            yield "systemd-analyze is missing, so the unit was not checked"

    def _check_places(self, command: DaemonCommand) -> None:
        root = self._places.unit.parents[3]
        for folder in _PACKAGED:
            if (root / folder / UNIT).exists():
                raise Failure(
                    f"{root / folder / UNIT} already exists: a package installed the service. "
                    f"Run: {self._manager.command('enable --now')}",
                    "packaged",
                )
        named = {"--config": command.config, "--data-dir": command.data_dir}
        for path in (*self._prefixes, *filter(None, named.values())):
            if any(path.is_relative_to(hidden) for hidden in HIDDEN):
                fix = (
                    "Choose another path"
                    if path in named.values()
                    else "Install safetyd for the system, for example in /opt/safetyd, with a "
                    "Python that all users can run"
                )
                raise Failure(f"the service cannot read {path}. {fix}", "hidden")

    def _make_account(self, data_dir: Path | None) -> None:
        """Create the user of the service, and a data directory that systemd does not create."""
        if not _has_account():
            service_manager.create_user(shipped(SERVICE_USER))
        if data_dir is not None and not data_dir.exists():
            with using_file(data_dir, "write"):
                data_dir.mkdir(parents=True)
                shutil.chown(data_dir, ACCOUNT, ACCOUNT)
                data_dir.chmod(DATA_MODE)

    # -- uninstall ---------------------------------------------------------------------------------

    def undone(self, *, force: bool) -> list[Change]:
        """Return the changes that undo the installation. Files that were changed since stay."""
        found = self._recorded()
        if not found:
            wrong = f"{self._places.unit} was not written by `safetyd install-service`"
            missing = f"no service is installed: {self._places.unit} does not exist"
            raise Failure(wrong if self._places.unit.exists() else missing, "not_installed")
        changes = []
        for file in found:
            current = recorded_files.read(Path(file.path))
            change = recorded_files.undoing(file, current)
            if change is None and current is not None and Path(file.path) == self._places.unit:
                if not force:
                    raise Failure(
                        f"{file.path} was changed since `safetyd install-service` wrote it. "
                        "Use --force to remove it anyway",
                        "changed",
                    )
                change = recorded_files.undoing(file, current, changed=True)
            if change is not None:
                changes.append(change)
        return changes

    def undo(self, changes: Sequence[Change]) -> Removal:
        found = self._recorded()
        if self._places.unit.exists():
            self._manager.stop()
        recorded_files.write(changes)
        with using_file(self._places.record, "write"):
            self._places.record.unlink(missing_ok=True)
        recorded_files.remove_folders(found)
        with suppress(OSError):
            self._places.record.parent.rmdir()
        self._manager.reload()
        removed = [change.path for change in changes]
        others = [Path(file.path) for file in found if Path(file.path) not in removed]
        return Removal(removed, [path for path in others if path.exists()])

    # ----------------------------------------------------------------------------------------------

    def _recorded(self) -> Sequence[FileRecord]:
        record = recorded_files.read_record(self._places.record, ServiceRecord)
        return record.files if record else ()

    @staticmethod
    def _change(path: Path, content: bytes) -> Change:
        return Change(path, recorded_files.read(path), content)


def own_program() -> list[str]:
    """Return the command that runs this installation of safetyd, from any folder."""
    script = Path(sys.executable).with_name("safetyd")
    if os.access(script, os.X_OK):
        return [str(script)]
    return [sys.executable, "-m", "safetyd"]


def _has_account() -> bool:
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        return False
    return True


def _is_ours(file: FileRecord | None, change: Change) -> bool:
    return file is not None and recorded_files.undoing(file, change.before) is not None


def _is_temporary(prefix: Path, environment: Mapping[str, str], home: Path) -> bool:
    named = (environment.get(name, "") for name in ("UV_CACHE_DIR", "XDG_CACHE_HOME"))
    folders = (*filter(None, named), tempfile.gettempdir(), str(home / ".cache"), *_TEMPORARY)
    return ".cache" in prefix.parts or any(prefix.is_relative_to(one) for one in folders)
