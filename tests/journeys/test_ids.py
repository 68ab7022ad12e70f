"""An id stands for what was first proposed under it, as long as answers are remembered."""

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
    """Return once an allow may no longer be begun."""
    ends = datetime.fromisoformat(allowed["expires_at"])
    while (left := (ends - datetime.now(UTC)).total_seconds()) > 0:
        Event().wait(left)


def killed(daemon: RunningDaemon) -> None:
    daemon.kill()
    daemon.start()


def test_id_keeps_its_first_content_when_its_allow_is_over(start_daemon: StartDaemon) -> None:
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


def test_id_of_an_approval_is_for_what_was_approved(daemon: RunningDaemon) -> None:
    with Asker(daemon, "approved") as asker:
        asked = asker.propose("p1")
        review(daemon, "approve", asked["request_id"])

        other = asker.propose("p1", text="git push --force origin main")

        assert other["cause"] == "conflict"
        assert asker.propose("p1")["cause"] == "human_approved"


def test_what_is_refused_for_its_id_takes_nothing_back(daemon: RunningDaemon) -> None:
    with Asker(daemon, "refused") as asker:
        asker.propose("p1", **READ)
        asked = asker.propose("p2")

        other = asker.propose("p1", **OTHER, supersedes="p2")

    assert other["cause"] == "conflict"
    assert asked["request_id"] in [row["id"] for row in waiting(daemon)]


def test_who_joins_a_request_in_other_words_is_answered_in_its_own(daemon: RunningDaemon) -> None:
    with Asker(daemon, "joins") as asker:
        asked = asker.propose("p1", rationale="it is done")
        joined = asker.propose("p2", rationale="it is ready")

        again = asker.propose("p2", rationale="it is ready")
        review(daemon, "deny", asked["request_id"])
        ended = asker.propose("p2", rationale="it is ready")

    assert joined["request_id"] == again["request_id"] == asked["request_id"]
    assert ended["cause"] == "human_denied"
    assert {answer["digest"] for answer in (joined, again, ended)} == {joined["digest"]}
