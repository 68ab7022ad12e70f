import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from safetyd.bus.embedded_server import shipped_binary
from safetyd.bus.keyring import Keyring, Role, new_pair, public_key
from safetyd.bus.server_config import (
    MAX_JOURNAL_BYTES,
    MAX_STORE_BYTES,
    Listen,
    Users,
    accounts,
    embedded,
)
from safetyd.bus.subjects import Subjects


def users(directory: Path, *agents: str, open_agents: bool = True) -> Users:
    keyring = Keyring(directory / "keys")
    keyring.make_own()
    for agent in agents:
        keyring.add("agents", agent)
    keyring.add("observers", "wall")
    return Users(
        daemons=(public_key(keyring.daemon),),
        agents=dict(keyring.public("agents")),
        operators=dict(keyring.public("operators")),
        observers=dict(keyring.public("observers")),
        open_agents=open_agents,
    )


def listen(directory: Path) -> Listen:
    return Listen(
        port=4222,
        store=str(directory / 'a "store"'),
        log_file=str(directory / "log"),
        pid_file=str(directory / "pid"),
        monitor=new_pair()[1].decode(),
    )


def complaints(directory: Path, text: str) -> str:
    """Return the errors that nats-server reports for a configuration."""
    path = directory / "nats.conf"
    path.write_text(text)
    tried = subprocess.run(
        [shipped_binary(), "-t", "-c", path], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else tried.stderr


@pytest.mark.parametrize("open_agents", [True, False])
@pytest.mark.parametrize("agents", [(), ("code",), tuple(f"a{n}" for n in range(50))])
@pytest.mark.parametrize("prefix", ["safety.v1", "acme.gate.eu-1.x"])
def test_server_accepts_the_configuration(
    tmp_path: Path, agents: tuple[str, ...], prefix: str, *, open_agents: bool
) -> None:
    everybody = users(tmp_path, *agents, open_agents=open_agents)

    text = embedded(listen(tmp_path), everybody, Subjects(prefix))

    assert complaints(tmp_path, text) == ""


def test_external_server_accepts_the_accounts(tmp_path: Path) -> None:
    everybody = users(tmp_path, "code", open_agents=False)

    text = "jetstream: enabled\n" + accounts(everybody, Subjects())

    assert complaints(tmp_path, text) == ""


def test_server_accepts_a_lockout_of_anonymous_agents(tmp_path: Path) -> None:
    shut = msgspec.structs.replace(users(tmp_path, "code"), door_open=False)

    assert complaints(tmp_path, embedded(listen(tmp_path), shut, Subjects())) == ""


def test_server_accepts_old_keys_together_with_new_ones(tmp_path: Path) -> None:
    everybody, now = users(tmp_path, "code"), datetime.now(UTC)
    keyring = Keyring(tmp_path / "keys")
    names: dict[Role, str] = {"agents": "code", "operators": "local", "observers": "wall"}
    old = [everybody.newest(role)[name] for role, name in names.items()]
    for role, name in names.items():
        keyring.rotate(role, name, now=now, until=now + timedelta(hours=1))
    newest = {role: dict(keyring.public(role)) for role in names}
    rotated = msgspec.structs.replace(everybody, **newest, old_keys=keyring.old_keys(now))

    text = embedded(listen(tmp_path), rotated, Subjects())

    assert complaints(tmp_path, text) == ""
    assert all(text.count(key) == 1 for key in old)
    ended = {key for of_role in rotated.old_keys.values() for _, key in of_role}
    after = embedded(listen(tmp_path), rotated.without(ended), Subjects())
    assert not any(key in after for key in old)


def test_server_rejects_a_wrong_configuration(tmp_path: Path) -> None:
    everybody = users(tmp_path, "code")
    text = embedded(listen(tmp_path), everybody, Subjects())

    assert complaints(tmp_path, text.replace("account: SAFETY", "account: SAFE"))


def test_agents_need_a_key_if_open_agents_is_off(tmp_path: Path) -> None:
    text = accounts(users(tmp_path, open_agents=False), Subjects())

    assert "no_auth_user" not in text
    assert "OPEN" not in text


def test_server_listens_only_on_loopback_and_always_syncs(tmp_path: Path) -> None:
    lines = embedded(listen(tmp_path), users(tmp_path), Subjects()).splitlines()

    assert 'listen: "127.0.0.1:4222"' in lines
    assert "  sync_interval: always" in lines


def test_journal_is_smaller_than_the_store() -> None:
    assert MAX_JOURNAL_BYTES < MAX_STORE_BYTES


def test_locked_out_operator_can_send_commands_but_no_queries(tmp_path: Path) -> None:
    shut = msgspec.structs.replace(users(tmp_path), shut=frozenset({"local", "wall"}))

    text = embedded(listen(tmp_path), shut, Subjects())

    assert complaints(tmp_path, text) == ""
    assert "safety.v1.control.local" in text
    assert "safety.v1.query.local" not in text
    assert "safety.v1.query.wall" not in text
