from pathlib import Path

import pytest

from safetyd.console.failure import Failure, NotReachable
from safetyd.console.places import Place, data_dir, make_private


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
    assert Place(data_dir=tmp_path).address == "nats://file"
    monkeypatch.setenv("SAFETYD_URL", "nats://environment")
    assert Place(data_dir=tmp_path).address == "nats://environment"
    assert Place(data_dir=tmp_path, url="nats://option").address == "nats://option"


def test_no_endpoint_file_means_not_reachable_and_says_how_to_start(tmp_path):
    with pytest.raises(NotReachable, match=r"endpoint\.json is not there.*`safetyd run`"):
        _ = Place(data_dir=tmp_path).address


def test_the_operator_is_local_or_called_as_the_key_file(tmp_path, monkeypatch):
    assert Place(data_dir=tmp_path).name == "local"
    assert Place(data_dir=tmp_path, key_file=Path("/k/alice.nk")).name == "alice"
    assert Place(data_dir=tmp_path, key_file=Path("/k/alice.nk"), operator="bob").name == "bob"
    monkeypatch.setenv("SAFETYD_KEY_FILE", "/k/carol.nk")
    assert Place(data_dir=tmp_path).name == "carol"


def test_a_key_file_with_no_operators_name_must_be_explained():
    with pytest.raises(Failure, match="--operator"):
        _ = Place(data_dir=Path("/d"), key_file=Path("/k/my key.nk")).name


def test_a_named_operators_key_is_found_in_the_data_dir(tmp_path):
    place = Place(data_dir=tmp_path, operator="alice")

    assert place.seed == tmp_path / "keys/operators/alice.nk"


def test_an_agent_speaks_with_the_given_key_then_its_own_then_the_environments(
    tmp_path, monkeypatch
):
    place = Place(data_dir=tmp_path)
    assert place.agent_key("code") is None
    monkeypatch.setenv("SAFETYD_KEY_FILE", "/elsewhere/code.nk")
    assert place.agent_key("code") == Path("/elsewhere/code.nk")
    own = tmp_path / "keys/agents/code.nk"
    own.parent.mkdir(parents=True)
    own.touch()
    assert place.agent_key("code") == own
    given = Place(data_dir=tmp_path, key_file=Path("/given.nk"))
    assert given.agent_key("code") == Path("/given.nk")


def test_an_operators_key_in_the_environment_is_not_taken_for_an_agents(tmp_path, monkeypatch):
    monkeypatch.setenv("SAFETYD_KEY_FILE", str(tmp_path / "keys/operator.nk"))

    assert Place(data_dir=tmp_path).agent_key("code") is None


def test_a_new_data_dir_is_its_owners_alone(tmp_path):
    make_private(tmp_path / "a" / "data")

    assert (tmp_path / "a" / "data").stat().st_mode & 0o777 == 0o700
