"""Calls of systemd's own commands."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from safetyd.console.failure import Failure
from safetyd.console.service.service_unit import UNIT, Scope


class ServiceManager:
    """The systemd of the whole machine, or that of the current user."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._option = ["--user"] if scope == "user" else []

    def command(self, words: str) -> str:
        """Return a command line for people."""
        return " ".join(("systemctl", *self._option, words, UNIT.removesuffix(".service")))

    def check(self) -> None:
        """Refuse to continue if this systemd does not run."""
        why = "systemctl is not installed"
        if shutil.which("systemctl"):
            done = self._systemctl("show", "--property=Version")
            if done.returncode == 0:
                return
            why = _error(done)
        hint = "Log in as this user, without su or sudo. " if self._scope == "user" else ""
        raise Failure(
            f"systemd does not run here: {why}. Nothing was changed. {hint}To see the unit, run "
            "`safetyd install-service --print`. To run safetyd without systemd: `safetyd run`",
            "no_systemd",
        )

    def reload(self) -> None:
        self._must("daemon-reload")

    def start(self) -> None:
        """Enable and start the service. If it runs, it starts again with the new unit."""
        self._must("enable", UNIT)
        self._must("restart", UNIT)

    def stop(self) -> None:
        """Stop and disable the service."""
        self._must("disable", "--now", UNIT)

    def lingers(self) -> bool:
        """Return False if the services of the current user end when the user logs out."""
        found = shutil.which("loginctl")
        if found is None:
            return False
        line = [found, "show-user", str(os.getuid()), "--property=Linger", "--value"]
        return _run(line).stdout.strip() == "yes"

    def complaints(self, unit: str) -> list[str] | None:
        """Return what systemd says about a unit; None if it cannot be checked here."""
        found = shutil.which("systemd-analyze")
        if found is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / UNIT
            path.write_text(unit)
            line = [found, *self._option, "verify", "--man=no", str(path)]
            done = _run(line, XDG_RUNTIME_DIR=folder)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if UNIT in line]
        return lines or (["systemd-analyze verify failed"] if done.returncode else [])

    def _must(self, *words: str) -> None:
        done = self._systemctl(*words)
        if done.returncode:
            line = " ".join(("systemctl", *self._option, *words))
            log = " ".join(("journalctl", *self._option, "-u", "safetyd", "-e"))
            raise Failure(
                f"`{line}` failed: {_error(done)}. See: {log}",
                "systemctl",
            )

    def _systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return _run(["systemctl", *self._option, *words])


def create_user(file: Path) -> None:
    """Create the user that a sysusers file describes."""
    found = shutil.which("systemd-sysusers")
    done = _run([found, str(file)]) if found else None
    if done is None or done.returncode:
        why = _error(done) if done else "systemd-sysusers is not installed"
        raise Failure(
            f"cannot create the user safetyd: {why}. Create it yourself: useradd --system "
            "--home-dir /var/lib/safetyd --shell /usr/sbin/nologin safetyd",
            "no_user",
        )


def _run(line: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | variables
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def _error(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip().partition("\n")[0].rstrip(".") or f"exit code {done.returncode}"
