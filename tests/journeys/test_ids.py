"""An id belongs to the first content proposed under it, as long as answers are stored."""

from datetime import UTC, datetime
from threading import Event

import pytest

from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, Reply, review, waiting

pytestmark = pytest.mark.journey

BRIEF = UNLIMITED + "\n[decisions]\nttl_s = 0.2\n"
READ = {"type": "read_file", "text": "notes.txt"}
OTHER = {"type": "read_file", "text": "other.txt"}


def wait_until_over(allowed: Reply) -> None:
    """Wait until an `allow` has expired."""
    ends = datetime.fromisoformat(allowed["expires_at"])
    while (left := (ends - datetime.now(UTC)).total_seconds()) > 0:
        Event().wait(left)


def killed(daemon: RunningDaemon) -> None:
    daemon.kill()
    daemon.start()


def test_an_id_keeps_its_first_content_after_its_approval_expired(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(BRIEF)
    with Asker(daemon) as asker:
        first = asker.propose("p1", **READ)
        wait_until_over(first)

        other = asker.propose("p1", **OTHER)
        again = asker.propose("p1", **READ)

    assert (first["decision"], again["decision"]) == ("allow", "allow")
    assert again["seq"] > first["seq"], "it was decided anew"
    assert (other["decision"], other["cause"]) == ("block", "conflict")

    killed(daemon)

    with Asker(daemon) as asker:
        wait_until_over(again)
        assert asker.propose("p1", **OTHER)["cause"] == "conflict"
        assert asker.propose("p1", **READ)["decision"] == "allow"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(UNLIMITED)


def test_an_approved_id_covers_only_the_approved_content(daemon: RunningDaemon) -> None:
    with Asker(daemon, "approved") as asker:
        asked = asker.propose("p1")
        review(daemon, "approve", asked["request_id"])

        other = asker.propose("p1", text="git push --force origin main")

        assert other["cause"] == "conflict"
        assert asker.propose("p1")["cause"] == "human_approved"


def test_a_refused_id_withdraws_nothing(daemon: RunningDaemon) -> None:
    with Asker(daemon, "refused") as asker:
        asker.propose("p1", **READ)
        asked = asker.propose("p2")

        other = asker.propose("p1", **OTHER, supersedes="p2")

    assert other["cause"] == "conflict"
    assert asked["request_id"] in [row["id"] for row in waiting(daemon)]


def test_an_agent_that_joins_a_request_is_answered_under_its_own_id(daemon: RunningDaemon) -> None:
    with Asker(daemon, "joins") as asker:
        asked = asker.propose("p1", rationale="it is done")
        joined = asker.propose("p2", rationale="it is ready")

        again = asker.propose("p2", rationale="it is ready")
        review(daemon, "deny", asked["request_id"])
        ended = asker.propose("p2", rationale="it is ready")

    assert joined["request_id"] == again["request_id"] == asked["request_id"]
    assert ended["cause"] == "human_denied"
    assert {answer["digest"] for answer in (joined, again, ended)} == {joined["digest"]}
