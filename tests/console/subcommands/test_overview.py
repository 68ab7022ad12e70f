import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import anyio
import nats
import pytest

from safetyd.console.render.status_page import WELL
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon, environment
from tests.console.console_rig import told


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def propose(daemon: RunningDaemon, agent: str, **proposal: object) -> dict[str, object]:
    said = told(daemon, "propose", agent, stdin=json.dumps(proposal))
    answer: dict[str, object] = json.loads(said.stdout)
    return answer


def test_status_says_where_everything_is(daemon):
    said = daemon.safetyd("status")

    assert said.returncode == 0
    assert said.stdout.startswith(f"{WELL}\n\nsafetyd 0.1.0: healthy\n")
    assert daemon.endpoint.bus in said.stdout


def test_status_is_one_json_document(daemon):
    status = json.loads(told(daemon, "status", "--json").stdout)

    assert status["pid"] == daemon.pid
    assert status["stop"]["active"] is False


def test_agents_shows_what_each_was_told(daemon):
    propose(daemon, "counted", type="read_file")
    propose(daemon, "counted", type="run_shell", text="rm -rf /")

    rows = [line.split() for line in daemon.safetyd("agents").stdout.splitlines()]

    counted = next(row for row in rows if row[0] == "counted")
    assert rows[0][:2] == ["AGENT", "STATE"]
    assert rows[0][-6:] == ["KEY", "ALLOWED", "APPROVALS", "BLOCKED", "FAILED", "OPEN"]
    assert counted[-6:] == ["no", "1", "0", "1", "0", "0"]


def test_all_that_is_known_of_one_agent_is_shown_and_is_json_for_programs(daemon):
    propose(daemon, "known", type="read_file")

    said = told(daemon, "agents", "known")
    nobody = told(daemon, "agents", "knwon")

    assert said.stdout.startswith("known: ")
    assert " 1 allowed, " in said.stdout
    view = json.loads(told(daemon, "agents", "known", "--json").stdout)
    assert (view["agent"]["agent"], view["timeline"][-1]["type"]) == ("known", "read_file")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "Unknown agent knwon. Did you mean known?" in nobody.stderr


@pytest.mark.parametrize(
    ("command", "begins", "field"),
    [("money", "Spending today", "projection"), ("anomalies", "No anomalies", "findings")],
)
def test_figures_of_the_pages_are_shown_and_are_json_for_programs(daemon, command, begins, field):
    assert told(daemon, command).stdout.startswith(begins)
    assert field in json.loads(told(daemon, command, "--json").stdout)


def test_a_stopped_agent_is_marked(daemon):
    told(daemon, "stop", "--agent", "halted")
    propose(daemon, "halted", type="read_file")

    rows = [line.split() for line in told(daemon, "agents").stdout.splitlines()]

    told(daemon, "resume", "--agent", "halted")
    assert {row[0]: row[1] for row in rows}["halted"] == "stopped"


def test_more_agents_than_one_answer_carries_are_all_listed(start_daemon: StartDaemon):
    daemon = start_daemon(UNLIMITED)
    names = sorted(f"agent-{number:040}" for number in range(450))
    anyio.run(heard, daemon, names)

    rows = json.loads(told(daemon, "agents", "--json").stdout)["agents"]
    said = told(daemon, "status").stdout.splitlines()
    paused = told(daemon, "pause", names[-1])

    assert [row["agent"] for row in rows] == names
    assert said[-1] == "and 440 more: `safetyd agents`"
    assert (paused.returncode, paused.stdout) == (0, f"{names[-1]} is paused.\n")


async def heard(daemon: RunningDaemon, names: Sequence[str]) -> None:
    """Let every agent be known, all over one connection, as agents without a key may."""
    client = await nats.connect(daemon.endpoint.bus)
    for name in names:
        subject = f"safety.v1.propose.{name}"
        answer = await client.request(subject, b'{"type": "read_file"}', timeout=20)
        assert json.loads(answer.data)["decision"] == "allow"
    await client.close()


def test_reset_lets_a_looper_start_afresh(daemon):
    click = {
        "type": "click",
        "target": {"label": "More"},
        "observation": {"window_title": "News"},
    }
    answers = [propose(daemon, "looper", **click)["decision"] for _ in range(3)]

    said = daemon.safetyd("reset", "looper")

    assert answers == ["allow", "allow", "block"]
    assert said.returncode == 0
    assert propose(daemon, "looper", **click)["decision"] == "allow"


def test_a_reset_of_a_name_that_was_never_heard_says_so(daemon):
    propose(daemon, "shopper", type="read_file")

    said = told(daemon, "reset", "shoper")

    assert said.returncode == 0
    assert said.stdout == ("Unknown agent shoper. Did you mean shopper? Nothing to reset.\n")


def test_reload_and_status_say_what_waits_for_the_next_start(start_daemon: StartDaemon):
    daemon = start_daemon()
    daemon.config_path.write_text("[web]\nport = 0\n[audit]\nmax_bytes = 5000\n")

    said = told(daemon, "reload")

    waits = "[audit] has changed and takes effect at the next start\n"
    assert said.stdout == f"Reloaded.\n{waits}"
    assert waits in told(daemon, "status").stdout


def test_reload_prints_the_warnings_of_config_check(start_daemon: StartDaemon):
    daemon = start_daemon()
    daemon.config_path.write_text(
        "[web]\nport = 0\n[projects.web]\nroot = '/srv/of-nobody'\n[notifications.email]\n"
        "enabled = true\nto = 'a@b.example'\nfrom = 'a@b.example'\nsmtp_host = 'b.example'\n"
        "username = 'a'\npassword_file = 'smtp.password'\n"
    )

    said = told(daemon, "reload")
    checked = told(daemon, "config", "check", str(daemon.config_path))

    assert (said.returncode, said.stdout) == (0, "Reloaded.\n")
    assert "notifications.email.password_file" in said.stderr
    assert "projects.web.root: /srv/of-nobody is not a folder" in said.stderr
    assert said.stderr == checked.stderr


def test_reload_names_every_mistake_and_keeps_the_last_good_file(start_daemon: StartDaemon):
    daemon = start_daemon()
    good = daemon.config_path.read_text()
    daemon.config_path.write_text('mode = "party"\nprofil = 1\n')

    refused = daemon.safetyd("reload")
    status = told(daemon, "status").stdout
    daemon.config_path.write_text(good)
    taken = told(daemon, "reload")

    assert refused.returncode == 1
    assert "mode" in refused.stderr
    assert "profil" in refused.stderr
    assert re.match(r"CONFIGURATION REFUSED: .*mode is", status)
    assert (taken.returncode, taken.stdout) == (0, "Reloaded.\n")


@contextmanager
def watching(daemon: RunningDaemon, *options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "watch", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir)),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Watching nats://")
        yield process
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
            process.wait(20)


def test_watch_prints_events_until_interrupted(daemon):
    with watching(daemon) as process:
        propose(daemon, "watched", type="run_shell", text="rm -rf /")
        assert process.stdout is not None
        line = process.stdout.readline()

    assert "ACTION_BLOCKED: gate.blocklist:rm_rf blocked watched" in line
    assert process.returncode == 0


def test_a_watch_ends_when_nobody_reads_it_any_more(daemon):
    with watching(daemon) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        propose(daemon, "unseen", type="run_shell", text="rm -rf /")
        process.wait(20)

        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_watch_gives_programs_one_document_a_line(daemon):
    with watching(daemon, "--json") as process:
        propose(daemon, "watched_too", type="run_shell", text="rm -rf /")
        assert process.stdout is not None
        event = json.loads(process.stdout.readline())

    assert (event["event_type"], event["agent_id"]) == ("ACTION_BLOCKED", "watched_too")


def test_watch_ends_with_4_when_the_daemon_goes(start_daemon: StartDaemon):
    daemon = start_daemon()

    with watching(daemon) as process:
        daemon.stop()
        process.wait(20)

    assert process.returncode == 4


def test_the_page_of_an_agent_shows_what_it_did_and_counts_what_it_repeats(daemon):
    told(daemon, "check", "busy", "read_file", "--text", "notes.txt")
    for _ in range(12):
        told(daemon, "check", "busy", "run_shell", "--text", "rm -rf /")

    said = told(daemon, "agents", "busy").stdout

    timeline = said[said.index("Timeline:") :]
    assert timeline.count("run_shell: rm -rf /") == 1
    assert "times since" in timeline
    assert "read_file: notes.txt" in timeline
