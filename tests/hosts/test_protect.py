"""`safetyd protect` and `unprotect`: hooks that hold, and files that are as before."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from safetyd.hosts.hook_command import HookCommand, is_ours
from safetyd.hosts.host_catalog import HOSTS, Place
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.hook_process import bash
from tests.hosts.telemetry_sender import token_of

pytestmark = pytest.mark.journey

SETTINGS = """{
  // what I like
  "model": "opus",
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine.sh"}]}, // mine
    ],
  },
}
"""


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon("")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def run(daemon: RunningDaemon, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return daemon.safetyd(*words, HOME=str(home), PATH="/usr/bin:/bin")


def hooks_of(text: str) -> Any:
    return json.loads(text)["hooks"]


def test_a_protected_host_asks_and_is_as_before_when_unprotected(
    daemon: RunningDaemon, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    settings.chmod(0o640)

    done = run(daemon, home, "protect", "claude-code", "--yes", "--json")

    assert done.returncode == 0, done.stderr
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["state"] == "protected"
    assert all(trial["holds"] for trial in host["trials"])
    protected = settings.read_text()
    assert "// what I like" in protected
    assert '"mine.sh"' in protected
    assert run(daemon, home, "protect", "--status").returncode == 0
    assert run(daemon, home, "protect", "claude-code", "--yes").returncode == 0
    assert settings.read_text() == protected

    assert run(daemon, home, "unprotect", "--yes").returncode == 0
    assert settings.read_text() == SETTINGS
    assert settings.stat().st_mode & 0o777 == 0o640
    assert not [*(home / ".local").rglob("*.json")]


def test_a_protected_host_sends_telemetry_with_a_token_that_is_not_printed(
    daemon: RunningDaemon, home: Path
) -> None:
    said = run(daemon, home, "protect", "claude-code", "gemini", "--yes")

    token = token_of(daemon, "claude-code")
    variables = json.loads((home / ".claude/settings.json").read_text())["env"]
    assert variables["OTEL_EXPORTER_OTLP_LOGS_HEADERS"] == f"Authorization=Bearer {token}"
    assert daemon.endpoint.web in variables["OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"]
    assert token_of(daemon, "gemini") in (home / ".gemini/settings.json").read_text()
    assert token.rpartition(".")[2] not in said.stdout + said.stderr


def test_telemetry_that_goes_elsewhere_is_left_alone_and_said(
    daemon: RunningDaemon, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"env": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://mine"}}')

    done = run(daemon, home, "protect", "claude-code", "--yes", "--json")

    (host,) = json.loads(done.stdout)["hosts"]
    assert (host["state"], host["telemetry"]) == ("protected", False)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in host["without_telemetry"]
    assert json.loads(settings.read_text())["env"] == {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://mine"}


def test_telemetry_stays_when_the_daemon_is_away_and_changes_with_it(
    home: Path, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon("")
    run(daemon, home, "protect", "claude-code", "--yes")
    variables = json.loads((home / ".claude/settings.json").read_text())["env"]
    daemon.stop()

    run(daemon, home, "protect", "claude-code", "--yes", "--agent", "other")

    assert json.loads((home / ".claude/settings.json").read_text())["env"] == variables


def test_files_and_folders_that_did_not_exist_are_gone_again(
    daemon: RunningDaemon, home: Path
) -> None:
    for host in ("claude-code", "gemini"):
        assert run(daemon, home, "protect", host, "--yes").returncode == 0
    assert run(daemon, home, "unprotect", "--yes").returncode == 0
    assert [path.name for path in home.iterdir()] == [".local"]


def test_settings_that_were_changed_meanwhile_lose_only_our_hooks(
    daemon: RunningDaemon, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    run(daemon, home, "protect", "claude-code", "--yes")
    changed = json.loads(settings.read_text())
    changed["model"] = "sonnet"
    changed["hooks"]["Stop"] = [{"hooks": [{"type": "command", "command": "mine.sh"}]}]
    settings.write_text(json.dumps(changed))

    assert run(daemon, home, "unprotect", "claude-code", "--yes").returncode == 0

    left = json.loads(settings.read_text())
    assert left == {"model": "sonnet", "hooks": {"Stop": changed["hooks"]["Stop"]}}


def test_settings_that_cannot_be_read_are_refused_and_unchanged(
    daemon: RunningDaemon, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  "model": \n}')

    done = run(daemon, home, "protect", "claude-code", "--yes")

    assert done.returncode == 1
    assert f"{settings} cannot be changed: line 3" in done.stderr
    assert settings.read_text() == '{\n  "model": \n}'


def test_without_a_terminal_nothing_is_written_unless_yes(
    daemon: RunningDaemon, home: Path
) -> None:
    shown = run(daemon, home, "protect", "claude-code", "--dry-run")
    asked = run(daemon, home, "protect", "claude-code")

    assert (shown.returncode, asked.returncode) == (0, 2)
    assert "+" in shown.stdout
    assert "hook.py" in shown.stdout
    assert not (home / ".claude").exists()
    assert (
        run(daemon, home, "protect", "--status").returncode == 0
    )  # nothing is found, nothing open


def test_a_host_without_a_daemon_is_written_and_named_as_not_guarded(
    home: Path, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon("")
    daemon.stop()

    done = run(daemon, home, "protect", "claude-code", "--yes")

    assert done.returncode == 1
    assert (home / ".claude" / "settings.json").exists()
    assert "safetyd run" in done.stdout
    assert f"safetyd install-service --now --data-dir {daemon.data_dir}\n" in done.stdout

    (home / ".config/systemd/user").mkdir(parents=True)
    (home / ".config/systemd/user/safetyd.service").touch()
    assert "install-service" not in run(daemon, home, "protect", "claude-code", "--yes").stdout


def test_hooks_that_codex_does_not_trust_do_not_count_as_guarded(
    daemon: RunningDaemon, home: Path
) -> None:
    done = run(daemon, home, "protect", "codex", "--yes", "--json")  # codex is not installed here

    (host,) = json.loads(done.stdout)["hosts"]
    assert done.returncode == 1
    assert [trial["claim"] for trial in host["trials"] if not trial["holds"]] == [
        "Codex CLI trusts the hooks"
    ]


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
@pytest.mark.parametrize(
    "broken", [{"python": "/nonexistent/python"}, {"script": "/nonexistent/safetyd/hook.py"}]
)
def test_a_hook_that_cannot_start_is_exit_2_with_words(
    host: Any, broken: dict[str, str], home: Path
) -> None:
    """Every host then skips the call; after other codes, or without words, some run it."""
    line = HookCommand("/usr/bin/python3", "/x/safetyd/hook.py", "/nonexistent", "agent")
    command = line._replace(**broken).ask(host.dialect)

    ran = subprocess.run(
        ["sh", "-c", command],
        input=json.dumps(bash("ls")),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 2
    assert "safetyd/hook.py" in ran.stderr  # what is missing
    assert "safetyd unprotect" in ran.stderr  # how to undo it


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_every_settings_file_has_a_mark_by_which_it_is_found_again(host: Any) -> None:
    line = HookCommand("/usr/bin/python3", "/x/safetyd/hook.py", "/run/hook.sock", "agent")
    for file in host.files("user", Place(Path("/home/me"), {}, Path("/home/me/project"))):
        text = file.protected("", line)
        assert file.mark in text
        assert file.mark not in file.unprotected(text)


def test_other_hooks_are_not_ours() -> None:
    assert is_ours({"hooks": [{"command": "python -I -S /x/safetyd/hook.py claude"}]})
    assert not is_ours({"hooks": [{"command": "my-safetyd-like-thing"}]})
    assert not is_ours({"matcher": "safetyd/hook.py"})
    assert not is_ours("safetyd/hook.py")
