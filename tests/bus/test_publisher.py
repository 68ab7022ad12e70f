import msgspec
import pytest

from safetyd.bus.publisher import MAX_ANSWER_BYTES, Publisher
from safetyd.bus.subjects import Subjects
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity
from tests.captured_connection import REPLY, CapturedConnection, CapturedPublisher
from tests.servers import until

DECISION = Decision(id="p1", agent="code", decision=Severity.BLOCK)
CHOSEN_REPLIES = [
    b"",
    b"_INBOX.agent.ops.1",
    b"safety.v1.control.local",
    b"safety.v1.decision.ops.p1",
    b"safety.v1.journal.0",
    b"$JS.API.STREAM.DELETE.SAFETY_JOURNAL",
    b"_R_",
    b"x._R_.1",
]


def test_decision_is_published_and_sent_as_a_reply() -> None:
    captured = CapturedPublisher()

    captured.publisher.decide(REPLY, DECISION)

    published, answered = captured.said()
    assert published.subject == "safety.v1.decision.code.p1"
    assert answered.subject == REPLY.decode()
    assert published.fields == answered.fields
    assert msgspec.convert(answered.fields, Decision) == DECISION


def test_anonymous_agents_have_separate_decision_subjects() -> None:
    captured = CapturedPublisher(keyless=True)

    captured.publisher.decide(b"", DECISION)

    assert [said.subject for said in captured.said()] == ["safety.v1.open.decision.code.p1"]


@pytest.mark.parametrize("reply", CHOSEN_REPLIES)
async def test_reply_subject_chosen_by_a_sender_is_not_used(reply: bytes) -> None:
    captured = CapturedPublisher()

    captured.publisher.answer(reply, {"ok": True})
    captured.publisher.decide(reply, DECISION)

    assert [said.subject for said in captured.said()] == ["safety.v1.decision.code.p1"]


async def test_messages_of_one_step_are_sent_together_after_it() -> None:
    wire = CapturedConnection()
    publisher = Publisher(wire, Subjects(), keyless=False)

    publisher.tell("safety.v1.state.mode", {"mode": "production"})
    publisher.answer(REPLY, {"ok": True})
    at_once = wire.said()
    await until(lambda: wire._sent)

    assert at_once == []
    assert [said.subject for said in wire.said()] == ["safety.v1.state.mode", REPLY.decode()]


def test_publisher_without_messages_sends_nothing() -> None:
    assert CapturedPublisher().said() == []


async def test_answer_too_large_for_the_server_becomes_an_error() -> None:
    captured = CapturedPublisher()

    captured.publisher.answer(REPLY, {"lines": "x" * MAX_ANSWER_BYTES})

    answer = captured.answer()
    assert (answer["ok"], answer["code"]) == (False, "too_large")
    assert f"the limit is {MAX_ANSWER_BYTES}" in answer["error"]


def test_muted_publisher_drops_messages() -> None:
    muted = [True]
    captured = CapturedPublisher(muted=lambda: muted[0])
    captured.publisher.decide(REPLY, DECISION)
    first = captured.said()

    muted[0] = False

    assert first == captured.said() == []
