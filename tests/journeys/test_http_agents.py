"""Agents over HTTP: the same rules as on the bus, and no agent can act for another."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from safetyd.core.events.decision_events import Decided, Refused, Reported
from safetyd.core.events.request_events import Released
from safetyd.core.messages.telemetry import Outcome
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import told
from tests.http_examples import bearer
from tests.journeys.agents import until
from tests.journeys.asking_agent import PUSH, Asker, review, waiting
from tests.journeys.audit_record import events
from tests.journeys.http_agent import Heard, HttpAgent, new_token
from tests.journeys.people import control
from tests.journeys.processes import freeze, server_pid, thaw

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon("")


def in_background(ask: Callable[[], Heard], then: Callable[[], object]) -> Heard:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        then()
        return asked.result(30)


def test_an_http_proposal_is_decided_journalled_and_reported_like_one_on_the_bus(
    daemon: RunningDaemon,
) -> None:
    agent = HttpAgent(daemon, "builder")
    read = agent.propose(type="read_file", paths=["/srv/app.py"], id="read-1")
    again = agent.propose(type="read_file", paths=["/srv/app.py"], id="read-1")
    other = agent.propose(type="read_file", paths=["/srv/b.py"], id="read-1")
    block = agent.propose(type="run_shell", text="rm -rf /")
    noted = agent.post(
        "outcome/read-1", {"ok": True, "cost_usd": 0.02, "details": {"exit_code": 0}}
    )

    assert (read.status, read.content["decision"]) == (200, "allow")
    assert again.content == read.content
    assert (other.status, other.content["cause"]) == (200, "conflict")
    assert (block.status, block.content["decision"]) == (200, "block")
    assert (noted.status, noted.content) == (200, {"ok": True})
    mine = [event for event in events(daemon.data_dir) if getattr(event, "agent", "") == "builder"]
    (decided,) = [e for e in mine if isinstance(e, Decided) and e.id == "read-1" and e.first]
    assert (decided.digest, decided.keyless) == (read.content["digest"], False)
    (reported,) = [e for e in mine if isinstance(e, Reported)]
    assert isinstance(reported.telemetry, Outcome)
    assert (reported.telemetry.id, reported.telemetry.cost_usd) == ("read-1", 0.02)


def test_an_agent_is_accepted_only_with_its_own_token(daemon: RunningDaemon) -> None:
    alice, bob = HttpAgent(daemon, "alice"), HttpAgent(daemon, "bob")
    read = {"type": "read_file", "id": "r1"}
    nobody = HttpAgent(daemon, "alice", token="")
    operator = HttpAgent(daemon, "alice", bearer(daemon)["Authorization"].removeprefix("Bearer "))
    guessed = HttpAgent(daemon, "alice", "alice." + "A" * 43)
    asked = alice.propose(**PUSH, id="push-1").content["request_id"]

    for stranger in (nobody, operator, guessed):
        refused = stranger.propose(**read)
        assert (refused.status, refused.content["code"]) == (401, "no_token")
        assert "WWW-Authenticate" in refused.headers
    assert bob.propose("alice", **read).status == 403
    assert bob.propose(agent="alice", **read).status == 400
    assert bob.wait(asked, 0).status == 404
    assert alice.ask("status").status == 401, "a token of an agent is none of the operator"
    assert alice.ask("propose/alice").status == 405
    elsewhere = alice.ask("propose/alice", b"{}", Origin="http://evil.example")
    assert (elsewhere.status, elsewhere.content["code"]) == (403, "other_site")
    assert alice.ask("propose/alice", b"{}", Host="evil.example").status == 403
    with Asker(daemon, "alice") as keyless:
        assert keyless.propose("r2", type="read_file")["cause"] == "malformed"


def test_a_token_is_never_stored(daemon: RunningDaemon) -> None:
    agent = HttpAgent(daemon, "secretive")
    agent.propose(type="read_file")
    agent.ask("propose/secretive", agent.token.encode())
    HttpAgent(daemon, "secretive", agent.token + "x").propose(type="read_file")

    kept = [path for path in daemon.directory.rglob("*") if path.is_file()]
    secret = agent.token.partition(".")[2].encode()
    assert [path for path in kept if secret in path.read_bytes()] == []
    rows = json.loads(told(daemon, "agent", "list", "--json").stdout)["agents"]
    assert [row["token"] for row in rows if row["name"] == "secretive"] == [True]


def test_an_approval_over_http_is_claimed_and_used_once(daemon: RunningDaemon) -> None:
    agent = HttpAgent(daemon, "deployer")
    asked = agent.propose(**PUSH, id="push-1").content
    still = agent.wait(asked["request_id"], 0)
    allowed = in_background(
        lambda: agent.wait(asked["request_id"]),
        lambda: review(daemon, "approve", asked["request_id"], digest=asked["digest"]),
    )
    mine = {"id": "push-1", "digest": asked["digest"], "claimant": "one"}
    claimed = agent.post("claim/deployer", mine)
    second = agent.post("claim/deployer", {**mine, "claimant": "two"})

    assert asked["status"] == "pending"
    assert (still.status, still.content["status"]) == (200, "pending")
    assert (allowed.status, allowed.content["cause"]) == (200, "human_approved")
    assert allowed.content["claim_required"]
    assert agent.wait(asked["request_id"], 0).content["decision"] == "allow", "the answer was lost"
    assert (claimed.status, claimed.content["granted"]) == (200, True)
    assert (second.status, second.content["cause"]) == (200, "already_claimed")


def test_an_approval_can_be_fetched_later_unless_stopped(
    daemon: RunningDaemon,
) -> None:
    agent = HttpAgent(daemon, "patient")
    asked = agent.propose(**PUSH, id="push-1").content
    assert agent.wait(asked["request_id"], 0).content["status"] == "pending"
    assert review(daemon, "approve", asked["request_id"], digest=asked["digest"])["ok"]
    control(daemon, "stop", agent="patient")
    stopped = agent.wait(asked["request_id"], 0)
    control(daemon, "resume", agent="patient")
    allowed = agent.wait(asked["request_id"], 0)

    (released,) = [
        event
        for event in events(daemon.data_dir)
        if isinstance(event, Released) and event.agent == "patient"
    ]
    assert not released.waits, "the agent no longer waited for the answer"
    assert (stopped.status, stopped.content["cause"]) == (200, "stopped")
    assert (allowed.status, allowed.content["cause"]) == (200, "human_approved")


def test_a_waiting_proposal_gets_the_denial(daemon: RunningDaemon) -> None:
    agent = HttpAgent(daemon, "waiter")

    def deny() -> None:
        until(lambda: any(row["agent"] == "waiter" for row in waiting(daemon)))
        (row,) = [row for row in waiting(daemon) if row["agent"] == "waiter"]
        assert review(daemon, "deny", row["id"], reason="not on a Friday")["ok"]

    denied = in_background(lambda: agent.propose(**PUSH, id="push-1", wait=True), deny)

    assert (denied.status, denied.content["cause"]) == (200, "human_denied")
    before = len(waiting(daemon))
    again = agent.wait(denied.content["request_id"], 0)
    assert again.content["cause"] == "human_denied"
    assert len(waiting(daemon)) == before, "looking at an answer asks nobody"


def test_outcome_of_an_unknown_action_says_so(daemon: RunningDaemon) -> None:
    agent = HttpAgent(daemon, "forgetful")
    agent.propose(type="read_file", id="known-1")

    known = agent.post("outcome/known-1", {"ok": True})
    assert (known.status, known.content) == (200, {"ok": True})
    for id_ in ("known-1", "never-proposed"):
        heard = agent.post(f"outcome/{id_}", {"ok": True})
        assert (heard.status, heard.content["ok"]) == (200, True)
        assert f"no open action {id_}" in heard.content["note"]


def test_wrong_path_is_not_found_for_an_agent_and_forbidden_to_others(
    daemon: RunningDaemon,
) -> None:
    agent, nobody = HttpAgent(daemon, "lost"), HttpAgent(daemon, "lost", token="lost.x")

    for path in ("propos/lost", "propose", "nothing"):
        assert agent.post(path, {"type": "read_file"}).status == 404
        assert nobody.post(path, {"type": "read_file"}).status == 401
    assert agent.ask("status").status == 401


def test_malformed_http_requests_are_refused_with_the_reason(daemon: RunningDaemon) -> None:
    agent = HttpAgent(daemon, "sloppy")
    for path, body in (
        ("propose/sloppy", b"not JSON"),
        ("propose/sloppy", b'{"text": "no type"}'),
        ("propose/sloppy", b'{"type": "run_shell", "command": "rm -rf /"}'),
        ("propose/sloppy", b'{"type": "read_file", "type": "read_file"}'),
        ("propose/sloppy", b'{"type": "read_file", "text": "' + b"x" * 70_000 + b'"}'),
        ("outcome/r1", b'{"ok": "perhaps"}'),
        ("outcome/r1", b'{"ok": true, "id": "r2"}'),
        ("outcome/r1", b"[]"),
        ("claim/sloppy", b"{}"),
    ):
        heard = agent.ask(path, body)
        assert heard.status == 400, body
        assert heard.content.get("error") or heard.content.get("reason")


def test_http_agents_have_the_same_rate_limits_as_on_the_bus(daemon: RunningDaemon) -> None:
    agent, other = HttpAgent(daemon, "noisy"), HttpAgent(daemon, "quiet")
    body = json.dumps({"type": "read_file", "context": {"much": "x" * 60_000}}).encode()
    heard = [agent.ask("propose/noisy", body) for _ in range(24)]

    last = heard[-1]
    assert (last.status, last.content["decision"]) == (429, "block")
    assert last.content["cause"] == "rate_limit"
    assert int(last.headers["Retry-After"]) >= 1
    assert other.propose(type="read_file").status == 200
    until(lambda: any(isinstance(e, Refused) and e.agent == "noisy" for e in record(daemon)))


def record(daemon: RunningDaemon) -> list[object]:
    return list(events(daemon.data_dir))


def test_tokens_are_rotated_and_revoked_like_keys(daemon: RunningDaemon) -> None:
    def status(token: str) -> int:
        return HttpAgent(daemon, "rotated", token).propose(type="read_file").status

    first = new_token(daemon, "add", "rotated")
    assert told(daemon, "agent", "add", "rotated", "--token").returncode == 1
    second = new_token(daemon, "rotate", "rotated")
    assert (status(first), status(second)) == (200, 200)
    third = new_token(daemon, "rotate", "rotated", "--now")
    assert (status(first), status(second), status(third)) == (401, 401, 200)
    daemon.restart()
    assert (status(second), status(third)) == (401, 200)
    assert told(daemon, "agent", "revoke", "rotated").returncode == 0
    assert status(third) == 401
    with Asker(daemon, "rotated") as keyless:
        assert keyless.propose("r1", type="read_file")["decision"] == "allow"


def test_nothing_is_allowed_while_the_journal_cannot_be_written(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("")
    agent = HttpAgent(daemon, "builder")
    server = server_pid(daemon)
    freeze(server)
    try:
        heard = agent.propose(type="read_file")
    finally:
        thaw(server)

    assert heard.status == 503
    assert "Retry-After" in heard.headers
    until(lambda: agent.propose(type="read_file").status == 200)
