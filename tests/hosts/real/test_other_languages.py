"""Clients and listings in other languages work with a real daemon."""

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from safetyd.core.events.decision_events import Reported
from safetyd.core.messages.telemetry import Outcome
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.typescript_package import build, node, packages
from tests.journeys.agents import until
from tests.journeys.asking_agent import review, waiting
from tests.journeys.audit_record import events

pytestmark = pytest.mark.hosts

_LISTING: Final = re.compile(r"<!-- (node|\w+\.go) -->\n```\w+\n(.*?)```", re.DOTALL)
LISTINGS: Final = {
    name: text
    for document in ("protocol.md", "other-languages.md")
    for name, text in _LISTING.findall((ROOT / "docs" / document).read_text())
}
VECTORS: Final = """package main

import (
	"encoding/json"
	"os"
	"testing"
)

func TestVectors(t *testing.T) {
	content, err := os.ReadFile(os.Getenv("DIGEST_VECTORS"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Name, Agent, Message, Digest string }
	if err := json.Unmarshal(content, &vectors); err != nil || len(vectors) == 0 {
		t.Fatal(len(vectors), err)
	}
	for _, vector := range vectors {
		if found := digest(vector.Agent, []byte(vector.Message)); found != vector.Digest {
			t.Errorf("%s: %s", vector.Name, found)
		}
	}
}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_daemon()
    assert daemon.safetyd("agent", "add", "nightly").returncode == 0
    return daemon


@pytest.fixture
def go_program(tmp_path: Path) -> Path:
    for name in ("main.go", "digest.go"):
        (tmp_path / name).write_text(LISTINGS[name])
    (tmp_path / "digest_test.go").write_text(VECTORS)
    return tmp_path


def go(folder: Path, *command: str, **variables: str) -> str:
    needed = "golang-go and golang-github-nats-io-go-nats-dev"
    assert shutil.which("go"), f"Go is needed to run the listing. Install the packages {needed}."
    # Debian's packages are below a GOPATH; no module is downloaded.
    paths = {"GOPATH": "/usr/share/gocode", "GO111MODULE": "off", "GOCACHE": str(folder / "cache")}
    return node(folder, "go", *command, **paths, **variables)


def approved(daemon: RunningDaemon, run: Callable[[], str]) -> str:
    """Run a program, approve what it waits for, and return its output."""
    with ThreadPoolExecutor(1) as pool:
        output = pool.submit(run)
        until(lambda: waiting(daemon) or output.done())
        for row in waiting(daemon):
            assert review(daemon, "approve", row["id"], digest=row["digest"])["ok"]
        return output.result()


def reported(daemon: RunningDaemon) -> list[tuple[str | None, bool]]:
    """Return the ids and results of all outcomes in the journal."""
    said = [event.telemetry for event in events(daemon.data_dir) if isinstance(event, Reported)]
    return [(one.id, one.ok) for one in said if isinstance(one, Outcome)]


def test_the_typescript_client_passes_its_tests(package: Path) -> None:
    output = node(package, "node", "--test", "dist/tests/")

    (passed,) = re.findall(r"^# pass (\d+)$", output, re.MULTILINE)
    assert int(passed) > len(json.loads((ROOT / "docs/digest_vectors.json").read_text()))
    assert "# skipped 0\n" in output


def test_the_program_in_the_readme_of_the_typescript_client_waits_and_acts(
    package: Path, daemon: RunningDaemon
) -> None:
    program = "dist/tests/readme_program.js"
    known = {"SAFETYD_DATA_DIR": str(daemon.data_dir)}

    output = approved(daemon, lambda: node(package, "node", program, **known)).splitlines()

    assert output[0] == "read: 42"
    assert output[1].startswith("blocked: ")
    assert output[2:] == ["pushing"]
    assert [ok for _, ok in reported(daemon)] == [True, True]


def test_the_node_program_in_the_protocol_waits_claims_and_reports(
    tmp_path: Path, daemon: RunningDaemon
) -> None:
    (tmp_path / "node_modules").symlink_to(packages())
    (tmp_path / "program.mjs").write_text(LISTINGS["node"])
    known = {"SAFETYD_DATA_DIR": str(daemon.data_dir)}

    output = approved(daemon, lambda: node(tmp_path, "node", "program.mjs", **known))

    assert output.splitlines() == ["pushing", "{ ok: true }"]
    assert reported(daemon) == [("push-1", True)]


def test_the_go_listing_waits_claims_and_reports(go_program: Path, daemon: RunningDaemon) -> None:
    go(go_program, "build", "-o", "agent", ".")
    known = {"SAFETYD_DATA_DIR": str(daemon.data_dir)}

    approved(daemon, lambda: node(go_program, "./agent", **known))

    assert reported(daemon) == [("push-1", True)]


def test_the_go_listing_computes_the_digests_of_all_vectors(go_program: Path) -> None:
    output = go(go_program, "test", ".", DIGEST_VECTORS=str(ROOT / "docs/digest_vectors.json"))

    assert output.startswith("ok")
