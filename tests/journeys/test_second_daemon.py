"""Of two daemons exactly one answers; the other says why it does not."""

import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
import pytest

from safetyd.bus.keyring import Keyring
from safetyd.client import Decision, SyncSafety
from safetyd.core.events.decision_events import Decided
from safetyd.journal.audit import end_of, files
from tests.conftest import RunningDaemon, StartDaemon, safetyd
from tests.http_examples import fetch
from tests.journeys.agents import UNBOUNDED, Agent, History, crowd, until
from tests.journeys.audit_record import assert_recorded, assert_verifies, events
from tests.journeys.people import control
from tests.journeys.processes import freeze, thaw
from tests.nats_process import NatsProcess
from tests.servers import TornLink, down

MANY: Final = 300
FEW: Final = 33  # batches
LOST: Final = "the journal was lost or replaced"
JETSTREAM: Final = """
jetstream {{ store_dir: "{store}", max_file: 2GB, sync_interval: always }}
max_payload: 256KB
include "accounts.conf"
"""


class Shared:
    """An external bus, its keys, and the configuration of its daemons."""

    def __init__(self, directory: Path) -> None:
        keys = Keyring(directory / "keys")
        keys.make_own()
        self.daemon = keys.daemon
        self.operator = keys.operator
        self.agent = keys.add("agents", "code")
        printed = safetyd("nats-config", "--data-dir", str(directory))
        (directory / "accounts.conf").write_text(printed.stdout)
        self.bus = NatsProcess(directory, JETSTREAM.format(store=directory / "store"))
        url, key = f'url = "{self.bus.url}"', f'key_file = "{keys.daemon}"'
        self.bus_config = f"[bus]\n{url}\n{key}\n"
        self.config = f"{UNBOUNDED}{self.bus_config}"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    shared = Shared(tmp_path)
    yield shared
    shared.bus.stop()


def stands_by(daemon: RunningDaemon) -> bool:
    return daemon.endpoint.standby


def assert_answered_once(history: History) -> None:
    replies = Counter(heard.id for heard in history.heard if heard.replied)

    assert max(replies.values()) == 1


@pytest.mark.journey
def test_a_second_daemon_on_the_same_data_exits_and_names_the_first(
    start_daemon: StartDaemon,
) -> None:
    first = start_daemon(UNBOUNDED)

    with crowd(first.endpoint.bus, "a") as history:
        second = first.safetyd("run", "--config", str(first.config_path))
        history.until_allowed()

    assert second.returncode == 1
    assert f"pid {first.pid}" in second.stderr
    assert first.endpoint.pid == first.pid


@pytest.mark.journey
def test_a_standby_answers_only_after_the_first_daemon_is_gone_and_has_its_state(
    start_daemon: StartDaemon, shared: Shared
) -> None:
    first = start_daemon(shared.config)
    second = start_daemon(shared.config)
    agent = Agent("code", shared.bus.url, history := History(), shared.agent)

    with agent.at_work():
        assert stands_by(second)
        history.until_allowed()
        assert control(first, "stop", key=shared.operator)["journalled"]
        for _ in range(3):  # each reload writes a checkpoint and truncates the journal
            assert control(first, "reload", key=shared.operator)["ok"]
        first.kill()
        killed = time.monotonic()
        answer = history.until(lambda h: h.t > killed and h.decision.seq)
        print(f"taken over after {answer.t - killed:.2f} s")

    assert answer.decision.cause == "stopped"
    assert not [heard for heard in history.allows if history.sent[heard.id] > killed]
    assert_answered_once(history)
    assert_recorded(history, first.data_dir, second.data_dir)
    assert_verifies(first)
    assert_verifies(second)


@pytest.mark.journey
def test_a_standby_that_loses_its_connection_while_it_reads_the_journal_misses_nothing(
    start_daemon: StartDaemon, shared: Shared
) -> None:
    first = start_daemon(shared.config)
    agent = Agent("code", shared.bus.url, history := History(), shared.agent)
    link = TornLink(shared.bus)

    with closing(link), agent.at_work():
        until(lambda: len(history.allows) > MANY)
        link.tear_at(FEW)
        second = start_daemon(shared.config.replace(shared.bus.url, link.url))
        assert link.torn
        first.kill()
        killed = time.monotonic()
        history.until(lambda h: h.t > killed and h.decision.seq)
        second.stop()

    assert_answered_once(history)
    assert_recorded(history, second.data_dir)
    assert_verifies(second)
    assert "only in another daemon" not in second.log()


@pytest.mark.journey
def test_a_journal_in_an_older_state_is_reported_at_once_by_every_daemon(
    start_daemon: StartDaemon, shared: Shared, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    daemons = [start_daemon(f'{shared.config}name = "{name}"\n') for name in ("a", "b")]
    agent = Agent("code", shared.bus.url, history := History(), shared.agent)

    with agent.at_work():
        history.until_allowed()
        with down(shared.bus):
            shutil.copytree(store, tmp_path / "older")
        allowed = history.until_allowed().decision.seq or 0
        for daemon in daemons:
            audit = files(daemon.data_dir / "audit")[-1]
            until(lambda audit=audit: end_of(audit)[1] >= allowed)  # type: ignore[misc]
        with down(shared.bus):
            shutil.rmtree(store)
            (tmp_path / "older").rename(store)
        back = time.monotonic()
        for daemon in daemons:
            until(lambda daemon=daemon: LOST in daemon.log())  # type: ignore[misc]
            until(lambda daemon=daemon: LOST in fetch(daemon, "/healthz").body.decode())  # type: ignore[misc]
        status = daemons[0].safetyd("status", SAFETYD_KEY_FILE=str(shared.operator))
        for daemon in daemons:
            daemon.kill()

    assert LOST in status.stderr
    assert not [heard for heard in history.allows if heard.t > back]


@pytest.mark.journey
def test_a_frozen_daemon_that_lost_the_journal_becomes_a_standby(
    start_daemon: StartDaemon, shared: Shared
) -> None:
    first = start_daemon(shared.config)
    second = start_daemon(shared.config)
    agent = Agent("code", shared.bus.url, history := History(), shared.agent)

    with agent.at_work():
        assert stands_by(second)
        history.until_allowed()
        freeze(first.pid)
        history.until_allowed()
        thawed = time.monotonic()
        thaw(first.pid)
        until(lambda: stands_by(first))
        history.until_allowed()
        second.kill()
        history.until_allowed()

    assert "another daemon wrote batch" in first.log()
    assert all(heard.decision.seq for heard in history.heard if heard.t > thawed)
    assert_answered_once(history)
    assert_recorded(history, first.data_dir)
    assert_verifies(first)


@pytest.mark.journey
def test_a_daemon_that_joins_late_continues_the_hashes_of_the_others(
    start_daemon: StartDaemon, shared: Shared
) -> None:
    first = start_daemon(shared.config)
    agent = Agent("code", shared.bus.url, history := History(), shared.agent)

    with agent.at_work():
        for _ in range(3):  # each reload writes a checkpoint and truncates the journal
            history.until_allowed()
            assert control(first, "reload", key=shared.operator)["ok"]
        second = start_daemon(shared.config)
        first.kill()
        history.until_allowed()

    until(lambda: len(hashes(second)) > 10)
    old, new = hashes(first), hashes(second)
    shared_seqs = old.keys() & new.keys()
    assert shared_seqs
    assert min(new) > min(old)
    assert {seq: old[seq] for seq in shared_seqs} == {seq: new[seq] for seq in shared_seqs}
    assert_verifies(second)


def hashes(daemon: RunningDaemon) -> dict[int, str]:
    """Return the hash of each event in the audit files."""
    lines = [
        msgspec.json.decode(line)
        for path in files(daemon.data_dir / "audit")
        for line in path.read_bytes().splitlines()[1:]
    ]
    return {line["seq"]: line["hash"] for line in lines}


@pytest.mark.journey
def test_a_daemon_that_stops_refuses_no_proposal_that_has_time_left(
    start_daemon: StartDaemon, shared: Shared
) -> None:
    first = start_daemon(shared.config)
    second = start_daemon(shared.config)
    assert stands_by(second)
    decisions: list[Decision] = []
    over = threading.Event()
    both = f"{shared.bus.url},{shared.bus.url}"
    with SyncSafety("code", url=both, key_file=shared.agent, deadline_s=60) as safety:

        def work() -> None:
            while not over.is_set():
                decisions.append(safety.propose("read_file"))

        with ThreadPoolExecutor() as threads:
            done = [threads.submit(work) for _ in range(4)]
            try:
                until(lambda: len(decisions) > 50)
                first.stop()
                before = len(decisions)
                until(lambda: len(decisions) > before + 50)
            finally:
                over.set()
            for each in done:
                each.result()

    decided = Counter(
        event.id for event in events(second.data_dir) if isinstance(event, Decided) and event.first
    )
    assert [decision.reason for decision in decisions if not decision.allowed] == []
    assert all(decided[decision.id] == 1 for decision in decisions)
