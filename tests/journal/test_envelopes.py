from collections.abc import Callable
from typing import NoReturn

import msgspec
import pytest

from safetyd.agents.intake import Intake
from safetyd.agents.pricing import PricesConfig, price_list
from safetyd.agents.proposal_envelope import ProposalEnvelope
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Moment
from safetyd.core.messages.proposal import Proposal
from safetyd.core.policy import Policy
from safetyd.journal.commit_loop import put
from safetyd.journal.mailbox import (
    CommandEnvelope,
    Envelope,
    EventEnvelope,
    InquiryEnvelope,
    QuestionEnvelope,
    Slices,
)
from safetyd.operators.handlers import encoded
from tests.captured_connection import REPLY, CapturedPublisher, never_fails
from tests.story import stop

MOMENT = Clock().now()


def proposal_envelope(sent: list[tuple[ProposalEnvelope, bool]]) -> ProposalEnvelope:
    return ProposalEnvelope(
        "code",
        Proposal(type="read_file", id="p1"),
        "sha256:d1",
        REPLY,
        CapturedPublisher().publisher,
        lambda envelope, late: sent.append((envelope, late)),
        prices=price_list(PricesConfig()),
        intake=Intake(0),
        keyless=True,
        size=40,
    )


def test_proposal_is_decided_at_the_moment_its_envelope_is_opened() -> None:
    envelope = proposal_envelope([])

    (decided,) = put(Engine(Policy()), envelope, MOMENT)

    assert isinstance(decided, Decided)
    assert (decided.at, decided.t, decided.keyless) == (MOMENT.at, MOMENT.t, True)
    assert envelope.decision is not None
    assert envelope.decision.seq == decided.seq


@pytest.mark.parametrize("late", [True, False])
def test_whoever_sends_the_answer_hears_whether_it_is_late(late: bool) -> None:  # noqa: FBT001
    sent: list[tuple[ProposalEnvelope, bool]] = []
    envelope = proposal_envelope(sent)

    envelope.deliver(late=late)

    assert sent == [(envelope, late)]


def test_event_is_put_to_the_engine_and_told_of_afterwards() -> None:
    told: list[str] = []
    envelope = EventEnvelope(lambda _engine, _moment: stop(0), lambda: told.append("told"))

    events = put(Engine(Policy()), envelope, MOMENT)
    before = list(told)
    envelope.deliver(late=True)

    assert [event.seq for event in events] == [1, 2]
    assert (before, told) == ([], ["told"])


def test_envelope_without_an_event_writes_nothing() -> None:
    engine = Engine(Policy())

    assert EventEnvelope(lambda _engine, _moment: None, lambda: None).open(engine, MOMENT) == ()
    assert engine.seq == 0


def test_question_is_answered_with_the_state_at_its_turn() -> None:
    engine, told = Engine(Policy()), list[object]()
    envelope = QuestionEnvelope(_seq, told.append, never_fails)
    engine.handle(stop(0))

    events = envelope.open(engine, MOMENT)
    engine.handle(stop(1, epoch=2))
    envelope.deliver(late=True)

    assert events == ()
    assert told == [2]


def _seq(engine: EngineState, _moment: Moment) -> int:
    return engine.seq


class Times(msgspec.Struct):
    times: tuple[float, ...]


def three_slices(_engine: EngineState, moment: Moment) -> Slices:
    times = [moment.t]
    times.append((yield).t)
    times.append((yield).t)
    return Times(times=tuple(times))


def test_inquiry_is_answered_slice_by_slice_each_at_its_own_time() -> None:
    told: list[bytes] = []
    spent: list[float] = []
    envelope = InquiryEnvelope(
        three_slices, encoded, lambda answer: told.append(bytes(answer)), never_fails, spent.append
    )

    done = []
    for t in (1.0, 2.0, 3.0):
        assert envelope.open(Engine(Policy()), Moment(MOMENT.at, t)) == ()
        done.append(envelope.done)
    envelope.deliver(late=True)

    assert done == [False, False, True]
    assert told == [b'{"times":[1.0,2.0,3.0]}']
    assert len(spent) == 3


def test_inquiry_without_slices_is_done_at_once() -> None:
    told: list[bytes] = []
    envelope = InquiryEnvelope(
        lambda engine, _moment: Times(times=(float(engine.seq),)),
        encoded,
        lambda answer: told.append(bytes(answer)),
        never_fails,
        lambda _seconds: None,
    )

    envelope.open(Engine(Policy()), MOMENT)
    envelope.deliver(late=False)

    assert envelope.done
    assert told == [b'{"times":[0.0]}']


def _breaks(_engine: EngineState, _moment: Moment) -> NoReturn:
    raise ZeroDivisionError


def _breaks_later(_engine: EngineState, _moment: Moment) -> Slices:
    yield
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "envelope",
    [
        lambda told, failed: QuestionEnvelope(_breaks, told, failed),
        lambda told, failed: CommandEnvelope(_breaks, told, failed),
        lambda told, failed: InquiryEnvelope(_breaks, encoded, told, failed, lambda _: None),
        lambda told, failed: InquiryEnvelope(_breaks_later, encoded, told, failed, lambda _: None),
    ],
    ids=["question", "command", "inquiry", "second slice"],
)
def test_an_error_is_logged_and_its_sender_hears_that_it_failed(
    envelope: Callable[[Callable[[object], None], Callable[[], None]], Envelope],
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[object] = []
    opened, engine = envelope(heard.append, lambda: heard.append("failed")), Engine(Policy())

    while not (isinstance(opened, InquiryEnvelope) and opened.done):
        assert opened.open(engine, MOMENT) == ()
        if not isinstance(opened, InquiryEnvelope):
            break
    opened.deliver(late=False)

    assert heard == ["failed"]
    assert "ZeroDivisionError" in caplog.text
