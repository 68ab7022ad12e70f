"""The published schemas: they say what the daemon really sends, takes and writes down."""

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

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
from safetyd.core.events import SafetyEvent
from safetyd.core.lines import AnyEvent, encode
from safetyd.core.policy import Policy
from safetyd.core.proposal import Target
from safetyd.notices import told
from tests.conftest import StartDaemon
from tests.every_event import event_fields, one_of_each
from tests.play import ask, at, play, propose
from tests.samples import BROKEN, PROPOSAL, SAMPLES

# What is asked about by an id, which only a daemon can give.
ABOUT_ONE = {"query_request", "control_grant_add", "control_grant_revoke"}

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
def validator(name: str, *, closed: bool = False) -> Draft202012Validator:
    """Return what checks a message; if `closed`, fields that the schema does not name are wrong."""
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    for part in (schema, *schema.get("$defs", {}).values()) if closed else ():
        part["additionalProperties"] = False
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


@pytest.mark.req("S1.42")
def test_every_line_of_an_audit_file_fits_its_schema(tmp_path: Path):
    events = list(one_of_each())
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
    event = SafetyEvent(seq=9, at=at(1), t=1.0, **event_fields())

    published = json.loads(msgspec.json.encode(told(event)))

    assert set(published) == set(schema_of("safety_event")["properties"]) == EVENT_FIELDS
    validator("safety_event").validate(published)


# -- a running daemon ------------------------------------------------------------------------------


class Lines(NamedTuple):
    """An agent's and a person's connection to a daemon."""

    agent: Client
    person: Client


@pytest.fixture
async def lines(start_daemon: StartDaemon) -> AsyncIterator[Lines]:
    daemon = start_daemon()
    seed = (daemon.data_dir / "keys/operator.nk").read_text().strip()
    agent = await nats.connect(daemon.endpoint.bus)
    person = await nats.connect(
        daemon.endpoint.bus, nkeys_seed_str=seed, inbox_prefix="_INBOX.op.local"
    )
    yield Lines(agent, person)
    await agent.close()
    await person.close()


async def answer(client: Client, subject: str, payload: str, name: str) -> dict[str, Any]:
    """Return what is answered; it must have the fields of its schema and no others."""
    said = json.loads((await client.request(subject, payload.encode(), timeout=5)).data)
    validator(name, closed=True).validate(said)
    return dict(said)


@pytest.mark.journey
async def test_what_a_daemon_says_fits_the_contract(lines: Lines):
    agent, person = lines
    events = await person.subscribe("safety.v1.event.*")
    states = await person.subscribe("safety.v1.state.*")
    await person.flush()

    proposal = PROPOSAL.replace("git push origin main", "rm -rf /")
    decision = await answer(agent, "safety.v1.propose.code", proposal, "decision")
    for name, sample in SAMPLES:
        if name in TELEMETRY:
            await answer(agent, "safety.v1.telemetry.code", sample, "noted")
        elif name.startswith(("control_", "query_", "review_")) and name not in ABOUT_ONE:
            subject = f"safety.v1.{name.partition('_')[0]}.local"
            await answer(person, subject, sample, f"{name}_reply")
    await answer(person, "safety.v1.control.local", '{"command": "dance"}', "refusal")
    await answer(person, "$SRV.PING", "", "service_reply")

    assert decision["decision"] == "block"
    validator("safety_event").validate(json.loads((await events.next_msg(5)).data))
    validator("state_stop").validate(json.loads((await states.next_msg(5)).data))


@pytest.mark.journey
async def test_what_is_said_about_requests_fits_the_contract(lines: Lines):
    agent, person = lines

    async def told(command: dict[str, object], name: str) -> dict[str, Any]:
        subject = f"safety.v1.{name.partition('_')[0]}.local"
        return await answer(person, subject, json.dumps(command), f"{name}_reply")

    async def permission(ask: str) -> dict[str, Any]:
        return await answer(agent, "safety.v1.permission.pusher", ask, "permission_result")

    push = '{"type": "push", "text": "git push", "id": "push-1"}'
    asked = await answer(agent, "safety.v1.propose.pusher", push, "decision")
    request = {"command": "request", "id": asked["request_id"]}
    claim = {"id": "push-1", "digest": asked["digest"], "claimant": "here"}
    queued = await permission('{"action": "create_pull_request", "description": "Create PR"}')
    opened = await permission('{"open": true}')
    waiting = await told({"command": "pending"}, "query_pending")
    await told(request, "query_request")
    await told({"command": "approve", "ids": [asked["request_id"]]}, "review_approve")
    denied = await told({"command": "deny", "ids": [asked["request_id"]]}, "review_deny")
    claimed = await answer(agent, "safety.v1.claim.pusher", json.dumps(claim), "claim_result")
    await told(request, "query_request")
    past = await told({"command": "history"}, "query_history")
    later = (datetime.fromisoformat(asked["at"]) + timedelta(hours=1)).isoformat()
    terms = {"agent": "pusher", "type": "push", "uses": 3, "until": later, "reason": "busy"}
    granted = await told({"command": "grant_add", **terms}, "control_grant_add")
    grants = await told({"command": "grants"}, "query_grants")
    await told({"command": "grant_revoke", "id": granted["id"]}, "control_grant_revoke")

    assert queued["queued"]
    assert [row["id"] for row in grants["grants"]] == [granted["id"]]
    assert len(opened["requests"]) == waiting["pending"] == 2
    assert denied["results"][0]["code"] == "already_decided"
    assert claimed["granted"]
    assert [row["decision"] for row in past["history"]] == ["approved"]
