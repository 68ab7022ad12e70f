"""Safe mode over HTTP, asked of a real daemon."""

import json
import re
import stat
import subprocess
import urllib.error
import urllib.request
from typing import Any

import pytest

from safetyd.client import SyncSafety
from safetyd.web.engine_gateway import PATIENCE_S
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.journeys.processes import freeze, server_pid, thaw

LOOK = "/api/agent/safe-mode"
EXIT = "/api/agent/safe-mode/exit"
CURL = re.compile(r"```sh\n(?P<commands>[^`]*/safe-mode[^`]*)```")
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def token(daemon: RunningDaemon) -> str:
    return (daemon.data_dir / "keys/operator.token").read_text().strip()


def ask(
    daemon: RunningDaemon, path: str, body: dict[str, object] | None = None, bearer: str = ""
) -> tuple[int, dict[str, Any]]:
    """Ask with GET or, with a body, POST."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {bearer or token(daemon)}"}
    request = urllib.request.Request(daemon.endpoint.web + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, json.load(exc)


def fail(safety: SyncSafety, times: int) -> None:
    for number in range(times):
        allowed = safety.propose("edit_file", text=f"line {number}")
        assert allowed.allowed
        assert safety.report(allowed.id, ok=False, error="no space left")


@pytest.mark.journey
@pytest.mark.req("S0.8")
@pytest.mark.req("S0.15")
@pytest.mark.req("S0.16")
@pytest.mark.req("S0.17")
def test_agent_in_safe_mode_is_let_go_over_http_and_counts_anew(daemon: RunningDaemon) -> None:
    with SyncSafety("failing", data_dir=daemon.data_dir) as safety:
        fail(safety, 3)
        # Outcomes are delivered in the background.
        looks = (ask(daemon, f"{LOOK}?agent=failing") for _ in range(200))
        held = next(shown for _, shown in looks if shown.get("active"))
        early = ask(daemon, EXIT, {"agent": "failing"})
        forced = ask(daemon, EXIT, {"agent": "failing", "force": True, "reason": "disk is free"})

        assert (held["state"], held["consecutive_errors"]) == ("safe_mode", 3)
        assert (early[0], early[1]["error"]) == (409, "cooling_down")
        assert (forced[0], forced[1]["state"], forced[1]["active"]) == (200, "ready", False)
        assert forced[1]["consecutive_errors"] == 0
        assert safety.propose("edit_file", text="line 4").allowed
    recorded = daemon.safetyd("audit", "tail", "--json").stdout
    assert '"by":"local"' in recorded.replace(" ", "")
    assert "disk is free" in recorded


@pytest.mark.journey
def test_token_is_its_owners_alone_and_nowhere_in_the_log(daemon: RunningDaemon) -> None:
    path = daemon.data_dir / "keys/operator.token"

    assert ask(daemon, LOOK, bearer="wrong")[0] == 401
    assert ask(daemon, LOOK)[0] == 200

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token(daemon) not in daemon.log()


@pytest.mark.journey
def test_curl_of_the_documents_works(daemon: RunningDaemon) -> None:
    daemon.safetyd("safe-mode", "enter", "--agent", "code")
    match = CURL.search((DOCS / "protocol.md").read_text())
    assert match is not None
    script = match["commands"].replace("http://127.0.0.1:8787", daemon.endpoint.web)

    said = subprocess.run(
        ["sh", "-euc", script],
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir)),
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stderr
    held, left = (json.loads(line) for line in said.stdout.splitlines())
    assert held["agents"] == ["code"]
    assert left["active"] is False


@pytest.mark.journey
def test_token_that_is_none_stops_the_start(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    daemon.stop()
    (daemon.data_dir / "keys/operator.token").write_text("")

    daemon.launch()

    assert daemon.wait() == 1
    assert "operator.token does not contain a token" in daemon.log()


@pytest.mark.journey
def test_daemon_whose_journal_is_stuck_says_so_while_it_is(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon()
    daemon.safetyd("safe-mode", "enter", "--agent", "code")
    server = server_pid(daemon)

    freeze(server)
    try:
        left = ask(daemon, EXIT, {"force": True, "reason": "over"})
        looked = ask(daemon, LOOK)
    finally:
        thaw(server)

    assert left[0] == looked[0] == 503
    assert PATIENCE_S < 2.0  # so long it waits for the journal
    assert "the journal" in left[1]["error"]
    assert left[1]["error"].endswith("; check before you try again: it may still happen")
    assert looked[1]["error"]
