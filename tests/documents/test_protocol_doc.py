"""The examples of docs/protocol.md are what they say they are."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from docs.generate import DOCS
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.journeys.agents import until
from tests.journeys.asking_agent import review, waiting
from tests.journeys.http_agent import new_token

DOCUMENT = (DOCS / "protocol.md").read_text()


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
