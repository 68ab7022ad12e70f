"""Find the daemon's address and the agent's key, and check the off switches.

An argument takes precedence over the environment, and the environment over the data directory.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from safetyd.client.arguments import Path as AnyPath
from safetyd.client.exceptions import Down, KeyRejected

ASK_TO_START: Final = "ask the operator to start safetyd"  # a model must not start the daemon
_SWITCHES: Final = ("SAFETYD_ENABLED", "AI_COMPANY_ENABLED")
_OFF: Final = frozenset({"false", "0", "no", "off"})


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a bus, and the key to connect with. Anonymous agents have no key."""

    url: str
    seed: str | None = None
    key_file: str = ""

    @property
    def servers(self) -> list[str]:
        return servers(self.url)

    @property
    def shown(self) -> str:
        """The address without its password, if it contains one."""
        return ",".join(_without_password(server) for server in self.servers)


class _Announced(msgspec.Struct):
    bus: str


def servers(url: str) -> list[str]:
    """Return the addresses of the nodes of a bus, which are separated by commas."""
    return [server.strip() for server in url.split(",")]


def disabled(environment: Mapping[str, str]) -> str | None:
    """Return the reason if an environment variable switches agents off, else None."""
    for name in _SWITCHES:
        value = environment.get(name, "")
        if value.strip().lower() in _OFF:
            return f"disabled: {name}={value}"
    return None


def find(
    agent: str, url: str | None, key_file: AnyPath | None, data_dir: AnyPath | None
) -> Endpoint:
    """Return the bus to connect to. Nothing is cached: a restarted daemon may use another port.

    Raises `Down`, which says what is missing and how to fix it.
    """
    directory = Path(data_dir) if data_dir is not None else find_data_dir()
    address = url or os.environ.get("SAFETYD_URL") or _announced(directory)
    path = key_file or os.environ.get("SAFETYD_KEY_FILE")
    if path:
        return Endpoint(address, _seed(Path(path), agent), str(path))
    own = directory / "keys" / "agents" / f"{agent}.nk"
    if os.access(own, os.R_OK):
        return Endpoint(address, _seed(own, agent), str(own))
    return Endpoint(address)


def find_data_dir() -> Path:
    """Return the data directory from the environment, or the user's default."""
    unit = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    named = os.environ.get("SAFETYD_DATA_DIR") or unit
    return Path(named) if named else _users_own()


def _users_own() -> Path:
    # Unlike Path.home, expanduser never raises for a user without a home directory.
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    return Path(state) / "safetyd"


def naming(directory: Path) -> str:
    """Return the `--data-dir` option for a directory, or nothing for the user's default."""
    return "" if directory == _users_own() else f" --data-dir {shlex.quote(str(directory))}"


def start_command(directory: Path) -> str:
    """Return the command that starts a daemon on a data directory, from any terminal."""
    return f"safetyd run{naming(directory)}"


def _announced(directory: Path) -> str:
    path = directory / "endpoint.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Announced).bus
    except FileNotFoundError:
        where = f"safetyd is not running: {path} does not exist"
        elsewhere = "if it uses another directory, set SAFETYD_DATA_DIR or SAFETYD_URL"
        raise Down(f"{where}; {elsewhere}, else {ASK_TO_START}") from None
    except OSError as exc:
        raise Down(f"cannot read {path} ({exc.strerror}); set SAFETYD_URL") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        why = f"{path} contains no bus address ({exc})"
        raise Down(f"{why}; restart safetyd or set SAFETYD_URL") from None


def _seed(path: Path, agent: str) -> str:
    advice = f"ask the operator to run `safetyd agent add {agent}`"
    try:
        seed = path.read_text().strip()
    except OSError as exc:
        why = f"cannot read the key file {path} ({exc.strerror})"
        raise KeyRejected(f"{why}; {advice}") from None
    except UnicodeDecodeError:
        seed = ""
    if not seed.startswith("SU"):
        raise KeyRejected(f"the key file {path} does not contain an nkey user seed; {advice}")
    return seed


def _without_password(server: str) -> str:
    try:
        parts = urlsplit(server)
    except ValueError:
        return "an invalid address"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
