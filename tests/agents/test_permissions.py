from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from safetyd.agents.permissions import (
    MAX_OPEN,
    PermissionAsk,
    as_proposal,
    asked_about,
    read_ask,
    result,
    withdrawn,
)
from safetyd.bus.codec import Malformed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Paused
from safetyd.core.messages.proposal import digest as proposal_digest
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, propose, tick

DAY_S = 86_400.0


def about(queue: QueueStory, agent: str = "code", **fields: Any) -> dict[str, Any]:
    answer = asked_about(queue.engine, agent, PermissionAsk(**fields))
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
    return read


@pytest.mark.req("S3.18")
def test_every_field_of_an_ask_becomes_part_of_a_proposal() -> None:
    ask = read_ask(
        b'{"action":"push","id":"a1","description":"d","rationale":"r","urgency":"high",'
        b'"wait":true,"context":{"text":"git push","x":1},"timeout_minutes":2}'
    )

    proposal, digest = as_proposal("code", ask, "spare")

    assert (proposal.type, proposal.id, proposal.description) == ("push", "a1", "d")
    assert (proposal.rationale, proposal.urgency, proposal.wait) == ("r", "high", True)
    assert (proposal.text, proposal.timeout_s) == ("git push", 120.0)
    assert digest.startswith("sha256:")


def test_a_permission_request_belongs_to_the_session_that_it_or_its_context_names() -> None:
    in_context = {"action": "push", "id": "a1", "context": {"text": "git push", "session": "s1"}}

    shown, digest = as_proposal("code", read_ask(msgspec.json.encode(in_context)), "spare")
    named, _ = as_proposal("code", read_ask(b'{"action":"push","session":"s2"}'), "spare")
    bare = {**in_context, "context": {"text": "git push", "session": ["s1"]}}
    neither, _ = as_proposal("code", read_ask(msgspec.json.encode(bare)), "spare")

    assert [shown.session, named.session, neither.session] == ["s1", "s2", None]
    # Older clients compute the digest without the session of the context.
    fields = {**in_context, "type": "push", "text": "git push"}
    del fields["action"]
    usual = {"description": "", "rationale": "", "wait": False, "urgency": "normal"}
    assert digest == proposal_digest("code", {**usual, **fields})


def test_null_in_an_ask_is_absence() -> None:
    nulls = dict.fromkeys(PermissionAsk.__struct_fields__)

    ask = read_ask(msgspec.json.encode({**nulls, "action": "push", "id": "a1"}))

    assert ask == read_ask(b'{"action":"push","id":"a1"}')


def test_an_ask_without_an_id_gets_the_spare_one() -> None:
    proposal, _ = as_proposal("code", read_ask(b'{"action":"push"}'), "spare")

    assert (proposal.id, proposal.text, proposal.timeout_s) == ("spare", "", None)


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"{}", b"[]", b"\xff", b'{"action":""}', b'{"action":"push","timeout_minutes":-1}'),
        *(b'{"withdraw":true}', b'{"action":"push","request_id":"req_1","withdraw":true}'),
    ],
)
def test_what_is_no_ask_is_malformed(payload: bytes) -> None:
    with pytest.raises(Malformed):
        read_ask(payload)


def test_two_different_descriptions_are_malformed() -> None:
    ask = read_ask(b'{"action":"deploy","description":"a","context":{"description":"b"}}')

    with pytest.raises(Malformed, match="differ"):
        as_proposal("code", ask, "spare")


@pytest.mark.req("S3.21")
def test_what_waits_is_queued() -> None:
    queue = QueueStory()
    asked = queue.asks(0)

    assert about(queue, request_id=asked.request_id) == {
        "queued": True,
        "request_id": asked.request_id,
    }


@pytest.mark.req("S3.19")
def test_an_approval_has_its_message() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(1, asked.request_id, words="go")

    assert about(queue, request_id=asked.request_id) == {"approved": True, "message": "go"}


@pytest.mark.req("S3.20")
@pytest.mark.parametrize(("timeout_s", "minutes"), [(3600.0, 60), (90.0, 1.5)])
def test_silence_is_a_timeout_that_says_how_long_was_waited(
    timeout_s: float, minutes: float
) -> None:
    queue = QueueStory()
    asked = queue.asks(0, timeout_s=timeout_s)
    queue.happens(tick(timeout_s))

    assert about(queue, request_id=asked.request_id) == {
        "approved": False,
        "reason": "timeout",
        "timeout_minutes": minutes,
        "cause": "expired_no_response",
    }


@pytest.mark.parametrize(("words", "reason"), [("not now", "not now"), ("", "denied by alice")])
def test_a_denial_has_its_reason(words: str, reason: str) -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(1, asked.request_id, "denied", words=words)

    assert about(queue, request_id=asked.request_id) == {
        "approved": False,
        "reason": reason,
        "cause": "human_denied",
    }


def test_what_is_blocked_at_once_is_not_approved() -> None:
    queue = QueueStory()
    blocked = queue.proposes(propose(0, type="run_shell", text="rm -rf /"), permission=True)

    answer = result(blocked, None)

    assert (answer.approved, answer.cause) == (False, blocked.cause)


def test_requests_of_others_are_not_known() -> None:
    queue = QueueStory()
    asked = queue.asks(0)

    for agent, id_ in (("ops", asked.request_id), ("code", "req_unknown")):
        answer = about(queue, agent, request_id=id_)
        assert (answer["approved"], answer["cause"]) == (False, "malformed")
    assert about(queue, "ops", open=True) == {"requests": []}


def test_an_agent_lists_what_waits_and_what_it_may_still_use() -> None:
    queue = QueueStory()
    asked = [queue.asks(0, f"p{n}", text=f"git push {n}").request_id for n in range(4)]
    queue.answers(1, asked[1], words="go")
    queue.answers(1, asked[2], "denied")
    queue.answers(1, asked[3])
    queue.asks(2, "p9", text="git push 3")

    rows = about(queue, open=True)["requests"]

    assert [(row["request_id"], row["status"]) for row in rows] == [
        (asked[0], "pending"),
        (asked[1], "approved"),
    ]
    assert rows[1]["message"] == "go"
    assert len(rows) < MAX_OPEN


def approves(queue: QueueStory, request_id: str | None) -> None:
    queue.answers(1, request_id, words="go")


def denies(queue: QueueStory, request_id: str | None) -> None:
    queue.answers(1, request_id, "denied")


def waits(queue: QueueStory, _request_id: str | None) -> None:
    queue.happens(tick(8 * DAY_S))


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (approves, {"approved": True, "message": "go"}),
        (denies, {"approved": False, "cause": "human_denied"}),
        (waits, {"approved": False, "cause": "expired_no_response", "timeout_minutes": 1440}),
    ],
)
def test_an_end_is_told_even_if_the_same_id_was_asked_anew_since(
    end: Callable[[QueueStory, str | None], None], told: dict[str, object]
) -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    end(queue, asked.request_id)
    queue.asks(9 * DAY_S)

    assert told.items() <= about(queue, request_id=asked.request_id).items()


def withdraws(
    queue: QueueStory, request_id: str | None, agent: str = "code", *, keyless: bool = False
) -> dict[str, Any]:
    ask = PermissionAsk(request_id=request_id, withdraw=True, rationale="nobody is there")
    plan = withdrawn(agent, ask, keyless=keyless)
    carried = plan(queue.engine, Moment(at(5), 5.0))
    queue.happens(*carried.events)
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(carried.answer))
    return read


def test_an_agent_withdraws_its_pending_request() -> None:
    queue = QueueStory()
    request_id = queue.asks(0).request_id

    answer = withdraws(queue, request_id)

    assert (answer["approved"], answer["cause"]) == (False, "cancelled")
    assert queue.request(request_id).state == "cancelled"
    assert queue.final("p1").reason == "cancelled by code: nobody is there"
    assert about(queue, request_id=request_id)["cause"] == "cancelled"


@pytest.mark.parametrize(("agent", "keyless"), [("ops", False), ("code", True)])
def test_an_agent_cannot_withdraw_the_request_of_another(
    agent: str,
    keyless: bool,  # noqa: FBT001
) -> None:
    queue = QueueStory()
    request_id = queue.asks(0).request_id

    assert withdraws(queue, request_id, agent, keyless=keyless)["cause"] == "malformed"
    assert withdraws(queue, "req_unknown", agent, keyless=keyless)["cause"] == "malformed"
    assert queue.request(request_id).pending


def test_an_agent_cannot_withdraw_the_request_to_end_its_pause() -> None:
    queue = QueueStory()
    queue.happens(
        Paused(at=at(0), t=0.0, seq=1, agent="code", source="anomaly", by="safetyd", reason="loop")
    )
    (request,) = queue.engine.approvals.pending("code")

    assert withdraws(queue, request.id)["cause"] == "malformed"
    assert queue.request(request.id).pending


def test_a_request_of_several_proposals_is_not_withdrawn() -> None:
    queue = QueueStory()
    request_id = queue.asks(0, "p1").request_id
    queue.asks(1, "p2")

    assert withdraws(queue, request_id) == {"queued": True, "request_id": request_id}


@pytest.mark.parametrize(
    ("end", "told"),
    [(approves, {"approved": True, "message": "go"}), (denies, {"cause": "human_denied"})],
)
def test_an_answered_request_keeps_its_answer(
    end: Callable[[QueueStory, str | None], None], told: dict[str, object]
) -> None:
    queue = QueueStory()
    request_id = queue.asks(0).request_id
    end(queue, request_id)

    assert told.items() <= withdraws(queue, request_id).items()
