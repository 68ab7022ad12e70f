"""Anonymous agents can fill only a bounded part of the daemon's memory."""

import urllib.request
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
import pytest

from safetyd.bus.keyring import Keyring
from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.journal.audit import files
from tests.bus.peer import Peer
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import Reply, review

pytestmark = pytest.mark.journey

LARGE: Final = 60_000  # bytes of a diff
KEYLESS: Final = ApprovalsConfig().max_pending_bytes_keyless
FULL: Final = KEYLESS // LARGE + 1
_numbers: Final = count()


def asks(peer: Peer, agent: str) -> Reply:
    """Make the largest request with the longest deadline."""
    number = next(_numbers)
    proposal = {
        "type": "deploy",
        "id": f"p{number}",
        "text": f"deploy {number}",
        "context": {"diff": "x" * LARGE},
        "timeout_s": 0,
    }
    return peer.ask(f"safety.v1.propose.{agent}", msgspec.json.encode(proposal)).fields


def many_names_ask(peer: Peer) -> list[Reply]:
    """Fill the anonymous limit with requests under ten names."""
    return [asks(peer, f"name-{number % 10}") for number in range(FULL)]


def resident(daemon: RunningDaemon) -> int:
    """Return the daemon's resident memory."""
    pages = Path(f"/proc/{daemon.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def audit_size(daemon: RunningDaemon) -> int:
    return sum(path.stat().st_size for path in files(daemon.data_dir / "audit"))


def audit_bytes(daemon: RunningDaemon) -> int:
    """Return the metric's value, which starts at zero."""
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as page:
        said = page.read().decode()
    return int(float(said.partition("\nsafetyd_audit_bytes_total ")[2].partition("\n")[0]))


def keyed(daemon: RunningDaemon) -> Peer:
    key = daemon.data_dir / "keys" / "agents" / "keyed.nk"
    return Peer(daemon.endpoint.bus, key, "_INBOX.agent.keyed")


def test_pending_requests_of_anonymous_agents_are_bounded_and_expire(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNLIMITED)
    Keyring(daemon.data_dir / "keys").add("agents", "keyed")
    daemon.restart()
    empty = resident(daemon)

    with Peer(daemon.endpoint.bus) as peer:
        first, *_, last = many_names_ask(peer)
        full = resident(daemon)
        more = many_names_ask(peer)

    assert first["expires_at"]  # although it set none
    assert (last["decision"], last["cause"]) == ("block", "rate_limit")
    assert "approvals.keyless_bytes" in last["triggered_rules"]
    assert "approvals.max_pending_bytes_keyless" in last["reason"]
    assert {answer["decision"] for answer in more} == {"block"}
    assert resident(daemon) - full < (full - empty) / 2

    daemon.kill()
    daemon.start()

    with Peer(daemon.endpoint.bus) as peer, keyed(daemon) as own:
        assert asks(peer, "other")["decision"] == "block"
        assert asks(own, "keyed")["status"] == "pending"
        review(daemon, "deny", first["request_id"])
        assert asks(peer, "other")["status"] == "pending"


def test_pending_requests_of_one_agent_are_bounded_and_their_bytes_counted(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNLIMITED)
    Keyring(daemon.data_dir / "keys").add("agents", "keyed")
    daemon.restart()
    size, counted = audit_size(daemon), audit_bytes(daemon)

    with keyed(daemon) as peer, Peer(daemon.endpoint.bus) as other:
        answers = [asks(peer, "keyed") for _ in range(40)]

        assert asks(other, "other")["status"] == "pending"
    assert "approvals.agent_bytes" in answers[-1]["triggered_rules"]
    assert "approvals.max_pending_bytes_per_agent" in answers[-1]["reason"]
    assert audit_size(daemon) - size > 40 * LARGE

    def is_counted() -> bool:
        """Return whether the metric, at most a second old, counts all written bytes."""
        return abs(audit_bytes(daemon) - counted - (audit_size(daemon) - size)) < LARGE

    until(is_counted)
