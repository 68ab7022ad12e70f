import json
import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.console.doctor import daemon_checks
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.journal.audit import Audit
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import here, told
from tests.console.render.answers import status_answer, waiting
from tests.filled import reading
from tests.journeys.agents import until
from tests.journeys.people import query
from tests.story import at

findings = reading(daemon_checks.daemon)
histories = reading(daemon_checks.histories)
parts = reading(daemon_checks.parts)


@pytest.fixture(scope="module")
def shared_daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture
def shared(shared_daemon: RunningDaemon) -> Iterator[RunningDaemon]:
    """A daemon that others have used, with nothing stopped and nothing open to others."""
    yield shared_daemon
    shared_daemon.data_dir.chmod(0o700)
    (shared_daemon.data_dir / "keys/operator.nk").chmod(0o600)
    stop_file = shared_daemon.data_dir / "EMERGENCY_STOP"
    if stop_file.is_dir():
        stop_file.rmdir()
    told(shared_daemon, "resume", "--yes")
    told(shared_daemon, "resume", "--agent", "code")


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    return start_daemon()


def levels(daemon: RunningDaemon) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in json.loads(told(daemon, "doctor", "--json").stdout)["findings"]:
        found.setdefault(finding["check"], set()).add(finding["level"])
    return found


def test_a_healthy_daemon_has_nothing_wrong(shared):
    said = shared.safetyd("doctor")

    assert said.returncode == 0
    assert said.stdout.endswith("No problems found.\n")
    assert "Run agents as another user" in said.stdout


def test_requests_that_nobody_knows_of_are_wrong():
    untold = waiting(pending=2, channels=["email"], down=["email"], unnotified=1)

    found = [
        finding for finding in findings(status_answer(requests=untold)) if finding.level == "wrong"
    ]

    assert [finding.check for finding in found] == ["requests"]


def test_what_the_daemon_says_of_its_parts_is_told_as_it_says_it():
    bad = {"name": "channels", "state": "bad", "says": "email is down", "fix": "mend it"}
    warn = {"name": "keys", "state": "warn", "says": "old", "fix": ""}

    found = parts({"checks": [bad, warn, {**warn, "state": "good"}]})

    assert [(finding.level, finding.text) for finding in found] == [
        ("wrong", "email is down: mend it"),
        ("note", "old"),
        ("ok", "old"),
    ]


def test_doctor_says_of_a_running_daemon_what_the_daemon_says(shared):
    said = json.loads(told(shared, "doctor", "--json").stdout)["findings"]
    texts = {(finding["check"], finding["text"]) for finding in said}

    names = {check["name"] for check in query(shared, "health")["checks"]}

    assert {"daemon", "bus", "journal", "disk", "configuration", "channels", "versions"} <= names
    assert names <= {check for check, _ in texts}
    assert [check for check, _ in texts].count("disk") == 1
    assert any("4 of 4 connections work" in text for _, text in texts)


@pytest.mark.parametrize(
    ("wanted", "level"), [((), "ok"), (("warn",), "note"), (("warn", "critical"), "wrong")]
)
def test_without_a_daemon_the_disk_is_judged_by_the_limits_of_the_daemon(wanted, level, tmp_path):
    limits = [
        f"{name}_percent = {1 if name in wanted else 100}\n"
        f"{name}_free_bytes = {1024**5 if name in wanted else 0}\n"
        for name in ("warn", "critical")
    ]
    config = tmp_path / "safetyd.toml"
    config.write_text(f"[disk]\n{''.join(limits)}")

    assert daemon_checks.disk(config, tmp_path / "data").level == level


def test_programs_get_every_finding(shared):
    found = levels(shared)

    assert found["daemon"] == found["audit"] == found["web"] == found["keys"] == {"ok"}
    assert found["nats-server"] == found["disk"] == found["data dir"] == {"ok"}
    assert found["separation"] == found["open agents"] == {"note"}


def test_what_others_can_read_is_wrong(shared):
    (shared.data_dir / "keys/operator.nk").chmod(0o644)
    shared.data_dir.chmod(0o755)

    said = told(shared, "doctor")

    assert said.returncode == 1
    assert f"chmod 600 {shared.data_dir / 'keys/operator.nk'}" in said.stdout
    assert f"chmod 700 {shared.data_dir}" in said.stdout


def test_the_mode_that_the_unit_gives_the_data_directory_is_fine(shared):
    unit = (ROOT / "systemd/safetyd.service").read_text()
    [mode] = re.findall(r"^StateDirectoryMode=(\d+)$", unit, re.MULTILINE)
    shared.data_dir.chmod(int(mode, 8))

    assert levels(shared)["data dir"] == {"ok"}


def test_an_active_stop_is_noted(shared):
    told(shared, "stop", "drill")

    said = told(shared, "doctor")

    assert said.returncode == 0
    assert levels(shared)["stop"] == {"note"}
    assert said.stdout.endswith("No problems found. Everything is STOPPED.\n")


def test_a_stop_of_one_agent_is_noted_and_not_taken_for_everything(shared):
    told(shared, "stop", "--agent", "code")

    said = told(shared, "doctor")

    assert levels(shared)["agent stop"] == {"note"}
    assert "`safetyd resume --agent code`" in said.stdout
    assert said.stdout.endswith("No problems found.\n")


def test_a_directory_that_stops_is_said_to_need_a_hand(shared):
    (shared.data_dir / "EMERGENCY_STOP").mkdir()
    told(shared, "resume")  # returns when the daemon has seen it

    said = told(shared, "doctor")

    assert f"`rm -r {shared.data_dir / 'EMERGENCY_STOP'}`" in said.stdout


def test_a_stop_by_the_environment_is_said_to_need_a_start(start_daemon: StartDaemon):
    daemon = start_daemon(variables={"SAFETYD_ENABLED": "off"})

    said = told(daemon, "doctor")

    assert "everything by the daemon's environment since" in said.stdout
    assert "restart the daemon without that variable" in said.stdout
    assert said.stdout.endswith("No problems found. Everything is STOPPED.\n")


def test_a_file_that_a_reload_refuses_is_wrong_and_an_empty_blocklist_is_noted(daemon):
    good = daemon.config_path.read_text()
    daemon.config_path.write_text("nonsense = 1\n")
    told(daemon, "reload")
    refused = levels(daemon)

    daemon.config_path.write_text(
        f"{good}[gate]\nblocklist_patterns = []\n[audit]\nmax_bytes = 5000\n"
    )
    told(daemon, "reload")
    said = told(daemon, "doctor")

    assert (refused["configuration"], refused["config"]) == ({"wrong"}, {"wrong"})
    assert said.returncode == 0
    assert "gate.blocklist_patterns is empty" in said.stdout
    assert "[audit]" in said.stdout


@pytest.mark.req("S3.60")
def test_a_projects_file_that_is_broken_is_wrong_until_it_is_mended(daemon, tmp_path):
    file = tmp_path / ".safetyd.toml"
    file.write_text('"\\u001b[2J" = 1\n')
    with daemon.config_path.open("a") as config:
        config.write(f'[projects.web]\nfile = "{file}"\n')
    told(daemon, "reload")

    broken = told(daemon, "doctor")
    file.write_text("[budget]\nchain_usd = 1\n")

    assert broken.returncode == 1
    assert f"wrong  project        {file}: ?[2J is not a setting" in broken.stdout
    assert "project" not in levels(daemon)


def test_a_daemon_that_was_killed_is_missed(daemon):
    daemon.kill()

    said = told(daemon, "doctor")

    assert said.returncode == 1
    assert " nats://" in said.stdout
    assert "/readyz does not answer" in said.stdout


def test_nothing_at_all_is_wrong_but_explained(tmp_path):
    said = here("doctor", "--data-dir", str(tmp_path / "none"))

    assert said.returncode == 1
    assert f"`safetyd run --data-dir {tmp_path / 'none'}` creates it" in said.stdout
    assert said.stderr == ""


def found(directory: Path, *options: str) -> dict[str, list[tuple[str, str]]]:
    """Return level and text of everything that is found without a daemon."""
    said = here("doctor", "--json", "--data-dir", str(directory), *options)
    by_check: dict[str, list[tuple[str, str]]] = {}
    for finding in json.loads(said.stdout)["findings"]:
        by_check.setdefault(finding["check"], []).append((finding["level"], finding["text"]))
    return by_check


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory as a daemon leaves it."""
    tmp_path.chmod(0o700)
    Keyring(tmp_path / "keys").make_own()
    return tmp_path


def test_a_data_dir_that_cannot_be_looked_at_is_wrong(tmp_path):
    said = here("doctor", "--data-dir", str(tmp_path / ("x" * 300)))

    assert said.returncode == 1
    assert "File name too long" in said.stdout


def test_keys_that_cannot_be_looked_for_are_wrong_and_not_missing(tmp_path):
    (tmp_path / "keys").touch()

    assert found(tmp_path)["keys"] == [
        ("wrong", f"cannot read {tmp_path / 'keys'}: Not a directory")
    ]


@pytest.mark.parametrize("content", ["", "not a key", "UAAA", "S" * 56])
def test_a_file_that_holds_no_public_key_is_wrong_and_named(data_dir, content):
    bad = data_dir / "keys/agents/bad.pub"
    bad.parent.mkdir()
    bad.write_text(content)

    [(level, text)] = found(data_dir)["keys"]

    assert level == "wrong"
    assert text.startswith(f"{bad} does not contain a public key")


def test_old_keys_are_listed_while_they_hold_and_named_if_they_are_none(data_dir):
    now = datetime.now(UTC)
    Keyring(data_dir / "keys").rotate("operators", "local", now=now, until=now + timedelta(hours=1))
    listed = [text for _, text in found(data_dir)["operators"]]
    old = data_dir / "keys/operator.old.json"
    old.write_text("[]garbled")

    [(level, text)] = found(data_dir)["keys"]

    assert "old key of operator local is still valid until " in listed[-1]
    assert level == "wrong"
    assert text.startswith(f"{old} does not contain a list of old keys")


def test_a_garbled_seed_and_one_that_cannot_be_read_are_named(data_dir):
    (data_dir / "keys/operator.nk").write_text("garbled")
    (data_dir / "keys/operator.nk").chmod(0o600)
    (data_dir / "keys/odd.nk").mkdir(mode=0o700)

    texts = [text for level, text in found(data_dir)["keys"] if level == "wrong"]

    assert f"{data_dir / 'keys/operator.nk'} does not contain an nkey" in texts[1]
    assert texts[0] == f"cannot read {data_dir / 'keys/odd.nk'}: Is a directory"


@pytest.mark.parametrize("what", ["audit", "checkpoints"])
def test_files_that_cannot_be_looked_for_are_wrong(data_dir, what):
    (data_dir / what).touch()

    [(level, text)] = found(data_dir)[what]

    assert (level, text) == ("wrong", f"cannot read {data_dir / what}: Not a directory")


def test_a_checkpoint_that_cannot_be_read_is_wrong(data_dir):
    (data_dir / "checkpoints/1.msgpack").mkdir(parents=True)

    [(level, text)] = found(data_dir)["checkpoints"]

    assert (level, text.endswith("1.msgpack: Is a directory")) == ("wrong", True)


def test_audit_files_are_missed_only_where_a_daemon_has_been(data_dir):
    before = found(data_dir)["audit"]
    (data_dir / "nats").mkdir()

    after = found(data_dir)["audit"]

    assert (before[0][0], after[0][0]) == ("note", "wrong")


def test_a_gap_in_the_audit_files_is_noted(data_dir):
    audit = Audit(data_dir / "audit", 4096)
    audit.open()
    audit.append([encode(ClockStepped(seq=1, at=at(1), t=1.0, seconds=9.0))], 1)
    audit.skip_to(3)
    audit.close()

    assert [level for level, _ in found(data_dir)["audit"]] == ["ok", "note"]


@pytest.mark.parametrize(
    ("content", "level"), [("nonsense = 1\n", "wrong"), ("[web]\nport = 0\n", "ok")]
)
def test_the_file_that_a_start_would_read_is_judged(data_dir, content, level):
    config = data_dir / "safetyd.toml"
    config.write_text(content)

    assert {said for said, _ in found(data_dir, "--config", str(config))["config"]} == {level}
    assert {said for said, _ in found(data_dir)["config"]} == {level}, "a start reads it, too"


def test_a_taken_port_is_wrong_if_a_file_asks_for_it(data_dir):
    config = data_dir / "safetyd.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config.write_text(f"[web]\nport = {taken.getsockname()[1]}\n")

        [(level, text)] = found(data_dir, "--config", str(config))["web port"]

    assert level == "wrong"
    assert "Address already in use" in text
    assert [said for said, _ in found(data_dir, "--config", str(config))["web port"]] == ["ok"]


def test_a_taken_port_that_no_file_asks_for_is_noted(data_dir, monkeypatch):
    config = data_dir / "safetyd.toml"
    config.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        monkeypatch.setattr("safetyd.web.web_config.DEFAULT_PORT", number)

        said = [found(data_dir, *given)["web port"] for given in ((), ("--config", str(config)))]

    assert [level for [(level, _)] in said] == ["note", "note"]
    assert all(text.startswith(f"127.0.0.1:{number} is in use") for [(_, text)] in said)


def test_what_would_stop_a_start_is_noted(data_dir):
    (data_dir / "EMERGENCY_STOP").touch()

    said = here("doctor", "--data-dir", str(data_dir), SAFETYD_ENABLED="no")

    assert f"{data_dir}/EMERGENCY_STOP exists" in said.stdout
    assert "SAFETYD_ENABLED=no is set" in said.stdout
    assert said.stdout.endswith("1 problem found. Everything is STOPPED.\n")


def test_a_history_that_cannot_be_kept_is_wrong(daemon, tmp_path):
    with daemon.config_path.open("a") as config:
        config.write(f'[projects.shop]\nroot = "{tmp_path}/gone"\nhistory = "shadow"\n')
    told(daemon, "reload")

    said = told(daemon, "doctor")

    assert said.returncode == 1
    assert f"wrong  history        shop: {tmp_path}/gone does not exist" in (said.stdout)


def test_the_size_of_the_data_directory_is_measured_now(daemon):
    told(daemon, "doctor")
    (daemon.data_dir / "transcripts").mkdir(exist_ok=True)
    (daemon.data_dir / "transcripts" / "large").write_bytes(b"x" * 64 * 1024 * 1024)

    def says() -> str:
        return " ".join(told(daemon, "doctor").stdout.split())

    until(lambda: "transcripts 64.0 MiB" in says())


def test_a_missing_git_is_told_of_once():
    gone = {"name": "file history", "why": "git is not installed", "fix": "install it"}
    problems = ["shop: git is not installed; install it", "shop: /srv/shop does not exist"]

    found = histories({"problems": problems}, status_answer(unavailable=[gone]))

    assert [finding.text for finding in found] == problems[1:]
