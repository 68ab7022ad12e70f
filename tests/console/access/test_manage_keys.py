import json
import shlex
import stat
import subprocess
import textwrap
from datetime import datetime
from typing import Any

import pytest

from safetyd.bus.embedded_server import shipped_binary
from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import here, told
from tests.journeys.agents import until


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
    assert told(daemon, "check", "fresh", "read_file").returncode == 0


def test_what_an_agent_needs_is_shown_for_the_shell_and_for_the_program(daemon):
    said = told(daemon, "agent", "add", "shown").stdout

    shell, program = said.split("In the agent's shell:")[1].split("In its program:")
    assert all(line.startswith("  export ") for line in shell.split("\n") if line)
    body = textwrap.indent(textwrap.dedent(program), "    ")
    compile(f"async def main():\n{body}", "shown", "exec")
    assert "from safetyd.client import Safety" in program


def test_a_revoked_agents_key_is_refused_at_once(daemon, tmp_path):
    told(daemon, "agent", "add", "doomed")
    copy = tmp_path / "doomed.nk"
    copy.write_text((daemon.data_dir / "keys/agents/doomed.nk").read_text())
    with SyncSafety("doomed", data_dir=daemon.data_dir, key_file=copy) as safety:
        before = safety.propose("read_file")

        said = told(daemon, "agent", "revoke", "doomed")
        after = safety.propose("read_file")

    assert said.returncode == 0
    assert before.allowed
    assert (after.allowed, after.cause) == (False, "unavailable")


def test_agents_with_a_key_are_listed(daemon):
    told(daemon, "agent", "add", "listed")

    rows = json.loads(told(daemon, "agent", "list", "--json").stdout)["agents"]

    row = next(row for row in rows if row["name"] == "listed")
    assert row["public"].startswith("U")
    assert row["seed_here"] is True
    assert row["public"] in told(daemon, "agent", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (("agent", "add", "a.b"), 2, "invalid name"),
        (("agent", "revoke", "../operator"), 2, "invalid name"),
        (("agent", "revoke", "nobody"), 1, "nobody has no key"),
        (("operator", "revoke", "local"), 1, "the operator of this machine"),
        (("operator", "revoke", "local"), 1, "`safetyd operator rotate local --now`"),
        (("operator", "add", "local"), 1, "already has a key"),
        (("operator", "add", "local"), 1, "`safetyd operator rotate local`"),
        (("agent", "rotate", "a.b"), 2, "invalid name"),
        (("agent", "rotate", "nobody"), 1, "nobody has no key"),
        (("operator", "rotate", "nobody"), 1, "nobody has no key; `safetyd operator list`"),
        (("operator", "rotate", "local", "--overlap", "soon"), 2, "'soon'"),
        (("operator", "rotate", "local", "--now", "--overlap", "1h"), 2, "--overlap, not both"),
    ],
)
def test_what_cannot_be_done_is_said_plainly(daemon, arguments, exit_code, words):
    said = told(daemon, *arguments)

    assert said.returncode == exit_code
    assert words in said.stderr
    assert (daemon.data_dir / "keys/operator.nk").exists()


def test_an_operator_works_under_their_own_name_until_revoked(daemon):
    shown = daemon.safetyd("operator", "add", "alice").stdout

    stopped = told(daemon, "stop", "drill", "--agent", "unheard", "--operator", "alice")
    audit = told(daemon, "audit", "tail", "-n", "8").stdout
    told(daemon, "resume", "--agent", "unheard", "--operator", "alice")
    key = (daemon.data_dir / "keys/operators/alice.nk").read_text()
    told(daemon, "operator", "revoke", "alice")
    copy = daemon.directory / "alice.nk"
    copy.write_text(key)
    after = told(daemon, "status", "--key-file", str(copy))

    assert f"export SAFETYD_URL={daemon.endpoint.bus}\n" in shown
    assert "unheard" in stopped.stdout.splitlines()[0]
    assert "alice stopped unheard: drill" in audit
    assert after.returncode == 1
    assert "rejects the key" in after.stderr


@pytest.mark.parametrize("name", ["anna", "operator"])
def test_the_command_that_a_new_operator_is_shown_works(daemon, name):
    shown = told(daemon, "operator", "add", name).stdout
    lines = [line.strip() for line in shown.splitlines() if line.startswith("  ")]
    variable, command = shlex.split(lines[0]), shlex.split(lines[1])

    said = here(*command[1:], **dict([variable[1].split("=", 1)]))

    assert (variable[0], command[0]) == ("export", "safetyd")
    assert said.returncode == 0, said.stderr


def test_an_observer_sees_and_changes_nothing(daemon):
    told(daemon, "operator", "add", "olga", "--observer")

    assert told(daemon, "status", "--operator", "olga").returncode == 0
    assert told(daemon, "reload", "--operator", "olga").returncode == 1
    listed = json.loads(told(daemon, "operator", "list", "--json").stdout)["operators"]
    assert {row["name"]: row["role"] for row in listed}["olga"] == "observer"
    assert told(daemon, "operator", "add", "olga").returncode == 1
    assert told(daemon, "operator", "revoke", "olga").returncode == 0


def test_while_the_file_is_broken_nobody_gets_a_key_and_none_is_left_behind(
    start_daemon: StartDaemon,
):
    daemon = start_daemon()
    told(daemon, "agent", "add", "early")
    daemon.config_path.write_text("nonsense = 1\n")

    for what in ("agent", "operator"):
        said = told(daemon, what, "add", "late")

        assert said.returncode == 1
        assert "no key was created for late" in said.stderr
        assert "nonsense" in said.stderr
        assert "late" not in told(daemon, what, "list").stdout
        assert not list((daemon.data_dir / "keys").rglob("late.*"))

    revoked = told(daemon, "agent", "revoke", "early")

    assert revoked.returncode == 1
    assert "the key of early is still valid" in revoked.stderr


def test_what_waits_for_the_next_start_is_said_with_a_new_key(start_daemon: StartDaemon):
    daemon = start_daemon()
    daemon.config_path.write_text("[web]\nport = 0\n[audit]\nmax_bytes = 5000\n")

    said = told(daemon, "agent", "add", "code")

    assert "[audit] has changed and takes effect at the next start\n" in said.stdout


@pytest.mark.parametrize("arguments", [("agent", "list"), ("agent", "add", "x"), ("nats-config",)])
def test_a_file_that_holds_no_public_key_is_named(arguments, tmp_path):
    bad = tmp_path / "keys/agents/bad.pub"
    bad.parent.mkdir(parents=True)
    bad.write_text("not a key\n")

    said = here(*arguments, SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 1
    assert f"{bad} does not contain a public" in said.stderr


def test_keys_that_cannot_be_looked_for_are_not_said_to_be_missing(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/agents").touch()

    said = here("agent", "list", SAFETYD_DATA_DIR=str(tmp_path))

    assert said.returncode == 1
    assert "Not a directory" in said.stderr


def test_without_a_daemon_a_key_takes_effect_at_the_start(tmp_path):
    said = here("agent", "add", "early", SAFETYD_DATA_DIR=str(tmp_path / "data"))

    assert said.returncode == 0
    assert "No daemon is running" in said.stdout
    assert (tmp_path / "data/keys/agents/early.nk").exists()
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_nobody_has_a_key_before_the_first_start(tmp_path):
    for what in ("agent", "operator"):
        said = here(what, "list", SAFETYD_DATA_DIR=str(tmp_path))

        assert (said.returncode, said.stdout) == (0, "No keys yet.\n")


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


def key_of(daemon: RunningDaemon, what: str, name: str) -> dict[str, Any]:
    rows = json.loads(told(daemon, what, "list", "--json").stdout)[f"{what}s"]
    found: dict[str, Any] = next(row for row in rows if row["name"] == name)
    return found


def test_who_has_a_key_is_told_where_it_is_and_how_to_get_another(daemon):
    told(daemon, "agent", "add", "twice")

    said = told(daemon, "agent", "add", "twice")
    seed = daemon.data_dir / "keys/agents/twice.nk"
    seed.unlink()
    moved = told(daemon, "agent", "add", "twice")

    assert (said.returncode, moved.returncode) == (1, 1)
    assert f"twice already has a key: {seed}; `safetyd agent rotate twice`" in said.stderr
    assert f"twice already has a key: {seed} (moved away)" in moved.stderr


def test_a_rotated_key_is_listed_with_the_end_of_the_old_one(daemon):
    told(daemon, "agent", "add", "turned")
    before = key_of(daemon, "agent", "turned")

    said = told(daemon, "agent", "rotate", "turned", "--overlap", "2h")

    after = key_of(daemon, "agent", "turned")
    [old] = after["old_keys"]
    assert before["old_keys"] == []
    assert (old["public"], after["public"] != old["public"]) == (before["public"], True)
    seen = f"{datetime.fromisoformat(old['until']):%Y-%m-%d %H:%M:%SZ}"
    assert str(daemon.data_dir / "keys/agents/turned.nk") in said.stdout
    assert f"until {seen}" in said.stdout
    assert f"until {seen}" in told(daemon, "agent", "list").stdout
    until(lambda: told(daemon, "check", "turned", "read_file").returncode == 0)


def test_a_key_that_is_rotated_twice_leaves_two_old_ones_and_now_ends_them(daemon):
    told(daemon, "agent", "add", "again")
    told(daemon, "agent", "rotate", "again")

    twice = told(daemon, "agent", "rotate", "again", "--overlap", "1h").stdout
    listed = told(daemon, "agent", "list").stdout
    ended = json.loads(told(daemon, "agent", "rotate", "again", "--now", "--json").stdout)

    assert "2 old keys " in twice
    assert "2, the last until " in listed
    assert key_of(daemon, "agent", "again") == {
        "name": "again",
        "public": ended["public"],
        "seed_here": True,
        "old_keys": [],
        "token": False,
    }
    assert (ended["old_keys"], ended["in_force"]) == ([], True)
    until(lambda: told(daemon, "check", "again", "read_file").returncode == 0)


def test_a_key_that_was_moved_away_is_to_be_moved_again(daemon):
    told(daemon, "operator", "add", "mover", "--observer")
    (daemon.data_dir / "keys/observers/mover.nk").unlink()

    said = told(daemon, "operator", "rotate", "mover")

    assert " moved" in said.stdout
    until(lambda: told(daemon, "status", "--operator", "mover").returncode == 0)


@pytest.mark.parametrize("by_copy", [False, True])
def test_the_local_operator_replaces_its_own_key_and_token_at_once(start_daemon, *, by_copy):
    daemon = start_daemon()
    keys = daemon.data_dir / "keys"
    copy = daemon.directory / "copy.nk"
    copy.write_text((keys / "operator.nk").read_text())
    token = (keys / "operator.token").read_text()
    speaker = ("--key-file", str(copy), "--operator", "local") if by_copy else ()

    said = told(daemon, "operator", "rotate", "local", "--now", *speaker)

    assert said.returncode == 0, said.stderr
    assert str(keys / "operator.token") in said.stdout
    assert (keys / "operator.token").read_text() != token
    assert told(daemon, "status").returncode == 0
    with_old = ("status", "--key-file", str(copy), "--operator", "local")
    until(lambda: "rejects the key" in told(daemon, *with_old).stderr)


def test_while_the_file_is_broken_a_rotation_changes_nothing(start_daemon: StartDaemon):
    daemon = start_daemon()
    told(daemon, "agent", "add", "code")
    keys = [path for path in (daemon.data_dir / "keys").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in keys}
    daemon.config_path.write_text("nonsense = 1\n")

    for who in (("agent", "rotate", "code"), ("operator", "rotate", "local", "--now")):
        said = told(daemon, *who)

        assert said.returncode == 1
        assert f"the key of {who[2]} is unchanged" in said.stderr
    keys = [path for path in (daemon.data_dir / "keys").rglob("*") if path.is_file()]
    assert {path: path.read_bytes() for path in keys} == before


def test_a_revoked_name_leaves_no_old_key(daemon):
    told(daemon, "operator", "add", "leaver")
    copy = daemon.directory / "leaver.nk"
    copy.write_text((daemon.data_dir / "keys/operators/leaver.nk").read_text())
    told(daemon, "operator", "rotate", "leaver")
    assert told(daemon, "status", "--key-file", str(copy)).returncode == 0

    revoked = told(daemon, "operator", "revoke", "leaver")

    assert revoked.stdout == "Revoked the key of leaver.\n"
    until(lambda: "rejects the key" in told(daemon, "status", "--key-file", str(copy)).stderr)
    assert not list((daemon.data_dir / "keys").rglob("leaver.*"))


def test_without_a_daemon_a_rotation_counts_from_the_next_start(tmp_path):
    place = {"SAFETYD_DATA_DIR": str(tmp_path / "data")}
    here("agent", "add", "early", **place)

    later = here("agent", "rotate", "early", **place)
    at_once = here("operator", "rotate", "local", "--now", **place)

    assert all("No daemon is running" in said.stdout for said in (later, at_once))
    assert (tmp_path / "data/keys/agents/early.old.json").exists()
    assert not (tmp_path / "data/keys/operator.old.json").exists()
    accounts = here("nats-config", **place).stdout
    assert accounts.count("safety.v1.propose.early") == 2


def test_old_keys_that_cannot_be_read_are_named(tmp_path):
    place = {"SAFETYD_DATA_DIR": str(tmp_path)}
    here("agent", "add", "odd", **place)
    bad = tmp_path / "keys/agents/odd.old.json"
    bad.write_text("{}")

    for arguments in (("agent", "list"), ("agent", "rotate", "odd"), ("nats-config",)):
        said = here(*arguments, **place)

        assert said.returncode == 1
        assert f"{bad} does not contain a list of old keys" in said.stderr


def test_a_key_that_cannot_be_written_is_not_rotated(tmp_path):
    place = {"SAFETYD_DATA_DIR": str(tmp_path)}
    here("agent", "add", "stuck", **place)
    (tmp_path / "keys/agents/stuck.next.nk.new").mkdir()

    said = here("agent", "rotate", "stuck", **place)

    assert said.returncode == 1
    assert "the key of stuck is unchanged: " in said.stderr
