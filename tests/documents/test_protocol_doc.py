"""The examples of docs/protocol.md are what they say they are."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from docs.generate import DOCS
from safetyd.bus.codec import read_proposal
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.journeys.agents import until
from tests.journeys.asking_agent import review, waiting
from tests.journeys.http_agent import new_token
from tests.schemas import schema_of, validator

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
def test_an_example_is_what_its_schema_says_and_every_field_is_in_the_table(
    name: str, text: str
) -> None:
    message = json.loads(text)

    validator(name).validate(message)
    assert message.keys() <= schema_of(name)["properties"].keys()


def test_the_example_of_a_decision_answers_the_example_of_a_proposal() -> None:
    examples = dict(EXAMPLES)
    decision = json.loads(examples["decision"])

    proposal, digest = read_proposal(decision["agent"], examples["proposal"].encode(), "spare")

    assert (decision["id"], decision["digest"]) == (proposal.id, digest)
    assert set(examples) == {"proposal", "decision", "telemetry_outcome"}


@pytest.mark.parametrize("name", ["proposal", "telemetry_outcome"])
def test_every_field_that_an_agent_sends_is_in_a_table(name: str) -> None:
    table = DOCUMENT.partition(f"<!-- fields of {name},")[2].partition("<!-- end of fields -->")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| .+? \| (.+) \|$", table, re.MULTILINE))

    assert rows.keys() == schema_of(name)["properties"].keys()


def test_every_field_of_every_schema_has_a_description() -> None:
    for path in sorted((DOCS / "schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        for part in (schema, *schema.get("$defs", {}).values()):
            for name, field in part.get("properties", {}).items():
                where = f"{part.get('title')}.{name} in {path.name}"
                how = "add a comment beside the field, or a line to docs/field_glossary.toml"
                assert field.get("description"), f"{where} has no description: {how}"
