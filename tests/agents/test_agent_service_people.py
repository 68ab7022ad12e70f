"""What agents reach of the queue: permission asks, questions about them, and claims."""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from safetyd.core.approvals.request import MAX_JOINED
from safetyd.core.events.request_events import Answered, Claimed
from tests.agents.test_agent_service import Counter
from tests.captured_connection import REPLY

PUSH: Final[dict[str, Any]] = {"type": "push", "text": "git push origin main"}


class Window(Counter):
    """The same counter, with a person behind it."""

    def send(self, verb: str, fields: object, agent: str = "code") -> dict[str, Any]:
        """Return what is answered once it is written."""
        payload = fields if isinstance(fields, bytes) else msgspec.json.encode(fields)
        act = getattr(self.service, verb)
        act(f"safety.v1.{verb}.{agent}".encode(), REPLY, payload)
        self.write()
        return self.captured.answer()

    def approve(self, request_id: str) -> None:
        request = self.engine.approvals.find(request_id)
        assert request is not None
        self.engine.handle(
            Answered(
                at=request.asked.at,
                t=request.asked.t,
                request_id=request_id,
                agent=request.agent,
                id=request.asked.id,
                answer="approved",
                by="alice",
                via="cli",
                words="go",
                waits=self.answers.waits(request),
            )
        )
        self.answers.conclude(self.engine, self.engine.take_conclusions())()


@pytest.fixture
def window(tmp_path: Path) -> Window:
    return Window(tmp_path)


@pytest.mark.req("S3.21")
async def test_ask_that_does_not_wait_is_queued(window: Window) -> None:
    answer = window.send("permission", {"action": "push", "description": "to main"})

    assert answer["queued"]
    assert answer["request_id"].startswith("req_")
    assert window.engine.approvals.pending_count("code") == 1


@pytest.mark.req("S3.19")
async def test_ask_that_waits_is_answered_by_the_person(window: Window) -> None:
    ask = {"action": "push", "id": "a1", "wait": True}
    window.service.permission(b"safety.v1.permission.code", REPLY, msgspec.json.encode(ask))
    window.write()
    assert window.captured.answers() == []

    (request,) = window.engine.approvals.pending()
    window.approve(request.id)

    assert window.captured.answer() == {"approved": True, "message": "go"}


async def test_agent_asks_about_its_own_requests(window: Window) -> None:
    queued = window.send("permission", {"action": "push"})

    assert window.send("permission", {"request_id": queued["request_id"]}) == queued
    (row,) = window.send("permission", {"open": True})["requests"]
    assert (row["request_id"], row["status"]) == (queued["request_id"], "pending")
    assert window.send("permission", {"open": True}, agent="ops") == {"requests": []}

    window.approve(queued["request_id"])
    window.captured.said()

    approved = {"approved": True, "message": "go"}
    assert window.send("permission", {"request_id": queued["request_id"]}) == approved


async def test_agent_withdraws_a_request(window: Window) -> None:
    queued = window.send("permission", {"action": "push"})

    ask = {"request_id": queued["request_id"], "withdraw": True}
    answer = window.send("permission", ask)

    assert (answer["approved"], answer["cause"]) == (False, "cancelled")
    assert window.engine.approvals.pending_count("code") == 0


@pytest.mark.parametrize("verb", ["permission", "claim"])
@pytest.mark.parametrize("payload", [b"", b"{}", b"\xff", b"[1]", b'{"action": 7, "id": 7}'])
async def test_what_cannot_be_read_is_refused_and_counted(
    window: Window, verb: str, payload: bytes
) -> None:
    answer = window.send(verb, payload)

    assert (answer["cause"], answer.get("granted", answer.get("approved"))) == ("malformed", False)
    assert window.engine.approvals.pending_count() == 0


@pytest.mark.parametrize("verb", ["permission", "claim"])
async def test_nothing_is_taken_in_while_nothing_can_be_written(window: Window, verb: str) -> None:
    window.problem = "the disk is full"

    answer = window.send(verb, {"action": "push", "id": "p1", "digest": "d"})

    assert (answer["cause"], answer["reason"]) == ("unavailable", "the disk is full")


@pytest.mark.parametrize("verb", ["permission", "claim"])
async def test_name_that_is_none_is_refused(window: Window, verb: str) -> None:
    answer = window.send(verb, {"action": "push", "id": "p1", "digest": "d"}, agent="no name")

    assert answer["cause"] == "malformed"


async def test_claim_is_granted_once_it_is_written(window: Window) -> None:
    asked = window.asked(**PUSH, id="p1")
    claim = {"id": "p1", "digest": asked["digest"], "claimant": "x"}
    assert window.send("claim", claim)["cause"] == "not_approved"
    window.approve(asked["request_id"])
    window.captured.said()

    window.service.claim(b"safety.v1.claim.code", REPLY, msgspec.json.encode(claim))
    assert window.captured.said() == []
    written = window.write()

    assert window.captured.answer()["granted"]
    assert [e.claimant for e in written if isinstance(e, Claimed)] == ["x"]
    assert window.send("claim", {**claim, "claimant": "y"})["cause"] == "already_claimed"


async def test_another_agent_cannot_claim(window: Window) -> None:
    asked = window.asked(**PUSH, id="p1")
    window.approve(asked["request_id"])
    window.captured.said()

    claim = {"id": "p1", "digest": asked["digest"]}

    assert window.send("claim", claim, agent="ops")["cause"] == "not_approved"


async def test_repeat_that_will_be_told_nothing_is_answered_at_once(window: Window) -> None:
    window.asked(**PUSH, id="p1")
    for number in range(MAX_JOINED):
        window.asked(**PUSH, id=f"r{number}")

    answer = window.asked(**PUSH, id="last", wait=True)

    assert answer["status"] == "pending"
