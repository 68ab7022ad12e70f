from datetime import datetime, timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from safetyd.bus.keyring import Role
from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.events.disk_words import MAKE_ROOM
from safetyd.operators.contract.notification_contract import ChannelState
from safetyd.operators.contract.status_contract import ExporterState, HealthCheck
from safetyd.operators.views.health_view import (
    LOG,
    BusFacts,
    HealthFacts,
    JournalFacts,
    StoredFacts,
    health,
)
from tests.operators.views.view_reader import FACTS
from tests.story import at

GIB: Final = 1024**3
NOW: Final = 7200.0
DISK: Final = DiskUse(level="good", disk="/var", free_bytes=30 * GIB, total_bytes=40 * GIB)


def channel(name: str, *, up: bool = True, failing: bool = False, error: str = "") -> ChannelState:
    return ChannelState(
        name=name,
        up=up,
        waiting_high=0,
        waiting_normal=0,
        under_way=0,
        oldest_s=None,
        last_success_s_ago=None,
        last_error=error,
        failing=failing,
        fuse="closed",
        next_try_s=None,
    )


WELL: Final = HealthFacts(
    at=at(NOW),
    daemon=replace(FACTS, config="/etc/safetyd.toml", next_start=(), disk=DISK),
    bus=BusFacts(connections=4, heard=4, reconnects=2, problem=""),
    journal=JournalFacts(seq=9, written_at=at(NOW - 3), unwritten=0, unwritten_s=0.0, problem=""),
    stored=StoredFacts(
        audit_file="audit-00000002.jsonl",
        audit_files=2,
        audit_bytes=3 * 1024**2,
        checkpoint_seq=5,
        checkpoint_at=at(NOW - 600),
        keys={("agents", "code"): at(0), ("operators", "local"): at(0)},
    ),
    audit_seq=9,
    audit_head="ab" * 32,
    audit_problem="",
    checkpoint_problem="",
    channels=(channel("email"),),
    versions={"safetyd": "1.2.3", "Python": "3.11.2"},
)


def test_a_port_that_was_taken_is_named_with_what_keeps_the_other():
    moved = replace(WELL.daemon, web="http://127.0.0.1:41234")

    found = check(WELL._replace(daemon=moved, port_taken=8787), "web port")

    assert found.state == "warn"
    assert "8787" in found.says
    assert "`[web] port = 41234`" in found.fix


def check(facts: HealthFacts, name: str) -> HealthCheck:
    (found,) = [check for check in health(facts).checks if check.name == name]
    return found


def test_of_a_daemon_that_is_well_each_part_says_what_it_is_and_nothing_is_to_be_done():
    answer = health(WELL)

    assert answer.state == "good"
    assert answer.at == at(NOW)
    assert {one.name: one.says for one in answer.checks} == {
        "daemon": "pid 7 has been running for 2 h and is healthy",
        "bus": (
            "nats://127.0.0.1:4222 (embedded): 4 of 4 connections work, "
            "2 reconnects since the start"
        ),
        "journal": "event 9, last written 3 s ago",
        "audit": "audit-00000002.jsonl ends with event 9, hash abababababab…; 2 files, 3.0 MiB",
        "checkpoints": "the newest ends with event 5 and is 10 min old",
        "disk": "the disk at /var is 25 % full: 30.0 GiB of 40.0 GiB is free",
        "configuration": "/etc/safetyd.toml",
        "keys": "1 agent, 1 operator, 0 observers",
        "channels": "working: email",
        "versions": "safetyd 1.2.3, Python 3.11.2",
    }
    assert {(one.state, one.fix) for one in answer.checks} == {("good", "")}


def test_a_daemon_that_has_just_begun_is_well():
    fresh = WELL._replace(
        journal=JournalFacts(0, None, 0, 0.0, ""),
        stored=StoredFacts(audit_files=1),
        daemon=replace(FACTS, next_start=()),
        channels=(),
    )

    assert health(fresh).state == "good"
    assert check(fresh, "journal").says.startswith("event 0, ")
    assert "1 file," in check(fresh, "audit").says


def test_the_answer_is_as_bad_as_its_worst_check():
    waits = WELL._replace(daemon=replace(WELL.daemon, next_start=("web",)))

    assert health(waits).state == "warn"
    assert health(waits._replace(audit_problem="no")).state == "bad"


def test_a_journal_that_cannot_be_written_is_bad_and_a_full_disk_is_its_cause():
    stuck = WELL._replace(
        daemon=replace(WELL.daemon, problem="the journal has not answered for 3.0 s"),
        journal=WELL.journal._replace(unwritten=4, unwritten_s=3.04, problem="no answer"),
    )

    assert check(stuck, "daemon").says.endswith("the journal has not answered for 3.0 s")
    assert check(stuck, "journal").says.endswith("4 events not written for 3.0 s: no answer")
    assert check(stuck, "journal").fix.startswith(LOG)
    disk = replace(DISK, level="critical", free_bytes=0)
    full = stuck._replace(daemon=replace(stuck.daemon, disk=disk))
    assert check(full, "journal").fix == MAKE_ROOM
    assert (check(full, "disk").state, check(full, "disk").fix) == ("bad", MAKE_ROOM)
    assert check(full, "disk").says.startswith("the disk at /var is 100 % full")


@pytest.mark.parametrize(
    ("embedded", "fix"), [(True, "it restarts"), (False, "check that it is running")]
)
def test_a_bus_that_is_not_heard_is_bad(embedded, fix):
    deaf = WELL._replace(
        daemon=replace(WELL.daemon, embedded=embedded),
        bus=BusFacts(4, 1, 0, "the bus has not been heard for 4.0 s"),
    )

    found = check(deaf, "bus")

    assert found.state == "bad"
    assert found.says.endswith("the bus has not been heard for 4.0 s")
    assert found.fix.startswith(fix)


def test_a_connection_that_is_not_vital_and_not_heard_is_worth_a_look():
    assert check(WELL._replace(bus=BusFacts(4, 3, 0, "")), "bus").state == "warn"


def test_files_that_cannot_be_written_are_bad():
    audit = WELL._replace(audit_problem="the audit file cannot be written: x")
    saved = WELL._replace(checkpoint_problem="No space left")

    assert check(audit, "audit").says.endswith("the audit file cannot be written: x")
    assert check(saved, "checkpoints").says.endswith("No space left")
    assert {check(audit, "audit").state, check(saved, "checkpoints").state} == {"bad"}


def test_a_configuration_that_is_refused_is_bad_and_one_that_waits_is_noted():
    refused = WELL._replace(daemon=replace(WELL.daemon, config_problem="x is not a setting"))
    waits = WELL._replace(daemon=replace(WELL.daemon, next_start=("web", "bus")))

    assert check(refused, "configuration").state == "bad"
    assert "x is not a setting" in check(refused, "configuration").says
    assert check(waits, "configuration").state == "warn"
    assert "[web], [bus]" in check(waits, "configuration").says


def test_relays_are_counted_if_there_are_any():
    with_relay = WELL._replace(stored=StoredFacts(keys={("relays", "edge"): at(0)}))

    assert check(with_relay, "keys").says.startswith("0 agents, 0 operators, 0 observers, 1 relay")


def test_keys_that_are_more_than_a_year_old_are_named_the_oldest_first():
    year = timedelta(days=366)
    made: dict[tuple[Role, str], datetime] = {("agents", f"a{n}"): at(n) - year for n in range(6)}
    old = WELL._replace(stored=StoredFacts(keys={**made, ("agents", "new"): at(0)}))

    found = check(old, "keys")

    assert found.state == "warn"
    assert found.says == (
        "7 agents, 0 operators, 0 observers; more than a year old: agent a0, agent a1, agent a2, "
        "agent a3, agent a4 and 1 more"
    )
    assert "rotate" in found.fix


def test_an_outlet_may_be_behind_and_must_not_be_broken():
    behind = ExporterState(
        name="postgres", seq=2, behind=7, last_success=at(NOW - 9), errors=0, problem=""
    )
    broken = replace(behind, name="other", last_success=None, problem="it is down")
    facts = WELL._replace(daemon=replace(WELL.daemon, outlets=(behind, broken)))

    assert check(facts, "postgres").says == "7 events behind; last exported 9 s ago"
    assert check(facts, "postgres").state == "good"
    assert check(facts, "other").state == "bad"
    assert check(facts, "other").says.endswith("it is down")
    assert "safetyd outlet status" in check(facts, "other").fix


@pytest.mark.parametrize(("up", "state"), [(True, "warn"), (False, "bad")])
def test_a_channel_that_fails_is_named_with_its_error(up, state):
    failing = channel("sms", up=up, failing=True, error="refused")

    found = check(WELL._replace(channels=(*WELL.channels, failing)), "channels")

    assert found.state == state
    assert "sms" in found.says
    assert "refused" in found.says
    assert "email" not in found.says


def test_a_channel_that_was_down_before_the_start_is_said_to_be_untried():
    down = channel("sms", up=False)
    found = check(WELL._replace(channels=(down,)), "channels")

    assert found.state == "bad"
    assert found.says.startswith("sms")
