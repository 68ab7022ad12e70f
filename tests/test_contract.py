"""The published schemas: they say what the daemon really sends, takes and writes down."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import nats
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from nats.aio.client import Client

from docs.exchanges import EXCHANGES
from docs.generate import DOCS, audit_line, generated
from docs.messages import MESSAGES, TELEMETRY
from safetyd.audit import Audit
from safetyd.core.engine import Engine
from safetyd.core.events import (
    AuditRecovered,
    ClockStepped,
    ConfigRejected,
    Event,
    Forgotten,
    KeysChanged,
    Refused,
    Reported,
    SafetyEvent,
    Withheld,
)
from safetyd.core.lines import AnyEvent, encode
from safetyd.core.policy import Configured, Policy
from safetyd.core.proposal import Target
from safetyd.core.telemetry import (
    Commit,
    EpisodeEnded,
    Heartbeat,
    Iteration,
    Metrics,
    Outcome,
    Rollback,
    SessionEnded,
    SessionStarted,
)
from safetyd.daemon import told
from tests.conftest import StartDaemon
from tests.play import ask, at, play, propose, resume, stop

PROPOSAL = """{
  "id": "01JD0Z", "type": "run_shell", "text": "git push origin main",
  "description": "Push the fix", "rationale": "Tests pass",
  "session": "s-42", "episode": "e-1", "project": "web", "chain": "c-7", "task": "t-3",
  "urgency": "normal", "wait": false, "timeout_s": 3600,
  "reversibility": "irreversible", "risk": "high", "confidence": 0.91,
  "scores": {"strategic_alignment": 4, "autonomy_appropriateness": 4, "output_quality": 5,
             "resource_efficiency": 4, "learning_application": 4},
  "target": {"label": "Submit Order", "name": "", "role": "button", "app": "Chrome",
             "window": "Shop", "url": ""},
  "observation": {"window_title": "", "app_name": "", "url": "", "screen_hash": ""},
  "model": "gpt-5.2", "provider": "openai", "cloud": true, "dependency": "api.openai.com",
  "cost_usd": 0.02, "tokens": {"input": 1200, "output": 300},
  "paths": ["src/app.py"], "remote": "origin",
  "context": {"branch": "fix-auth", "files_changed": 3, "additions": 42, "deletions": 18},
  "rollback": "git revert HEAD", "request_id": null, "at": "2026-02-08T14:30:22Z"
}"""

DECISION = """{
  "id": "01JD0Z", "agent": "code", "decision": "require_confirmation", "status": "pending",
  "cause": "policy", "reason": "Irreversible: matches \\\\bsubmit\\\\b",
  "triggered_rules": ["gate.irreversible:submit"], "confidence": 1.0,
  "verdicts": [{"guard": "gate", "decision": "require_confirmation",
                "rule": "gate.irreversible:submit", "reason": "Irreversible"}],
  "tier": "requires_permission", "risk": "high", "reversibility": "irreversible",
  "request_id": "req_1", "retry_after_s": null, "limit_id": null,
  "agent_message": "A person has been asked. Do not act and do not try another way.",
  "digest": "sha256:00", "claim_required": false, "expires_at": null,
  "mode": "production", "policy": "sha256:00", "seq": 1841, "at": "2026-02-08T14:30:22Z"
}"""

SAMPLES = [
    ("proposal", PROPOSAL),
    ("proposal", '{"type": "read_file"}'),
    ("decision", DECISION),
    (
        "telemetry_outcome",
        """{"type": "outcome", "id": "01JD0Z", "ok": true, "latency_ms": 12.5, "cost_usd": 0.02,
            "tokens": {"input": 1, "output": 2}, "model": "m", "dependency": "d", "task": "t",
            "session": "s", "files_changed": 3, "action_type": "run_shell", "description": "",
            "details": {"exit_code": 1}, "at": "2026-02-08T14:30:22Z"}""",
    ),
    ("telemetry_outcome", '{"type": "outcome", "ok": false, "error": "timed out"}'),
    ("telemetry_session_started", '{"type": "session_started", "session": "s", "model": "m"}'),
    ("telemetry_session_ended", '{"type": "session_ended", "session": "s"}'),
    ("telemetry_episode_ended", '{"type": "episode_ended", "episode": "e"}'),
    ("telemetry_iteration", '{"type": "iteration"}'),
    ("telemetry_metrics", '{"type": "metrics", "error_rate": 0.1}'),
    ("telemetry_heartbeat", '{"type": "heartbeat", "stop_epoch": 3}'),
    ("telemetry_commit", '{"type": "commit", "ref": "4f2a", "files_changed": 2}'),
    ("telemetry_rollback", '{"type": "rollback", "ref": "4f2a"}'),
    ("noted", '{"ok": true}'),
    ("noted", '{"ok": false, "error": "not telemetry"}'),
    ("control_stop", '{"command": "stop", "reason": "drill"}'),
    ("control_stop", '{"command": "stop", "agent": "code"}'),
    ("control_resume", '{"command": "resume"}'),
    ("control_reset", '{"command": "reset", "agent": "code", "episode": "e-1"}'),
    ("control_reload", '{"command": "reload"}'),
    ("query_status", '{"command": "status"}'),
    ("query_agents", '{"command": "agents"}'),
    ("query_explain", '{"command": "explain", "id": "01JD0Z"}'),
    ("refusal", '{"ok": false, "error": "no such command", "code": "unknown_command"}'),
    (
        "state_stop",
        """{"active": true, "epoch": 4, "reason": "drill", "by": "alice",
            "since": "2026-02-08T14:30:22Z", "agent": null}""",
    ),
]

BROKEN = [
    ("proposal", '{"text": "no type"}'),
    ("proposal", '{"type": "x", "confidence": 2}'),
    ("proposal", '{"type": "x", "id": "a b"}'),
    ("proposal", '{"type": "x", "scores": {"output_quality": 5}}'),
    ("decision", DECISION.replace("require_confirmation", "perhaps")),
    ("decision", DECISION.replace('"cause": "policy"', '"cause": "mood"')),
    ("telemetry_outcome", '{"type": "outcome"}'),
    ("telemetry_heartbeat", '{"type": "outcome", "ok": true}'),
    ("control_stop", '{"command": "resume"}'),
    ("control_stop_reply", '{"ok": false, "epoch": 1, "journalled": true}'),
    ("refusal", '{"ok": true, "error": "", "code": ""}'),
]

EVENT_FIELDS = {
    "id",
    "timestamp",
    "event_type",
    "agent_id",
    "model_id",
    "breaker_id",
    "cost_snapshot",
    "reason",
    "metadata",
}


def schema_of(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((DOCS / "schemas" / f"{name}.json").read_text())
    return schema


@cache
def validator(name: str) -> Draft202012Validator:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=FormatChecker())


def test_every_generated_file_is_current():
    stale = [path.name for path, text in generated() if path.read_text() != text]

    assert stale == [], "run `python docs/generate.py`"


def test_the_check_names_what_is_not_current(tmp_path: Path):
    shutil.copytree(DOCS, tmp_path / "docs")
    (tmp_path / "docs/schemas/proposal.json").write_text("{}")
    (tmp_path / "docs/schemas/old.json").write_text("{}")

    checked = _generate(tmp_path, "--check")
    written = _generate(tmp_path)
    again = _generate(tmp_path, "--check")

    assert checked.returncode == 1
    assert {line.split(" ")[0].rsplit("/")[-1] for line in checked.stderr.splitlines()} == {
        "proposal.json",
        "old.json",
    }
    assert (written.returncode, again.returncode, again.stderr) == (0, 0, "")


def _generate(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(directory / "docs/generate.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_a_message_of_the_contract_fits_its_schema_and_its_struct(name: str, sample: str):
    validator(name).validate(json.loads(sample))

    msgspec.json.decode(sample, type=MESSAGES[name])


@pytest.mark.parametrize(("name", "sample"), BROKEN)
def test_a_broken_message_fits_neither(name: str, sample: str):
    assert not validator(name).is_valid(json.loads(sample))


def test_every_request_has_a_sample():
    said = {name for e in EXCHANGES if e.by != "daemon" for name in e.says if name in MESSAGES}

    assert said <= {name for name, _ in SAMPLES}


def test_every_answer_of_the_engine_fits_the_decision_schema():
    engine = Engine(Policy())

    answers = [
        ask(engine, propose(1)),
        ask(engine, propose(2, id="p2", type="run_shell", text="rm -rf /")),
        ask(engine, propose(3, id="p3", type="click", target=Target(label="Submit"))),
    ]

    for answer in answers:
        validator("decision").validate(json.loads(msgspec.json.encode(answer)))
    assert {answer.decision for answer in answers} == {"allow", "block", "require_confirmation"}


# -- the audit file --------------------------------------------------------------------------------


def _one_of_each() -> Iterator[Event]:
    when: dict[str, Any] = {"at": at(1), "t": 1.0}
    policy = Policy()
    yield from play(
        Engine(policy),
        propose(1, cost_usd=0.5, paths=("a", "b"), confidence=0.4),
        propose(2, id="p2", type="run_shell", text="rm -rf /"),
        propose(3, id="p3", type="type", text="hunter2", target=Target(label="Password")),
        stop(4, agent="code"),
        resume(5, agent="code"),
    )
    yield Configured(policy=policy, digest=policy.digest(), version="0", why="start", **when)
    yield Refused(agent="a", cause="malformed", count=3, example="not JSON", **when)
    yield Withheld(agent="a", id="p1", why="late", **when)
    yield Forgotten(agent="a", by="alice", session="s", **when)
    yield KeysChanged(added=("agent a U1",), removed=(), by="alice", **when)
    yield ConfigRejected(errors=("web.port is -1",), **when)
    yield ClockStepped(seconds=-7.5, **when)
    yield AuditRecovered(file="audit-00000001.jsonl", torn_bytes=7, torn_sha256="0" * 64, **when)
    yield SafetyEvent(**when, **_event_fields())
    for telemetry in (
        Outcome(ok=True, id="p1"),
        SessionStarted(session="s"),
        SessionEnded(session="s"),
        EpisodeEnded(episode="e"),
        Iteration(),
        Metrics(error_rate=0.5),
        Heartbeat(stop_epoch=1),
        Commit(ref="4f2a"),
        Rollback(ref="4f2a"),
    ):
        yield Reported(agent="a", telemetry=telemetry, **when)


def _event_fields() -> dict[str, Any]:
    return {
        "id": "5afe7d00-0000-4000-8000-000000000001",
        "timestamp": at(1),
        "event_type": "COST_WARNING",
        "agent_id": "code",
        "model_id": "gpt-5.2",
        "breaker_id": "shell",
        "cost_snapshot": {"day": 41.5, "limit": 50.0, "scope": "day"},
        "reason": "80 % of the day's budget are spent",
        "metadata": {"ratio": 0.83, "count": 1, "final": False, "by": None, "rule": "budget.day"},
    }


@pytest.mark.req("S1.42")
def test_every_line_of_an_audit_file_fits_its_schema(tmp_path: Path):
    events = list(_one_of_each())
    audit = Audit(tmp_path, max_bytes=1 << 20)
    audit.open()
    for seq, event in enumerate(events, 1):
        event.seq = seq
        audit.append([encode(event)], seq)
    audit.close()

    [path] = tmp_path.iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]

    for line in lines:
        validator("audit_line").validate(line)
    assert {type(event) for event in events} == set(get_args(AnyEvent))
    assert lines[0]["event"] == "opened"


@pytest.mark.parametrize(
    "spoil",
    [{"hash": "short"}, {"event": "unheard_of"}, {"at": None}, {"decision": "perhaps"}],
)
def test_a_spoilt_line_does_not_fit(spoil: dict[str, object]):
    [decided, *_] = play(Engine(Policy()), propose(1))
    line = {**json.loads(encode(decided)), "hash": "0" * 64}

    assert validator("audit_line").is_valid(line)
    assert not validator("audit_line").is_valid({**line, **spoil})


def test_the_audit_schema_knows_every_event_of_the_journal():
    known = {part["$ref"].rsplit("/")[-1] for part in audit_line()["oneOf"]}

    assert known == {kind.__name__ for kind in get_args(AnyEvent)} | {"Opened"}


@pytest.mark.req("S1.28")
def test_a_published_safety_event_has_exactly_the_fields_of_the_contract():
    event = SafetyEvent(seq=9, at=at(1), t=1.0, **_event_fields())

    published = json.loads(msgspec.json.encode(told(event)))

    assert set(published) == set(schema_of("safety_event")["properties"]) == EVENT_FIELDS
    validator("safety_event").validate(published)


# -- a running daemon ------------------------------------------------------------------------------


@pytest.mark.journey
async def test_what_a_daemon_says_fits_the_contract(start_daemon: StartDaemon):
    daemon = start_daemon()
    seed = (daemon.data_dir / "keys/operator.nk").read_text().strip()
    agent = await nats.connect(daemon.endpoint.bus)
    person = await nats.connect(
        daemon.endpoint.bus, nkeys_seed_str=seed, inbox_prefix="_INBOX.op.local"
    )
    events = await person.subscribe("safety.v1.event.*")
    states = await person.subscribe("safety.v1.state.*")
    await person.flush()

    async def answer(client: Client, subject: str, payload: str, name: str) -> dict[str, Any]:
        said = json.loads((await client.request(subject, payload.encode(), timeout=5)).data)
        validator(name).validate(said)
        return dict(said)

    proposal = PROPOSAL.replace("git push origin main", "rm -rf /")
    decision = await answer(agent, "safety.v1.propose.code", proposal, "decision")
    for name, sample in SAMPLES:
        if name in TELEMETRY:
            await answer(agent, "safety.v1.telemetry.code", sample, "noted")
        elif name.startswith(("control_", "query_")):
            subject = f"safety.v1.{name.partition('_')[0]}.local"
            await answer(person, subject, sample, f"{name}_reply")
    await answer(person, "safety.v1.control.local", '{"command": "dance"}', "refusal")
    await answer(person, "$SRV.PING", "", "service_reply")

    assert decision["decision"] == "block"
    validator("safety_event").validate(json.loads((await events.next_msg(5)).data))
    validator("state_stop").validate(json.loads((await states.next_msg(5)).data))
    await agent.close()
    await person.close()
