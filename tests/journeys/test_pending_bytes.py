"""What agents without a key can make the daemon keep: a bounded part of its memory."""

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
    """Ask a person about something large, for as long as can be."""
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
    """Ask as often as fills what is kept, each time under a name of ten."""
    return [asks(peer, f"name-{number % 10}") for number in range(FULL)]


def resident(daemon: RunningDaemon) -> int:
    """Return how much memory the daemon takes."""
    pages = Path(f"/proc/{daemon.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def audit_size(daemon: RunningDaemon) -> int:
    return sum(path.stat().st_size for path in files(daemon.data_dir / "audit"))


def audit_bytes(daemon: RunningDaemon) -> int:
    """Return what the metric says, which begins at zero with the daemon."""
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as page:
        said = page.read().decode()
    return int(float(said.partition("\nsafetyd_audit_bytes_total ")[2].partition("\n")[0]))


def keyed(daemon: RunningDaemon) -> Peer:
    key = daemon.data_dir / "keys" / "agents" / "keyed.nk"
    return Peer(daemon.endpoint.bus, key, "_INBOX.agent.keyed")


def test_what_waits_of_agents_without_a_key_has_a_bound_and_an_end(
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

    assert first["expires_at"]  # though it asked for none
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


def test_what_waits_of_one_agent_has_a_bound_and_what_is_written_down_is_counted(
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
        """Say whether the metric, which is a second old at the most, has all that was written."""
        return abs(audit_bytes(daemon) - counted - (audit_size(daemon) - size)) < LARGE

    until(is_counted)
