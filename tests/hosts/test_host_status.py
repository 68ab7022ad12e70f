"""`safetyd protect --status`, `safetyd doctor` and `safetyd verify` notice a guard with a hole."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from safetyd.hosts.hook_command import TAIL
from safetyd.hosts.host_catalog import HOSTS
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.user_home import UserHome

pytestmark = pytest.mark.journey

SETTINGS: Final = ".claude/settings.json"
PLUGIN: Final = ".config/opencode/plugin/safetyd.js"
NOTES: Final = {"key_readable"}  # that every home of these tests has


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon("")


@pytest.fixture
def home(daemon: RunningDaemon, tmp_path: Path) -> UserHome:
    return UserHome(daemon, tmp_path)


def replaced(name: str, old: str, new: str) -> Callable[[UserHome], None]:
    def change(home: UserHome) -> None:
        path = home.path / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


def in_project(name: str, text: str) -> Callable[[UserHome], None]:
    def change(home: UserHome) -> None:
        path = home.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return change


def removed(name: str) -> Callable[[UserHome], None]:
    return lambda home: (home.path / name).unlink()


def later_permission(home: UserHome) -> None:
    path = home.path / ".config/opencode/opencode.json"
    settings = json.loads(path.read_text())
    settings["permission"]["bash"] = "allow"  # after the rule that denies, so it wins
    path.write_text(json.dumps(settings))


BROKEN: Final = {
    "a hook is missing": ("claude-code", replaced(SETTINGS, "PreToolUse", "Other"), "incomplete"),
    "a short timeout": ("claude-code", replaced(SETTINGS, "660", "5"), "incomplete"),
    "not on failure": ("claude-code", replaced(SETTINGS, '"block"', '"run"'), "incomplete"),
    "no deny rule": ("claude-code", replaced(SETTINGS, "Read(//**/.ssh/**)", "x"), "incomplete"),
    "no JSON": ("claude-code", replaced(SETTINGS, "{", "{,"), "unreadable"),
    "no Python": (
        "claude-code",
        replaced(SETTINGS, sys.executable, "/nonexistent/python"),
        "missing_program",
    ),
    "off in the project": (
        "claude-code",
        in_project(".claude/settings.local.json", '{"disableAllHooks": true}'),
        "hooks_off",
    ),
    "off in a project of Gemini": (
        "gemini",
        in_project(".gemini/settings.json", '{"hooksConfig": {"disabled": ["safetyd"]}}'),
        "hooks_off",
    ),
    "off in a project of Codex": (
        "codex",
        in_project(".codex/config.toml", "[features]\nhooks = false\n"),
        "hooks_off",
    ),
    "off in a project of Copilot": (
        "copilot",
        in_project(".github/copilot/settings.json", '{"disableAllHooks": true}'),
        "hooks_off",
    ),
    "no policy": ("gemini", removed(".gemini/policies/safetyd.toml"), "incomplete"),
    "another plugin": ("opencode", replaced(PLUGIN, "throw", "void"), "incomplete"),
    "no plugin": ("opencode", removed(PLUGIN), "incomplete"),
    "a later permission": ("opencode", later_permission, "incomplete"),
}


@pytest.mark.parametrize(("host", "change", "code"), BROKEN.values(), ids=BROKEN)
def test_a_guard_with_a_hole_is_broken(
    home: UserHome, host: str, change: Callable[[UserHome], None], code: str
) -> None:
    home.safetyd("protect", host, "--yes")
    whole = home.status(host)
    change(home)
    broken = home.status(host)

    assert (whole["state"], whole["exit"]) == ("protected", 0)
    assert (broken["state"], broken["exit"]) == ("broken", 3)
    assert code in {problem["code"] for problem in broken["problems"]}
    assert all(problem["message"] and problem["fix"] for problem in broken["problems"])


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_is_installed_is_open_until_it_is_protected(home: UserHome, host: str) -> None:
    assert home.status(host)["state"] == "absent"
    home.install(HOSTS[host].program)
    found = home.status(host)
    assert (found["state"], found["exit"], found["found"]) == ("open", 3, True)
    assert found["version"] == HOSTS[host].oldest or host == "claude-code"
    assert home.problems(host) == {"not_protected"}


def test_what_status_says_of_a_protected_host(home: UserHome) -> None:
    home.install("claude")
    home.safetyd("protect", "claude-code", "--agent", "mine", "--yes")
    found = home.status("claude-code")
    assert {name: found[name] for name in ("version", "scope", "agent", "state", "files")} == {
        "version": "2.1.326",
        "scope": "user",
        "agent": "mine",
        "state": "protected",
        "files": [str(home.path / SETTINGS)],
    }
    assert home.problems("claude-code") == NOTES


def test_a_version_that_runs_calls_after_a_timeout_is_named(home: UserHome) -> None:
    home.install("claude", "2.1.197 (Claude Code)")
    home.protect("claude-code")
    assert home.problems("claude-code") == NOTES | {"fails_open"}
    said = home.safetyd("verify", "claude-code").stdout
    assert "is guarded, but not always:" in said
    assert "runs a call if the hook takes too long" in said


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("codex", "a call runs if a program kills its hook and the daemon"),
        ("gemini", "a call of an MCP server runs if a program kills its hook"),
    ],
)
def test_what_a_host_cannot_refuse_is_said(home: UserHome, host: str, said: str) -> None:
    for command in (("protect", host, "--yes"), ("verify", host)):
        assert f"cannot be made to hold here: {said}." in home.safetyd(*command).stdout


def test_a_guarded_host_is_guarded_in_the_strict_profile_too(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    home = UserHome(start_daemon('[hosts]\nprofile = "strict"\n'), tmp_path)
    home.install("claude")

    done = home.safetyd("protect", "claude-code", "--yes")

    assert done.returncode == 0, done.stdout
    assert "is guarded." in done.stdout


def test_a_command_of_an_older_version_keeps_its_agent(home: UserHome) -> None:
    done = home.safetyd("protect", "claude-code", "--agent", "mine", "--yes")
    assert done.returncode == 0, done.stdout
    path = home.path / SETTINGS
    older = (
        "; s=$?; [ $s = 0 ] || [ $s = 2 ] || "
        'echo "safetyd: the hook exited with code $s, so this call is blocked" >&2; '
        "[ $s = 0 ] || exit 2"
    )
    settings = path.read_text()
    assert json.dumps(TAIL)[1:-1] in settings
    path.write_text(settings.replace(json.dumps(TAIL)[1:-1], json.dumps(older)[1:-1]))
    assert "incomplete" in home.problems("claude-code")

    home.protect("claude-code")

    assert path.read_text() == settings


def test_a_project_has_an_agent_of_its_own_and_is_not_asked_twice(home: UserHome) -> None:
    home.protect("claude-code")
    home.protect("claude-code", "--project")
    found = home.status("claude-code", "--project")
    assert (found["agent"], found["scope"]) == ("claude-code-project", "project")
    assert "two_guards" in home.problems("claude-code")


def test_settings_that_the_host_wrote_again_are_whole(home: UserHome) -> None:
    home.protect("claude-code")
    path = home.path / SETTINGS
    settings = json.loads(path.read_text())
    settings["hooks"]["PreToolUse"].append({"hooks": [{"type": "command", "command": "mine"}]})
    path.write_text(json.dumps({"permissions": settings["permissions"], **settings, "model": "x"}))
    text = path.read_text()

    assert home.problems("claude-code") == NOTES
    home.protect("claude-code")
    assert path.read_text() == text


def test_without_the_daemon_a_host_is_closed_and_not_broken(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    daemon = start_daemon("")
    home = UserHome(daemon, tmp_path / "user")
    home.protect("claude-code")
    daemon.stop()
    assert home.status("claude-code")["state"] == "protected"
    assert "daemon_away" in home.problems("claude-code")


def test_doctor_shows_the_same_problems(home: UserHome) -> None:
    home.install("gemini")
    home.protect("claude-code")
    in_project(".claude/settings.json", '{"disableAllHooks": true}')(home)

    done = home.safetyd("doctor", "--json")

    found = {
        finding["code"]: finding["level"]
        for finding in json.loads(done.stdout)["findings"]
        if finding["check"] == "agent hosts" and finding["code"]
    }
    assert found == {"hooks_off": "wrong", "not_protected": "note"}
    assert done.returncode == 1


def test_verify_tries_the_command_line_in_the_settings(home: UserHome) -> None:
    """A newly built line would pass here."""
    home.protect("claude-code")
    before = home.safetyd("verify", "--json")
    replaced(SETTINGS, "hook.sock", "other.sock")(home)
    after = home.safetyd("verify", "--json")

    for done, holds, calls in ((before, True, 10), (after, False, 1)):
        (host,) = json.loads(done.stdout)["hosts"]
        first, *others = host["trials"]
        assert (first["holds"], first["calls"]) == (holds, calls)
        assert all(trial["holds"] for trial in others)
    assert (before.returncode, after.returncode) == (0, 1)
