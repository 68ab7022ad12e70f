"""`safetyd protect` refuses what it cannot do safely, and then writes nothing."""

import json
import os
from pathlib import Path

import pytest

from safetyd.console.hosts.host_version import is_older
from safetyd.hosts.host_catalog import HOSTS
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.host_programs import PROGRAMS
from tests.hosts.user_home import UserHome

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon("")


@pytest.fixture
def home(daemon: RunningDaemon, tmp_path: Path) -> UserHome:
    return UserHome(daemon, tmp_path)


def refused(home: UserHome, *hosts: str) -> str:
    """Return the code with which hosts are not protected."""
    done = home.safetyd("protect", *hosts, "--yes", "--json")
    assert done.returncode == 1, done.stdout
    return str(json.loads(done.stdout)["code"])


def test_a_version_that_is_older_than_those_tested(home: UserHome) -> None:
    home.install("claude", "2.1.196 (Claude Code)")
    assert refused(home, "claude-code") == "old_version"
    assert home.files() == []


@pytest.mark.parametrize("host", ["gemini", "copilot", "opencode"])
def test_a_scope_that_was_not_tried_with_the_real_program(home: UserHome, host: str) -> None:
    assert refused(home, host, "--system") == "not_offered"
    assert home.status(host, "--system")["state"] == "absent"


@pytest.mark.parametrize("host", HOSTS)
def test_the_oldest_version_is_one_that_was_tested(host: str) -> None:
    versions = [program.version for program in PROGRAMS if program.host == host]
    assert HOSTS[host].oldest in versions
    assert not any(is_older(version, HOSTS[host].oldest) for version in versions)


def test_settings_of_another_user(home: UserHome) -> None:
    settings = home.path / ".claude" / "settings.json"
    settings.parent.mkdir()
    if os.geteuid() == 0:
        settings.write_text("{}")
        os.chown(settings, 12345, -1)
    else:
        other = Path("/etc/passwd")  # root's
        settings.symlink_to(other)
    assert refused(home, "claude-code") == "not_yours"
    assert home.files() == [".claude/settings.json"]


def test_a_file_of_somebody_else_where_ours_would_be(home: UserHome) -> None:
    other = home.path / ".copilot" / "hooks" / "safetyd.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"version": 1}')
    assert refused(home, "copilot") == "foreign"
    assert home.safetyd("unprotect", "--yes").returncode == 0
    assert other.read_text() == '{"version": 1}'


@pytest.mark.parametrize(
    ("host", "name", "text", "line"),
    [
        ("claude-code", ".claude/settings.json", '{\n  "model": \n}', "line 3"),
        ("codex", ".codex/config.toml", 'model = "x"\nmodel = \n', "line 2"),
    ],
)
def test_settings_that_do_not_parse(
    home: UserHome, host: str, name: str, text: str, line: str
) -> None:
    settings = home.path / name
    settings.parent.mkdir()
    settings.write_text(text)
    done = home.safetyd("protect", host, "--yes")
    assert done.returncode == 1
    assert str(settings) in done.stderr
    assert line in done.stderr
    assert home.files() == [name]
    assert settings.read_text() == text


def test_if_a_step_fails_everything_is_put_back(home: UserHome) -> None:
    """Codex cannot say which hashes its hooks have: nothing of either host stays."""
    settings = home.path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}')
    home.install("codex")

    assert refused(home, "claude-code", "codex") == "codex"

    assert home.files() == [".claude/settings.json"]
    assert settings.read_text() == '{"model": "opus"}'
    assert not (home.path / ".codex").exists()


def test_a_second_protect_that_fails_leaves_the_first(home: UserHome) -> None:
    home.safetyd("protect", "codex", "--yes")  # without the program there is no step that fails
    before = {name: (home.path / name).read_bytes() for name in home.files()}
    home.install("codex")

    assert refused(home, "codex", "--agent", "other") == "codex"

    assert {name: (home.path / name).read_bytes() for name in home.files()} == before
