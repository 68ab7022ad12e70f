import os
from pathlib import Path

import pytest

from safetyd.client.discovery import find
from safetyd.client.exceptions import Down


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SAFETYD_DATA_DIR", "STATE_DIRECTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def announce(directory: Path) -> str:
    directory.mkdir(parents=True)
    url = f"nats://{directory.name}:4222"
    (directory / "endpoint.json").write_text(f'{{"bus": "{url}"}}')
    return url


def test_the_data_dir_comes_from_the_argument_then_the_environment_then_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argument = announce(tmp_path / "argument")
    chosen = announce(tmp_path / "chosen")
    unit = announce(tmp_path / "unit")
    (tmp_path / "state").mkdir()
    state = announce(tmp_path / "state" / "safetyd")
    home = announce(tmp_path / "home" / ".local" / "state" / "safetyd")

    assert find("code", None, None, None).url == home
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert find("code", None, None, None).url == state
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path / 'unit'}:{tmp_path / 'other'}")
    assert find("code", None, None, None).url == unit
    monkeypatch.setenv("SAFETYD_DATA_DIR", str(tmp_path / "chosen"))
    assert find("code", None, None, None).url == chosen
    assert find("code", None, None, tmp_path / "argument").url == argument


def test_the_url_comes_from_the_argument_then_the_environment_then_the_endpoint_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "here"
    announced = announce(directory)

    assert find("code", None, None, directory).url == announced
    monkeypatch.setenv("SAFETYD_URL", "nats://environment:1")
    assert find("code", None, None, directory).url == "nats://environment:1"
    assert find("code", "nats://argument:1", None, directory).url == "nats://argument:1"


def test_the_key_comes_from_the_argument_then_the_environment_then_the_data_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "keys" / "agents" / "code.nk"
    own.parent.mkdir(parents=True)
    own.write_text("SUOWN\n")
    (tmp_path / "environment.nk").write_text("SUENV\n")
    (tmp_path / "argument.nk").write_text("SUARG\n")

    assert find("code", "nats://x", None, tmp_path).seed == "SUOWN"
    assert find("other", "nats://x", None, tmp_path).seed is None
    monkeypatch.setenv("SAFETYD_KEY_FILE", str(tmp_path / "environment.nk"))
    assert find("code", "nats://x", None, tmp_path).seed == "SUENV"
    assert find("code", "nats://x", tmp_path / "argument.nk", tmp_path).seed == "SUARG"


def test_the_error_names_an_endpoint_that_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "endpoint.json").mkdir()

    with pytest.raises(Down, match=r"cannot read .*endpoint\.json"):
        find("code", None, None, tmp_path)


def test_a_url_can_list_several_servers() -> None:
    endpoint = find("code", "nats://me:pw@a:1, nats://b:2", None, os.devnull)

    assert endpoint.servers == ["nats://me:pw@a:1", "nats://b:2"]
    assert endpoint.shown == "nats://a:1,nats://b:2"
