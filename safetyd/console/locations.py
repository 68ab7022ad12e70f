"""The data directory, the daemon and the key that a command uses."""

import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from safetyd.client.discovery import find_data_dir, servers, start_command
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
    """The daemon to connect to, and the operator who connects."""

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
        """Return the bus address from the option or the environment, if there is one."""
        url = self.url or os.environ.get(URL_VARIABLE)
        if url and not all(map(_is_address, servers(url))):
            raise WrongUsage(
                f"{url!r} is not a bus address. Use one like nats://127.0.0.1:4222 or "
                "tls://bus.example:4222, or several separated by commas"
            )
        return url or None

    @property
    def address(self) -> str:
        """Return the bus address; raise `NotReachable` if no daemon runs on the data directory."""
        if url := self.given:
            return url
        if found := endpoint(self.data_dir):
            return found.bus
        path = self.data_dir / ENDPOINT
        if is_hidden(path):
            raise NotReachable(
                f"cannot read {path}, so it is unknown whether safetyd is running. Run this as "
                "the daemon's user, or give the address of the bus with --url"
            )
        raise NotReachable(
            f"safetyd is not running on {self.data_dir} ({path} does not exist). {self.start}"
        )

    @property
    def start(self) -> str:
        """Return how to start the daemon, as the beginning of a sentence."""
        command = "safetyd run" if self.given else start_command(self.data_dir)
        other = "If it uses another data directory, name it with --data-dir or SAFETYD_DATA_DIR"
        return f"{other}, or its bus with --url. Otherwise start it with `{command}`"

    @property
    def seed(self) -> Path:
        """Return the operator's key file, from an option, the environment or the data directory."""
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
        """Return the operator's name from the option, or else from the name of the key file."""
        name = self.operator or (LOCAL if self._is_local else self.seed.stem)
        if not is_token(name):
            raise Failure(f"{name!r} is not a valid operator name. Give yours with --operator")
        return name

    @property
    def observes(self) -> bool:
        """Return True if the key files in the data directory show that this is an observer."""
        observers = self.keys / "observers"
        if _is_within(self.seed, self.keys):
            return _is_within(self.seed, observers)
        return os.access(observers / f"{self.operator or self.seed.stem}.pub", os.F_OK)

    @property
    def _is_local(self) -> bool:
        return self.seed.stem == "operator" and self.seed.parent.name not in _PEOPLE

    def agent_key(self, agent: str) -> Path | None:
        """Return the key file of an agent, or None for an anonymous agent.

        If the environment names a key file in this data directory, it is ignored, because it is an
        operator's key.
        """
        own = self.keys / "agents" / f"{agent}.nk"
        if self.key_file or os.access(own, os.R_OK):
            return self.key_file or own
        given = os.environ.get(KEY_VARIABLE)
        if not given or _is_within(Path(given), self.keys):
            return None
        return Path(given)


def data_dir(given: str | None) -> Path:
    """Return the data directory from the option, the environment, or the user's default."""
    return (Path(given) if given else find_data_dir()).absolute()


def own_command() -> str:
    """Return the command that runs this program: its name if it is on PATH, else its path."""
    found = shutil.which("safetyd")
    own = Path(sys.executable).with_name("safetyd")
    if found and Path(found).resolve() == own.resolve():
        return "safetyd"
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)


def activate_command() -> str:
    """Return the shell command after which `safetyd` is this program, if its environment has one.

    Empty if `safetyd` already is.
    """
    script = Path(sys.executable).with_name("activate")
    if own_command() == "safetyd" or not script.is_file():
        return ""
    shown = os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)
    return f". {shlex.quote(shown)}"


def make_private(directory: Path) -> None:
    """Create a data directory that only its owner can read. Do not change an existing one."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as exc:
        raise Failure(
            f"cannot create {directory}: {exc.strerror}. Choose another with --data-dir"
        ) from exc


def endpoint(directory: Path) -> Endpoint | None:
    """Return the addresses that the daemon wrote to the data directory, None if there are none."""
    try:
        return msgspec.json.decode((directory / ENDPOINT).read_bytes(), type=Endpoint)
    except (OSError, msgspec.DecodeError):
        return None


def look_into(directory: Path) -> list[Path]:
    """Return the paths in a directory, or an empty list if it does not exist.

    Unlike `Path.glob`, raises `Failure` if the directory cannot be read.
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
        return found.pid  # it runs as another user
    except (OSError, OverflowError):
        return None
    return found.pid


def is_hidden(path: Path) -> bool:
    """Return True if a file exists, even if it cannot be read."""
    try:
        path.read_bytes()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _is_within(path: Path, directory: Path) -> bool:
    return path.absolute().is_relative_to(directory.absolute())
