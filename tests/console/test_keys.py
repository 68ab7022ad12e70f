import json
import stat
import subprocess

import pytest

from safetyd.bus.server import shipped_binary
from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon, safetyd


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def test_a_new_agents_key_works_at_once_and_is_its_owners_alone(daemon):
    said = daemon.safetyd("agent", "add", "fresh")

    seed = daemon.data_dir / "keys/agents/fresh.nk"
    assert said.returncode == 0
    assert f"export SAFETYD_URL={daemon.endpoint.bus}\n" in said.stdout
    assert f"export SAFETYD_KEY_FILE={seed}\n" in said.stdout
    assert stat.S_IMODE(seed.stat().st_mode) == 0o600
    assert daemon.safetyd("check", "fresh", "read_file").returncode == 0


def test_a_revoked_agents_key_is_refused_at_once(daemon, tmp_path):
    daemon.safetyd("agent", "add", "doomed")
    copy = tmp_path / "doomed.nk"
    copy.write_text((daemon.data_dir / "keys/agents/doomed.nk").read_text())
    with SyncSafety("doomed", data_dir=daemon.data_dir, key_file=copy) as safety:
        before = safety.propose("read_file")

        said = daemon.safetyd("agent", "revoke", "doomed")
        after = safety.propose("read_file")

    assert said.returncode == 0
    assert before.allowed
    assert (after.allowed, after.cause) == (False, "unavailable")


def test_agents_with_a_key_are_listed(daemon):
    daemon.safetyd("agent", "add", "listed")

    rows = json.loads(daemon.safetyd("agent", "list", "--json").stdout)["agents"]

    row = next(row for row in rows if row["name"] == "listed")
    assert row["public"].startswith("U")
    assert row["seed_here"] is True
    assert row["public"] in daemon.safetyd("agent", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (("agent", "add", "a.b"), 2, "is not a name"),
        (("agent", "revoke", "../operator"), 2, "is not a name"),
        (("agent", "revoke", "nobody"), 1, "nobody has no key"),
        (("operator", "revoke", "local"), 1, "this machine's own operator"),
        (("operator", "add", "local"), 1, "already has a key"),
    ],
)
def test_what_cannot_be_done_is_said_plainly(daemon, arguments, exit_code, words):
    said = daemon.safetyd(*arguments)

    assert said.returncode == exit_code
    assert words in said.stderr
    assert (daemon.data_dir / "keys/operator.nk").exists()


def test_an_operator_works_under_their_own_name_until_revoked(daemon):
    daemon.safetyd("operator", "add", "alice")

    stopped = daemon.safetyd("stop", "drill", "--operator", "alice")
    audit = daemon.safetyd("audit", "tail", "-n", "8").stdout
    daemon.safetyd("resume", "--operator", "alice")
    key = (daemon.data_dir / "keys/operators/alice.nk").read_text()
    daemon.safetyd("operator", "revoke", "alice")
    copy = daemon.directory / "alice.nk"
    copy.write_text(key)
    after = daemon.safetyd("status", "--key-file", str(copy))

    assert stopped.stdout.startswith("Everything is stopped.")
    assert "by=alice" in audit
    assert after.returncode == 1
    assert "refuses the key" in after.stderr


def test_an_observer_sees_and_changes_nothing(daemon):
    daemon.safetyd("operator", "add", "olga", "--observer")

    assert daemon.safetyd("status", "--operator", "olga").returncode == 0
    assert daemon.safetyd("reload", "--operator", "olga").returncode == 1
    listed = json.loads(daemon.safetyd("operator", "list", "--json").stdout)["operators"]
    assert {row["name"]: row["role"] for row in listed}["olga"] == "observer"
    assert daemon.safetyd("operator", "add", "olga").returncode == 1
    assert daemon.safetyd("operator", "revoke", "olga").returncode == 0


def test_a_key_that_a_broken_file_keeps_from_working_is_told(start_daemon: StartDaemon):
    daemon = start_daemon()
    daemon.config_path.write_text("nonsense = 1\n")

    said = daemon.safetyd("agent", "add", "late")

    assert said.returncode == 1
    assert "has not taken the keys on" in said.stderr
    assert "nonsense" in said.stderr


def test_without_a_daemon_a_key_takes_effect_at_the_start(tmp_path):
    said = safetyd("agent", "add", "early", SAFETYD_DATA_DIR=str(tmp_path / "data"))

    assert said.returncode == 0
    assert "from its next start" in said.stdout
    assert (tmp_path / "data/keys/agents/early.nk").exists()
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_nobody_has_a_key_before_the_first_start(tmp_path):
    for what in ("agent", "operator"):
        said = safetyd(what, "list", SAFETYD_DATA_DIR=str(tmp_path))

        assert (said.returncode, said.stdout) == (0, "Nobody has a key.\n")


def test_the_printed_accounts_are_a_configuration_that_the_server_takes(daemon, tmp_path):
    said = daemon.safetyd("nats-config")

    path = tmp_path / "accounts.conf"
    path.write_text(f'jetstream {{ store_dir: "{tmp_path}" }}\n{said.stdout}')
    tried = subprocess.run(
        [shipped_binary(), "-t", "-c", str(path)], capture_output=True, text=True, check=False
    )
    assert tried.returncode == 0, tried.stderr
    assert "sync_interval: always" in said.stdout
    assert "no_auth_user" not in said.stdout
    assert "SU" not in {word[:2] for word in said.stdout.split()}
