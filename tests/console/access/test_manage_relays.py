"""Keys of relays, and the options of `safetyd relay`."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.core.events.daemon_events import KeysChanged
from safetyd.daemon.config import Config
from safetyd.daemon.config_warnings import config_warnings
from safetyd.web.web_config import WebConfig
from tests.bus.peer import Peer, Refused
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import here, told
from tests.journeys.agents import until
from tests.journeys.audit_record import events


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return Keyring(tmp_path).add("relays", "edge")


def lets_in(daemon: RunningDaemon, seed: Path) -> bool:
    try:
        Peer(daemon.endpoint.bus, seed, "_INBOX.relay.local").close()
    except Refused:
        return False
    return True


def test_a_relays_key_is_added_listed_rotated_and_revoked(daemon, tmp_path):
    # The name of an operator: these are different keys.
    added = told(daemon, "relay", "add", "local")
    seed = daemon.data_dir / "keys" / "relays" / "local.nk"
    until(lambda: lets_in(daemon, seed))
    old = Path(shutil.copy(seed, tmp_path))
    rows = json.loads(told(daemon, "relay", "list", "--json").stdout)["relays"]
    rotated = told(daemon, "relay", "rotate", "local", "--now")
    until(lambda: lets_in(daemon, seed))
    new = Path(shutil.copy(seed, tmp_path / "new.nk"))
    until(lambda: not lets_in(daemon, old))
    revoked = told(daemon, "relay", "revoke", "local")
    until(lambda: not lets_in(daemon, new))

    assert (added.returncode, rotated.returncode, revoked.returncode) == (0, 0, 0)
    assert [row["name"] for row in rows] == ["local"]
    assert not seed.exists()
    changes = [one for one in events(daemon.data_dir) if isinstance(one, KeysChanged)]
    assert changes[0].added[0].startswith("relay local U")


def test_the_key_is_private_and_the_printed_command_names_it(daemon):
    said = told(daemon, "relay", "add", "shown")

    seed = daemon.data_dir / "keys/relays/shown.nk"
    assert stat.S_IMODE(seed.stat().st_mode) == 0o600
    assert f"safetyd relay --url {daemon.endpoint.bus} --key-file shown.nk" in said.stdout
    told(daemon, "relay", "revoke", "shown")


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({}, 2, "--public-url, --url and --key-file"),
        ({"--public-url": "safety.example.com"}, 2, "must be an address"),
        ({"--public-url": "http://safety.example.com"}, 2, "http:// is allowed only"),
        ({"--public-url": "https://[x"}, 2, "must be an address"),
        ({"--url": "bus.example"}, 2, "not a bus address"),
        ({"--listen": "8788"}, 2, "--listen is '8788'"),
        ({"--listen": "127.0.0.1:65536"}, 2, "--listen is"),
        ({"--name": "a.b"}, 2, "--name"),
        ({"--key-file": "/nowhere/edge.nk"}, 1, "/nowhere/edge.nk"),
        ({"--key-file": "/dev/null"}, 1, "does not contain an nkey user seed"),
    ],
)
def test_wrong_options_are_named(key: Path, options: dict[str, str], code: int, words: str):
    given = {
        "--public-url": "https://safety.example.com",
        "--url": "nats://127.0.0.1:1",
        "--key-file": str(key),
    }
    typed = [word for option in (given | options).items() for word in option]

    said = here("relay", *(typed if options else ()))

    assert (said.returncode, words in said.stderr) == (code, True)


def test_an_address_in_use_is_named(key: Path, daemon: RunningDaemon):
    taken = daemon.endpoint.web.removeprefix("http://")

    said = here(
        *("relay", "--url", "nats://127.0.0.1:1", "--key-file", str(key)),
        *("--public-url", "http://127.0.0.1", "--listen", taken),
    )

    assert (said.returncode, taken in said.stderr) == (1, True)


def test_a_relay_without_a_public_url_is_a_warning(tmp_path: Path):
    Keyring(tmp_path / "keys").add("relays", "edge")
    there = Config(web=WebConfig(public_url="https://safety.example.com"))

    (warning,) = config_warnings(Config(), tmp_path)

    assert "edge" in warning
    assert config_warnings(there, tmp_path) == []
