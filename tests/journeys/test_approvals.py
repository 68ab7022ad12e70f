"""Requests, answers and claims, with kills and races."""

from collections.abc import Sequence
from pathlib import Path
from threading import Barrier, Thread
from time import perf_counter
from typing import Any, TypeVar

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.request_events import Answered, Claimed, Released
from tests.bus.peer import Peer
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, Reply, review, waiting
from tests.journeys.audit_record import assert_verifies, events
from tests.journeys.people import control

pytestmark = pytest.mark.journey

Recorded = TypeVar("Recorded", Answered, Claimed, Decided, Released)
MANY = UNLIMITED + "\n[approvals]\nmax_pending_per_agent = 1000\n"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon(MANY)
    for role, name in (("operators", "bob"), ("agents", "ops")):
        Keyring(daemon.data_dir / "keys").add(role, name)  # type: ignore[arg-type]
    daemon.restart()
    return daemon


def killed(daemon: RunningDaemon) -> None:
    daemon.kill()
    daemon.start()


def recorded(daemon: RunningDaemon, kind: type[Recorded], agent: str) -> list[Recorded]:
    return [e for e in events(daemon.data_dir) if isinstance(e, kind) and e.agent == agent]


def uses(daemon: RunningDaemon, agent: str) -> list[str]:
    """Return the proposals that were allowed by an operator's approval."""
    waited = [e.id for e in recorded(daemon, Released, agent) if e.waits and not e.verdicts]
    return waited + [e.id for e in recorded(daemon, Decided, agent) if e.uses is not None]


def pending(daemon: RunningDaemon, agent: str) -> list[str]:
    return [row["id"] for row in waiting(daemon) if row["agent"] == agent]


@pytest.mark.req("S3.17", "S3.22", "S3.23")
def test_requests_answers_approvals_and_claims_survive_a_kill(daemon: RunningDaemon) -> None:
    with (
        Asker(daemon, "asks") as asks,
        Asker(daemon, "waits") as waits,
        Asker(daemon, "claims") as claims,
        Asker(daemon, "approved") as approved,
    ):
        asked, unclaimed, claimed = (one.propose("p1") for one in (asks, approved, claims))
        waits.wait_for("p1")
        (answered,) = pending(daemon, "waits")
        waits.peer.close()  # it never receives the answer
        for request in (answered, unclaimed["request_id"], claimed["request_id"]):
            review(daemon, "approve", request)
        assert claims.claim(claimed, "x")["granted"]

    killed(daemon)

    assert pending(daemon, "asks") == [asked["request_id"]]
    late = review(daemon, "deny", unclaimed["request_id"])
    assert (late["ok"], late["code"], late["decision"]) == (False, "already_decided", "approved")
    with (
        Asker(daemon, "asks") as asks,
        Asker(daemon, "waits") as waits,
        Asker(daemon, "claims") as claims,
        Asker(daemon, "approved") as approved,
    ):
        assert asks.propose("p1")["request_id"] == asked["request_id"]
        assert review(daemon, "approve", asked["request_id"])["decision"] == "approved"
        assert asks.propose("p1")["cause"] == "human_approved"
        assert waits.propose("p1", wait=True)["cause"] == "human_approved"
        assert waits.propose("p2")["status"] == "pending"
        assert approved.claim(unclaimed, "x")["granted"]
        assert approved.propose("p2")["status"] == "pending", "the claim has used the approval"
        assert claims.claim(claimed, "x")["granted"], "to its claimant"
        other = claims.claim(claimed, "y")
    assert (other["granted"], other["cause"]) == (False, "already_claimed")
    used = {agent: uses(daemon, agent) for agent in ("asks", "waits", "approved", "claims")}
    assert used == {"asks": ["p1"], "waits": ["p1"], "approved": [], "claims": []}
    assert len(recorded(daemon, Answered, "waits")) == len(recorded(daemon, Claimed, "claims")) == 1
    assert_verifies(daemon)


def at_once(*acts: Thread) -> None:
    for act in acts:
        act.start()
    for act in acts:
        act.join()


def test_of_two_simultaneous_answers_exactly_one_wins(daemon: RunningDaemon) -> None:
    bob = daemon.data_dir / "keys" / "operators" / "bob.nk"
    with Asker(daemon, "disputed") as asker:
        asked = [asker.propose(f"p{n}", text=f"git push {n}")["request_id"] for n in range(30)]
    results: dict[str, list[Reply]] = {"local": [], "bob": []}
    together = Barrier(2)

    def answer(command: str, by: str, key: Path | None) -> None:
        for request_id in asked:
            together.wait()
            results[by].append(review(daemon, command, request_id, by=by, key=key))

    at_once(
        Thread(target=answer, args=("approve", "local", None)),
        Thread(target=answer, args=("deny", "bob", bob)),
    )

    for mine, theirs in zip(results["local"], results["bob"], strict=True):
        assert [mine["ok"], theirs["ok"]].count(True) == 1
        winner, loser = (mine, theirs) if mine["ok"] else (theirs, mine)
        assert loser["code"] == "already_decided"
        assert [loser[k] for k in ("decision", "by", "via", "at")] == [
            winner[k] for k in ("decision", "by", "via", "at")
        ]
    kept = recorded(daemon, Answered, "disputed")
    assert sorted(e.request_id for e in kept) == sorted(asked)
    assert {(e.by, e.answer) for e in kept} <= {("local", "approved"), ("bob", "denied")}


HOLDS: Sequence[tuple[str, str, dict[str, Any]]] = [
    ("stop", "resume", {}),
    ("pause", "unpause", {"agent": "held-by-pause"}),
    ("safe_mode_enter", "safe_mode_exit", {"force": True}),
]


@pytest.mark.parametrize(("hold", "release", "more"), HOLDS, ids=[hold for hold, _, _ in HOLDS])
def test_an_approval_during_a_stop_is_recorded_and_used_once_afterwards(
    daemon: RunningDaemon, hold: str, release: str, more: dict[str, Any]
) -> None:
    name = f"held-by-{hold}"
    with Asker(daemon, name) as asker:
        asked = asker.propose("p1")
        agent = {"agent": more["agent"]} if "agent" in more else {}
        assert control(daemon, hold, reason="drill", **agent)["ok"]

        answered = review(daemon, "approve", asked["request_id"])
        held = asker.propose("p2")
        claimed = asker.claim(asked, "x")
        assert control(daemon, release, reason="over", **more)["ok"]
        passed, again = asker.propose("p3"), asker.propose("p4")

    assert (answered["ok"], answered["decision"]) == (True, "approved")
    assert answered["held"] == held["cause"] == claimed["cause"]
    assert (held["decision"], claimed["granted"]) == ("block", False)
    assert (passed["decision"], passed["cause"]) == ("allow", "human_approved")
    assert again["status"] == "pending"
    assert uses(daemon, name) == ["p3"]


def test_of_twenty_simultaneous_claims_exactly_one_wins(daemon: RunningDaemon) -> None:
    with Asker(daemon, "crowd") as asker:
        asked = asker.propose("p1")
    review(daemon, "approve", asked["request_id"])
    together = Barrier(20)
    replies: dict[str, Reply] = {}

    def execute(claimant: str) -> None:
        with Asker(daemon, "crowd") as executor:
            together.wait()
            replies[claimant] = executor.claim(asked, claimant)

    at_once(*(Thread(target=execute, args=(f"x{n}",)) for n in range(20)))

    (winner,) = (claimant for claimant, reply in replies.items() if reply["granted"])
    causes = {reply["cause"] for claimant, reply in replies.items() if claimant != winner}
    assert causes == {"already_claimed"}
    with Asker(daemon, "crowd") as executor:
        assert executor.claim(asked, winner)["granted"]
    assert len(recorded(daemon, Claimed, "crowd")) == 1


def test_an_agent_can_neither_answer_nor_see_requests_of_others(daemon: RunningDaemon) -> None:
    seed = daemon.data_dir / "keys" / "agents" / "ops.nk"
    with Asker(daemon, "seen") as asker:
        asked = asker.propose("p1")

    with Peer(daemon.endpoint.bus, seed, "_INBOX.agent.ops") as ops:
        for who in ("local", "ops"):
            answer = b'{"command":"approve","ids":["%b"]}' % asked["request_id"].encode()
            ops.publish(f"safety.v1.review.{who}", answer)
            ops.publish(f"safety.v1.query.{who}", b'{"command":"pending"}')
        ops.settle()
        about = b'{"request_id":"%b"}' % asked["request_id"].encode()
        other = ops.ask("safety.v1.permission.ops", about).fields
        mine = ops.ask("safety.v1.permission.ops", b'{"open":true}').fields
        refused = len(ops.errors)

    assert refused == 4
    assert (other["approved"], other["cause"]) == (False, "malformed")
    assert mine == {"requests": []}
    assert pending(daemon, "seen") == [asked["request_id"]]


def test_a_waiting_agent_gets_the_answer_about_when_the_operator_does(
    daemon: RunningDaemon,
) -> None:
    reviewer, agent = [], []
    with Asker(daemon, "patient") as asker:
        for number in range(5):
            heard = asker.wait_for(f"p{number}")
            (request,) = pending(daemon, "patient")
            begun = perf_counter()
            review(daemon, "approve", request)
            reviewer.append(perf_counter() - begun)
            assert asker.peer.heard(heard).fields["cause"] == "human_approved"
            agent.append(perf_counter() - begun)

    assert min(agent) < 3 * min(reviewer)


def test_hundreds_of_requests_are_answered_in_one_command(
    daemon: RunningDaemon,
) -> None:
    with Asker(daemon, "many") as asker:
        ids = [asker.propose(f"p{n}", text=f"git push {n}")["request_id"] for n in range(300)]

        assert review(daemon, "approve", *ids, message="yes " * 250)["ok"]

        assert pending(daemon, "many") == []
        assert asker.propose("again", text="git push 299")["cause"] == "human_approved"
    assert len(recorded(daemon, Answered, "many")) == len(ids)
    assert_verifies(daemon)


def test_a_denial_holds_for_the_same_action_until_it_is_lifted(
    daemon: RunningDaemon,
) -> None:
    with Asker(daemon, "denied") as asker:
        asked = asker.propose("p1")
        review(daemon, "deny", asked["request_id"], reason="not on a Friday")
        again = asker.propose("p2", rationale="please")
        assert (again["decision"], again["cause"]) == ("block", "human_denied")
        assert "not on a Friday" in again["reason"]
        assert again["status"] == "final"
        other = asker.propose("p3", text="git push origin other")
        assert other["status"] == "pending", "it is another action"

    killed(daemon)

    with Asker(daemon, "denied") as asker:
        assert asker.propose("p4")["cause"] == "human_denied"
        assert len(pending(daemon, "denied")) == 1
        explained = daemon.safetyd("explain", "p4").stdout
        assert "not on a Friday" in explained
        assert asked["request_id"] in explained
        shown = daemon.safetyd("show", asked["request_id"]).stdout
        assert f"`safetyd deny {asked['request_id']} --once`" in shown

        lifted = daemon.safetyd("deny", asked["request_id"], "--once")
        assert lifted.returncode == 0, lifted.stderr
        third = asker.propose("p5")
        assert third["status"] == "pending"
        assert daemon.safetyd("deny", third["request_id"], "--once").returncode == 0
        fourth = asker.propose("p6")
        assert fourth["status"] == "pending"
        review(daemon, "approve", fourth["request_id"])
        assert asker.propose("p7")["decision"] == "allow"
    assert_verifies(daemon)
