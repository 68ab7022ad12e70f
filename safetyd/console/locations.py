"""Where a command finds the data directory, the daemon and its own key."""

import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from safetyd.client.discovery import find_data_dir, start_command
from safetyd.console.failure import Failure, NotReachable, WrongUsage, using_file
from safetyd.core.messages.proposal import is_token
from safetyd.host import ENDPOINT, Endpoint

URL_VARIABLE: Final = "SAFETYD_URL"
KEY_VARIABLE: Final = "SAFETYD_KEY_FILE"
LOCAL: Final = "local"
PREFIX: Final = "safety.v1"

_PEOPLE: Final = frozenset({"operators", "observers"})
_is_address = re.compile(r"(nats|tls)://[^\s,/]+\Z").match


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Which daemon is meant, and who speaks."""

    data_dir: Path
    url: str | None = None
    key_file: Path | None = None
    operator: str | None = None
    prefix: str = PREFIX

    @property
    def keys(self) -> Path:
        return self.data_dir / "keys"

    @property
    def given(self) -> str | None:
        """Return the bus that the option or the environment names, if one does."""
        url = self.url or os.environ.get(URL_VARIABLE)
        if url and not all(_is_address(server.strip()) for server in url.split(",")):
            raise WrongUsage(
                f"{url!r} is no address of a bus: one looks like nats://127.0.0.1:4222 or "
                "tls://bus.example:4222"
            )
        return url or None

    @property
    def address(self) -> str:
        """Return the bus to try; raise `NotReachable` if nothing says where one is."""
        if url := self.given:
            return url
        if found := endpoint(self.data_dir):
            return found.bus
        path = self.data_dir / ENDPOINT
        if _hidden(path):
            raise NotReachable(
                f"{path} cannot be read, so it is not known whether a safetyd runs; become the "
                "user that it runs as, or name its bus with --url"
            )
        raise NotReachable(
            f"no safetyd runs on {self.data_dir} ({path} is not there); "
            f"{self.start}, or say where one runs with --data-dir or --url"
        )

    @property
    def start(self) -> str:
        """Say how to start the daemon that is not there; where a bus is named, anywhere will do."""
        command = "safetyd run" if self.given else start_command(self.data_dir)
        return f"start one with `{command}`"

    @property
    def seed(self) -> Path:
        """Return the operator's key file: the option, the environment, or the data dir's own."""
        given = self.key_file or os.environ.get(KEY_VARIABLE)
        if given:
            return Path(given)
        if self.operator in {None, LOCAL}:
            return self.keys / "operator.nk"
        observer = self.keys / "observers" / f"{self.operator}.nk"
        if os.access(observer, os.F_OK):
            return observer
        return self.keys / "operators" / f"{self.operator}.nk"

    @property
    def name(self) -> str:
        """Return who speaks: the option, else what the key file is called."""
        name = self.operator or (LOCAL if self._is_local else self.seed.stem)
        if not is_token(name):
            raise Failure(f"{name!r} is no operator's name; say who you are with --operator")
        return name

    @property
    def observes(self) -> bool:
        """Say whether who speaks may only look, as far as the keys here tell."""
        observers = self.keys / "observers"
        if _is_within(self.seed, self.keys):
            return _is_within(self.seed, observers)
        return os.access(observers / f"{self.operator or self.seed.stem}.pub", os.F_OK)

    @property
    def _is_local(self) -> bool:
        return self.seed.stem == "operator" and self.seed.parent.name not in _PEOPLE

    def agent_key(self, agent: str) -> Path | None:
        """Return the key to speak as an agent with; None stands for the open user.

        An operator's key in the environment is not for that.
        """
        own = self.keys / "agents" / f"{agent}.nk"
        if self.key_file or os.access(own, os.R_OK):
            return self.key_file or own
        given = os.environ.get(KEY_VARIABLE)
        if not given or _is_within(Path(given), self.keys):
            return None
        return Path(given)


def data_dir(given: str | None) -> Path:
    """Return the data directory: the option, the environment, systemd's, or the user's own."""
    return (Path(given) if given else find_data_dir()).absolute()


def own_command() -> str:
    """Return what to type for this very program: its name if the shell finds it, else its path."""
    found = shutil.which("safetyd")
    own = Path(sys.executable).with_name("safetyd")
    if found and Path(found).resolve() == own.resolve():
        return "safetyd"
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)


def make_private(directory: Path) -> None:
    """Make a data directory that only its owner can look into; one that exists stays as it is."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as exc:
        raise Failure(f"{directory} cannot be made ({exc.strerror}); choose --data-dir") from exc


def endpoint(directory: Path) -> Endpoint | None:
    """Return where the daemon of a data directory is, if one says that it runs."""
    try:
        return msgspec.json.decode((directory / ENDPOINT).read_bytes(), type=Endpoint)
    except (OSError, msgspec.DecodeError):
        return None


def look_into(directory: Path) -> list[Path]:
    """Return what is in a directory, nothing if it is not there.

    Raises `Failure` if it cannot be read, which `Path.glob` passes over.
    """
    with using_file(directory, "read"), suppress(FileNotFoundError):
        return sorted(directory.iterdir())
    return []


def running(directory: Path) -> int | None:
    """Return the pid of the daemon that wrote the endpoint file, if that process is alive."""
    found = endpoint(directory)
    if found is None or found.pid <= 0:
        return None
    try:
        os.kill(found.pid, 0)
    except PermissionError:
        return found.pid  # alive, and somebody else's
    except (OSError, OverflowError):
        return None
    return found.pid


def _hidden(path: Path) -> bool:
    try:
        path.read_bytes()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _is_within(path: Path, directory: Path) -> bool:
    return path.absolute().is_relative_to(directory.absolute())
