import os
from pathlib import Path

import pytest

from safetyd.client.discovery import start_command
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.locations import (
    Location,
    data_dir,
    make_private,
    running,
)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SAFETYD_URL", "SAFETYD_KEY_FILE", "SAFETYD_DATA_DIR", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)


def test_the_data_dir_is_the_option_then_ours_then_systemds_then_the_users(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert data_dir(None) == Path("/state/safetyd")
    monkeypatch.setenv("STATE_DIRECTORY", "/unit:/other")
    assert data_dir(None) == Path("/unit")
    monkeypatch.setenv("SAFETYD_DATA_DIR", "/ours")
    assert data_dir(None) == Path("/ours")
    assert data_dir("/option") == Path("/option")


def test_the_address_is_the_option_then_the_environment_then_the_endpoint_file(
    tmp_path, monkeypatch
):
    (tmp_path / "endpoint.json").write_text(
        '{"bus": "nats://file", "web": "", "pid": 1, "version": ""}'
    )
    assert Location(data_dir=tmp_path).address == "nats://file"
    monkeypatch.setenv("SAFETYD_URL", "nats://environment")
    assert Location(data_dir=tmp_path).address == "nats://environment"
    assert Location(data_dir=tmp_path, url="nats://option").address == "nats://option"


def test_no_endpoint_file_means_not_reachable_and_says_how_to_start(tmp_path):
    with pytest.raises(
        NotReachable, match=r"endpoint\.json does not exist.*`safetyd run --data-dir "
    ):
        _ = Location(data_dir=tmp_path).address


def test_whoever_looks_in_the_wrong_directory_learns_how_to_name_the_right_one(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    with pytest.raises(NotReachable, match=r"--data-dir or SAFETYD_DATA_DIR.* `safetyd run`"):
        _ = Location(data_dir=data_dir(None)).address


def test_hint_to_start_names_the_directory_unless_every_terminal_finds_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert start_command(data_dir(None)) == "safetyd run"
    monkeypatch.setenv("SAFETYD_DATA_DIR", "/some where")
    assert start_command(data_dir(None)) == "safetyd run --data-dir '/some where'"


def test_an_endpoint_file_that_cannot_be_read_is_not_said_to_be_missing(tmp_path):
    (tmp_path / "endpoint.json").write_text("{")

    with pytest.raises(NotReachable, match="unknown whether safetyd is running"):
        _ = Location(data_dir=tmp_path).address


def test_the_operator_is_local_or_called_as_the_key_file(tmp_path, monkeypatch):
    assert Location(data_dir=tmp_path).name == "local"
    assert Location(data_dir=tmp_path, key_file=Path("/k/alice.nk")).name == "alice"
    assert Location(data_dir=tmp_path, key_file=Path("/k/alice.nk"), operator="bob").name == "bob"
    monkeypatch.setenv("SAFETYD_KEY_FILE", "/k/carol.nk")
    assert Location(data_dir=tmp_path).name == "carol"


def test_a_key_of_somebody_called_operator_is_not_the_local_one(tmp_path):
    location = Location(data_dir=tmp_path, key_file=tmp_path / "keys/operators/operator.nk")

    assert location.name == "operator"


@pytest.mark.parametrize(
    ("key", "observes"),
    [
        ("keys/observers/olga.nk", True),
        ("elsewhere/olga.nk", True),
        ("keys/agents/olga.nk", False),
        ("keys/operator.nk", False),
        ("elsewhere/otto.nk", False),
    ],
)
def test_an_observer_is_known_by_the_keys_of_the_data_dir(tmp_path, key, observes):
    (tmp_path / "keys/observers").mkdir(parents=True)
    (tmp_path / "keys/observers/olga.pub").touch()

    assert Location(data_dir=tmp_path, key_file=tmp_path / key).observes is observes


@pytest.mark.parametrize(
    ("pid", "found"),
    [(os.getpid(), os.getpid()), (1, 1), (2**22 + 1, None), (0, None), (-1, None)],
    ids=["ours", "the first", "nobody", "zero", "a group"],
)
def test_a_daemon_runs_if_the_process_of_the_endpoint_file_lives(tmp_path, pid, found):
    (tmp_path / "endpoint.json").write_text(
        f'{{"bus": "nats://b", "web": "", "pid": {pid}, "version": ""}}'
    )

    assert running(tmp_path) == found


def test_without_an_endpoint_file_no_daemon_runs(tmp_path):
    assert running(tmp_path) is None


def test_a_key_file_with_no_operators_name_must_be_explained():
    with pytest.raises(Failure, match="--operator"):
        _ = Location(data_dir=Path("/d"), key_file=Path("/k/my key.nk")).name


def test_a_named_operators_key_is_found_in_the_data_dir(tmp_path):
    location = Location(data_dir=tmp_path, operator="alice")

    assert location.seed == tmp_path / "keys/operators/alice.nk"


def test_an_agent_speaks_with_the_given_key_then_its_own_then_the_environments(
    tmp_path, monkeypatch
):
    location = Location(data_dir=tmp_path)
    assert location.agent_key("code") is None
    monkeypatch.setenv("SAFETYD_KEY_FILE", "/elsewhere/code.nk")
    assert location.agent_key("code") == Path("/elsewhere/code.nk")
    own = tmp_path / "keys/agents/code.nk"
    own.parent.mkdir(parents=True)
    own.touch()
    assert location.agent_key("code") == own
    given = Location(data_dir=tmp_path, key_file=Path("/given.nk"))
    assert given.agent_key("code") == Path("/given.nk")


def test_an_operators_key_in_the_environment_is_not_taken_for_an_agents(tmp_path, monkeypatch):
    monkeypatch.setenv("SAFETYD_KEY_FILE", str(tmp_path / "keys/operator.nk"))

    assert Location(data_dir=tmp_path).agent_key("code") is None


def test_a_new_data_dir_is_its_owners_alone(tmp_path):
    make_private(tmp_path / "a" / "data")

    assert (tmp_path / "a" / "data").stat().st_mode & 0o777 == 0o700
