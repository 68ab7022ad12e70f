"""What agents notice of each fault, and what must be true after it.

The time without an allow is compared with the time for which the same cluster, in the same run,
takes no appends of a bare client after its leader was killed. The limits leave room for a busy
machine; docs/cluster.md has the times of a quiet one.
"""

import time
from collections.abc import Iterator

import pytest

from tests.cluster.fleet import Fleet, running_fleet
from tests.cluster.invariants import check
from tests.journeys.agents import until
from tests.nats_cluster import NAMES

pytestmark = [pytest.mark.journey, pytest.mark.alone]

SILENT_S = 2.0  # after which a writer that cannot append sends no decisions
MANY = 100  # allows, which take about four seconds


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def election_s(shared: Fleet) -> float:
    """How long NATS itself takes no appends after the leader was killed."""
    with shared.bare_appends() as bare:
        killed = time.monotonic()
        shared.cluster.kill(shared.leader)
        took = bare.silence_after(killed)
    shared.repair()
    print(f"NATS alone: {took:.2f} s")
    return took


@pytest.fixture
def fleet(shared: Fleet, election_s: float) -> Iterator[Fleet]:
    yield shared
    shared.repair()
    check(shared)


def silence(fleet: Fleet, begun: float, allows: int = 1) -> float:
    """Wait until actions are allowed again, so many times. Return how long none was."""
    wanted = len(fleet.reader.history.allows) + allows
    fleet.until_allowed()
    until(lambda: len(fleet.reader.history.allows) >= wanted)
    took = fleet.silence_after(begun)
    refused = sum(h.t > begun for agent in fleet.agents for h in agent.refused)
    print(f"nothing was allowed for {took:.2f} s, {refused} proposals were refused")
    return took


@pytest.mark.parametrize("fault", ["kill", "freeze", "cut"])
def test_a_lost_writer_is_replaced_within_two_elections(
    fleet: Fleet, election_s: float, fault: str
) -> None:
    writer, begun = fleet.writer, time.monotonic()
    if fault == "kill":
        writer.kill()
    elif fault == "freeze":
        writer.freeze()
    else:
        writer.links.cut()

    assert silence(fleet, begun) < 2 * election_s

    fleet.read_journal()
    assert fleet.writer is not writer


@pytest.mark.parametrize("fault", ["kill", "freeze", "cut"])
def test_a_lost_follower_of_the_journal_costs_no_election(
    fleet: Fleet, election_s: float, fault: str
) -> None:
    leader = fleet.leader
    follower = next(name for name in NAMES if name != leader)
    begun = time.monotonic()

    getattr(fleet.cluster, fault)(follower)

    # Daemons and agents notice only after a while that a node is frozen.
    assert silence(fleet, begun, MANY) < election_s * (1 if fault == "kill" else 2)
    assert fleet.leader == leader


@pytest.mark.parametrize("fault", ["kill", "freeze", "cut"])
def test_a_lost_standby_is_not_noticed(fleet: Fleet, election_s: float, fault: str) -> None:
    writer, (standby,) = fleet.writer, fleet.standbys
    begun = time.monotonic()
    if fault == "cut":
        standby.links.cut()
    else:
        getattr(standby, fault)()

    assert silence(fleet, begun, MANY) < election_s

    fleet.read_journal()
    assert fleet.writer is writer


@pytest.mark.parametrize("fault", ["kill", "freeze", "cut"])
def test_a_lost_leader_of_the_journal_costs_a_few_elections(
    fleet: Fleet, election_s: float, fault: str
) -> None:
    lost = fleet.leader
    with fleet.bare_appends() as bare:
        begun = time.monotonic()
        getattr(fleet.cluster, fault)(lost)

        took, nats_s = silence(fleet, begun), bare.silence_after(begun)

    print(f"NATS alone: {nats_s:.2f} s")
    assert took < max(nats_s, election_s) + 3 * election_s
    assert fleet.leader != lost


def test_a_machine_with_writer_and_leader_costs_a_few_elections(
    fleet: Fleet, election_s: float
) -> None:
    writer, lost = fleet.writer, fleet.leader
    with fleet.bare_appends() as bare:
        begun = time.monotonic()
        writer.kill()
        fleet.cluster.kill(lost)

        took, nats_s = silence(fleet, begun), bare.silence_after(begun)

    print(f"NATS alone: {nats_s:.2f} s")
    assert took < max(nats_s, election_s) + 4 * election_s


def test_a_planned_handover_refuses_nothing(fleet: Fleet, election_s: float) -> None:
    writer, begun = fleet.writer, time.monotonic()

    writer.stop()

    assert silence(fleet, begun) < election_s
    assert not [h for agent in fleet.agents for h in agent.refused if h.t > begun]


@pytest.mark.parametrize("how", ["file", "command"])
def test_without_a_majority_nothing_is_allowed_and_a_stop_holds_afterwards(
    fleet: Fleet, how: str
) -> None:
    writer, file = fleet.writer, fleet.writer.data_dir / "EMERGENCY_STOP"
    lost = [name for name in NAMES if name != fleet.leader]
    fleet.cluster.kill(*lost)
    sent = fleet.reader.history.sent
    if how == "file":
        file.touch()
        begun = time.monotonic() + 0.5  # by then the writer has seen the file
    else:
        until(lambda: time.monotonic() - fleet.reader.history.allows[-1].t > SILENT_S)
        stored = fleet.operator.control("stop")
        assert (stored["held"], stored["journalled"]) == (True, False)
        begun = time.monotonic()

    for name in lost:
        fleet.cluster.start(name)
    stopped = fleet.reader.history.until(lambda h: h.decision.seq and sent[h.id] > begun)

    assert stopped.decision.cause == "stopped"
    assert not [h for h in fleet.reader.history.allows if sent[h.id] > begun]
    assert fleet.writer is writer
    file.unlink(missing_ok=True)
    fleet.until_resumed()


def test_all_nodes_killed_at_once_lose_nothing(fleet: Fleet) -> None:
    fleet.cluster.kill()
    fleet.cluster.start()

    fleet.until_allowed()


def test_every_daemon_has_the_state_of_the_journal(fleet: Fleet) -> None:
    fleet.hand_over()
