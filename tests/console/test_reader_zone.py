"""Whoever reads the terminal reads their own clock; programs read UTC."""

import json
import re
from collections.abc import Callable
from typing import Final

import anyio
import pytest

from tests.bus.peer import Peer
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import told
from tests.servers import until

ZONE: Final = "Asia/Kathmandu"
find_local = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0545\b").search
find_utc = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ").search
find_record = re.compile(r"T\d\d:\d\d:\d\d(\.\d+)?Z").search

# Each prints a time, once everything has happened that the daemon below has seen.
SHOWN: Final = {
    "list": ("list",),
    "show": ("show", "{put_off}"),
    "show ended": ("show", "{denied}"),
    "log": ("log",),
    "status": ("status",),
    "explain": ("explain", "p-1"),
    "audit tail": ("audit", "tail"),
    "grants": ("grants",),
    "transcripts": ("transcripts",),
    "safe-mode": ("safe-mode",),
    "doctor": ("doctor",),
    "deny again": ("deny", "{denied}"),
    "budgets raise": ("budgets", "raise", "day", "1", "--reason", "late"),
}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture(scope="module")
def requests(daemon: RunningDaemon) -> dict[str, str]:
    """The ids of a request that was denied and of one that was put off."""
    with Peer(daemon.endpoint.bus) as peer:
        found = {}
        for name, proposal in {"denied": "p-1", "put_off": "p-2"}.items():
            push = {"id": proposal, "type": "push", "text": f"git push origin {name}"}
            push |= {"session": "s-1"}
            asked = peer.ask("safety.v1.propose.code", json.dumps(push).encode()).fields
            found[name] = asked["request_id"]
        peer.ask("safety.v1.telemetry.code", b'{"type": "session_ended", "session": "s-1"}')
    terms = ("--agent", "code", "--type", "push", "--uses", "1", "--for", "2h", "--reason", "why")
    for command in (
        ("deny", found["denied"]),
        ("defer", found["put_off"], "--until", "2h"),
        ("grant", "add", *terms),
        ("safe-mode", "enter", "--agent", "code", "--reason", "drill"),
        ("pause", "code", "lunch"),
    ):
        assert told(daemon, *command).returncode == 0, command
    anyio.run(until, lambda: list((daemon.data_dir / "transcripts").glob("*.json")))
    return found


@pytest.fixture(autouse=True)
def zone(live_in: Callable[[str], None]) -> None:
    live_in(ZONE)


@pytest.mark.parametrize("name", SHOWN)
def test_what_people_read_is_in_their_zone(daemon, requests, name):
    said = told(daemon, *(word.format(**requests) for word in SHOWN[name]))

    assert find_local(said.stdout + said.stderr), said
    assert not find_utc(said.stdout + said.stderr), said


def test_a_stop_says_in_the_readers_zone_since_when(daemon, requests):
    told(daemon, "stop", "--agent", "code", "drill")
    status = told(daemon, "status").stdout
    told(daemon, "resume", "--agent", "code", "--yes")

    (cause,) = (line for line in status.splitlines() if line.startswith("STOPPED: code by local"))
    assert find_local(cause)


@pytest.mark.parametrize("command", ["list", "log", "status", "grants", "transcripts"])
def test_what_programs_read_is_in_utc(daemon, requests, command):
    said = told(daemon, command, "--json").stdout

    assert find_record(said)
    assert "+05:45" not in said


def test_records_stay_in_utc(daemon, requests):
    (audit,) = (daemon.data_dir / "audit").glob("*.jsonl")

    assert find_record(audit.read_text())
    assert "+05:45" not in audit.read_text() + daemon.log()
