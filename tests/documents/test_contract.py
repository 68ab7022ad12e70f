"""The published schemas: they say what the daemon really sends, takes and writes down."""

import base64
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from docs.exchanges import EXCHANGES
from docs.generate import BY_AGENTS, DOCS, audit_line, generated
from docs.messages import MESSAGES
from safetyd.core.catalogue.catalogue import AnyEvent
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.messages.proposal import Target
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from safetyd.monitoring.published_events import published
from safetyd.notify.webhook.channel import document, signed, signing_keys
from tests.event_samples import event_fields, one_of_each
from tests.notify.message_samples import notice
from tests.schemas import schema_of, validator
from tests.story import ask, at, play, propose
from tests.wire_samples import BROKEN, SAMPLES

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


def test_every_generated_file_is_current():
    stale = [path.name for path, text in generated() if path.read_text() != text]

    assert stale == [], "run `python docs/generate.py`"


def test_the_check_names_outdated_files(tmp_path: Path):
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
def test_a_sample_matches_its_schema_and_its_struct(name: str, sample: str):
    validator(name).validate(json.loads(sample))

    msgspec.json.decode(sample, type=MESSAGES[name])


@pytest.mark.parametrize(("name", "sample"), [one for one in SAMPLES if one[0] in BY_AGENTS])
def test_optional_fields_of_agents_may_be_null(name: str, sample: str):
    schema = schema_of(name)
    nulls = dict.fromkeys(schema["properties"].keys() - set(schema["required"]))

    validator(name).validate(json.loads(sample) | nulls)


@pytest.mark.parametrize(("name", "sample"), BROKEN)
def test_a_broken_sample_does_not_match(name: str, sample: str):
    assert not validator(name).is_valid(json.loads(sample))


def test_every_request_has_a_sample():
    said = {name for e in EXCHANGES if e.by != "daemon" for name in e.says if name in MESSAGES}

    assert said <= {name for name, _ in SAMPLES}


def test_every_decision_matches_its_schema():
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
def test_every_audit_line_matches_its_schema(tmp_path: Path):
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
def test_a_broken_audit_line_does_not_match(spoil: dict[str, object]):
    [decided, *_] = play(Engine(Policy()), propose(1))
    line = {**json.loads(encode(decided)), "hash": "0" * 64}

    assert validator("audit_line").is_valid(line)
    assert not validator("audit_line").is_valid({**line, **spoil})


def test_the_audit_schema_has_every_event():
    known = {part["$ref"].rsplit("/")[-1] for part in audit_line()["oneOf"]}

    assert known == {kind.__name__ for kind in get_args(AnyEvent)} | {"Opened"}


@pytest.mark.req("S1.28")
def test_a_published_safety_event_has_exactly_the_fields_of_the_contract():
    event = SafetyEvent(seq=9, at=at(1), t=1.0, **event_fields())

    fields = json.loads(msgspec.json.encode(published(event)))

    assert set(fields) == set(schema_of("safety_event")["properties"]) == EVENT_FIELDS
    validator("safety_event").validate(fields)


# -- what the document shows of webhooks -----------------------------------------------------------


def example(kind: str) -> str:
    """Return the first block of this kind about webhooks in docs/protocol.md."""
    section = (DOCS / "protocol.md").read_text().partition("### Webhook")[2]
    block, *_ = re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)
    return str(block)


def test_the_documented_webhook_matches_its_schema():
    validator("webhook", closed=True).validate(json.loads(example("json")))


@pytest.mark.req("S3.34")
def test_the_documented_receiver_accepts_only_signed_webhooks():
    names: dict[str, Any] = {}
    exec(example("python"), names)
    genuine = names["genuine"]
    secret = "whsec_" + base64.b64encode(b"a key of twenty-four byt").decode()
    now = datetime.now(UTC)
    fresh, stale = notice(at=now), notice(at=now - timedelta(minutes=6))
    body, keys = document(fresh, links=False), signing_keys(f"whsec_AAAA\n{secret}")

    headers = signed(fresh, body, keys)

    assert genuine(headers, body, secret)
    assert not genuine(headers, body + b" ", secret)
    assert not genuine(headers, body, "whsec_BBBB")
    assert not genuine(signed(stale, body, keys), body, secret)
