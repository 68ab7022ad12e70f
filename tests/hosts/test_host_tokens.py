"""A daemon without anonymous agents: `safetyd protect` gives the agent a token."""

import json
from pathlib import Path

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.user_home import UserHome

pytestmark = pytest.mark.journey

TOKEN = ".local/state/safetyd/hosts/claude-code.token"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon("[bus]\nopen_agents = false\n")


def test_a_token_is_created_once_and_the_hook_uses_it(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    home = UserHome(daemon, tmp_path)
    home.protect("claude-code")
    token = home.path / TOKEN

    assert token.stat().st_mode & 0o777 == 0o600
    assert f"--token-file {token}" in (home.path / ".claude/settings.json").read_text()
    secret = token.read_text()
    home.protect("claude-code")
    assert token.read_text() == secret

    token.unlink()
    assert "no_token" in home.problems("claude-code")
    assert home.safetyd("verify").returncode == 1


def test_without_the_right_it_names_the_command_and_writes_nothing(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    """The name has a token already, which only an operator can replace."""
    assert daemon.safetyd("agent", "add", "taken", "--token").returncode == 0
    home = UserHome(daemon, tmp_path)

    done = home.safetyd("protect", "claude-code", "--agent", "taken", "--yes", "--json")

    said = json.loads(done.stdout)
    assert (done.returncode, said["code"]) == (1, "no_token")
    assert "safetyd agent" in said["error"]
    assert home.files() == []
