"""The examples of docs/protocol.md are what they say they are."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from docs.generate import DOCS
from docs.messages import MESSAGES, schema_name
from safetyd.bus.codec import read_proposal
from safetyd.operators.declarations import COMMANDS, QUESTIONS
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.journeys.agents import until
from tests.journeys.asking_agent import review, waiting
from tests.journeys.http_agent import new_token
from tests.schemas import validator

DOCUMENT = (DOCS / "protocol.md").read_text()
EXAMPLES = re.findall(r"<!-- (\w+) -->\n```json\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.journey
def test_the_commands_for_agents_over_http_propose_wait_claim_and_report(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("")
    section = DOCUMENT.partition("### Agents over HTTP")[2]
    script = section.partition("```sh\n")[2].partition("```")[0]
    script = script.replace("http://127.0.0.1:8787", daemon.endpoint.web)
    known = environment(SAFETYD_TOKEN=new_token(daemon, "add", "nightly"))
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(
            subprocess.run,
            ["bash", "-eu", "-c", script],
            capture_output=True,
            env=known,
            timeout=60,
        )
        approve(daemon)
        lines = run.result().stdout.splitlines()

    read, noted, pushed, claimed = map(json.loads, lines)
    assert read["decision"] == "allow"
    assert noted == {"ok": True}
    assert (pushed["cause"], pushed["claim_required"]) == ("human_approved", True)
    assert claimed["granted"]


def approve(daemon: RunningDaemon) -> None:
    until(lambda: waiting(daemon))
    (row,) = waiting(daemon)
    assert review(daemon, "approve", row["id"], digest=row["digest"])["ok"]


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_is_a_message_of_its_schema(name: str, text: str) -> None:
    validator(name, closed=True).validate(json.loads(text))


def test_the_example_of_a_decision_answers_the_example_of_a_proposal() -> None:
    examples = dict(EXAMPLES)
    decision = json.loads(examples["decision"])

    proposal, digest = read_proposal(decision["agent"], examples["proposal"].encode(), "spare")

    assert (decision["id"], decision["digest"]) == (proposal.id, digest)


def test_every_message_has_an_example_and_a_table_and_every_command_a_row() -> None:
    of_operators = {schema_name(call) for call in (*COMMANDS, *QUESTIONS)}
    replies = {f"{name}_reply" for name in of_operators}
    others = MESSAGES.keys() - of_operators - replies - {"service_reply"}
    tables = set(re.findall(r"<!-- fields of (\w+),", DOCUMENT))
    rows = set(re.findall(r"^\| \[\w+\]\(schemas/(\w+)\.json\)", DOCUMENT, re.MULTILINE))

    assert others == tables
    assert others <= {name for name, _ in EXAMPLES}
    assert rows == of_operators


def test_every_field_of_every_schema_has_a_description() -> None:
    for path in sorted((DOCS / "schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        for part in (schema, *schema.get("$defs", {}).values()):
            for name, field in part.get("properties", {}).items():
                where = f"{part.get('title')}.{name} in {path.name}"
                how = "add a comment beside the field, or a line to docs/field_glossary.toml"
                assert field.get("description"), f"{where} has no description: {how}"
