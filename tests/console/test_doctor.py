import json

import pytest

from tests.conftest import RunningDaemon, StartDaemon, safetyd


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    return start_daemon()


def levels(daemon: RunningDaemon) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in json.loads(daemon.safetyd("doctor", "--json").stdout)["findings"]:
        found.setdefault(finding["check"], set()).add(finding["level"])
    return found


def test_a_healthy_daemon_has_nothing_wrong(daemon):
    said = daemon.safetyd("doctor")

    assert said.returncode == 0
    assert said.stdout.endswith("Nothing is wrong.\n")
    assert "have no secrets from one another" in said.stdout
    assert "can read" in said.stdout
    assert "run agents as another user" in said.stdout


def test_programs_get_every_finding(daemon):
    found = levels(daemon)

    assert found["daemon"] == found["audit"] == found["web"] == found["keys"] == {"ok"}
    assert found["nats-server"] == found["disk"] == found["data dir"] == {"ok"}
    assert found["separation"] == found["open agents"] == {"note"}


def test_what_others_can_read_is_wrong(daemon):
    (daemon.data_dir / "keys/operator.nk").chmod(0o644)
    daemon.data_dir.chmod(0o755)

    said = daemon.safetyd("doctor")

    assert said.returncode == 1
    assert f"chmod 600 {daemon.data_dir / 'keys/operator.nk'}" in said.stdout
    assert f"chmod 700 {daemon.data_dir}" in said.stdout


def test_an_active_stop_is_noted(daemon):
    daemon.safetyd("stop", "drill")

    assert levels(daemon)["stop"] == {"note"}


def test_a_daemon_that_was_killed_is_missed(daemon):
    daemon.kill()

    said = daemon.safetyd("doctor")

    assert said.returncode == 1
    assert "no safetyd answers at nats://" in said.stdout
    assert "/readyz does not answer" in said.stdout


def test_nothing_at_all_is_wrong_but_explained(tmp_path):
    said = safetyd("doctor", "--data-dir", str(tmp_path / "none"))

    assert said.returncode == 1
    assert "`safetyd run` makes it" in said.stdout
    assert "Traceback" not in said.stderr
