"""No approval, request or grant lasts longer because the wall clock was set back."""

from typing import Any

import msgspec
import pytest

from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.core.approvals.request_deadline import MAX_RISKY_S
from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.request_events import Deferred, Expired, GrantEnded, Lapsed
from safetyd.core.policy import Policy
from tests.core.approvals.grant_samples import granted
from tests.core.approvals.queue_story import QueueStory, push
from tests.story import at

SHORT = Policy(approvals=ApprovalsConfig(approved_valid_minutes=0.1))  # six seconds
BACK = [-1.0, -4.0, -60.0, -3600.0, -86_400.0]


def by_steady(t: float, ahead: float, event: Any) -> Any:
    """Set both times of an event: steady time, and wall time that is ahead."""
    event.at, event.t = at(t + ahead), t
    return event


def tick(t: float, ahead: float) -> Ticked:
    return Ticked(at=at(t + ahead), t=t)


def stepped(t: float, seconds: float) -> ClockStepped:
    return ClockStepped(at=at(t + seconds), t=t, seconds=seconds)


def pushed(t: float, ahead: float, id_: str) -> Proposed:
    return by_steady(t, ahead, push(t, id_))  # type: ignore[no-any-return]


def of(kind: type[Event], events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("back", BACK)
def test_an_approval_is_good_for_its_time_by_the_steady_clock(back: float, known: bool) -> None:  # noqa: FBT001
    for second, good in ((6.9, True), (7.0, False)):
        queue = QueueStory(SHORT)
        asked = queue.asks(0)
        queue.answers(1, asked.request_id)
        if known:
            queue.happens(stepped(2, back))

        decision = queue.proposes(pushed(second, back, "p2"))

        assert decision.allowed is good


@pytest.mark.parametrize("back", BACK[2:])
def test_an_approval_lapses_and_a_question_expires_in_time(back: float) -> None:
    queue = QueueStory(SHORT)
    approved, asked = queue.asks(0, "p1"), queue.asks(0, "p2", text="else", timeout_s=7.0)
    queue.answers(1, approved.request_id)
    queue.happens(stepped(2, back))

    early = queue.happens(tick(6.9, back))
    assert of(Lapsed, early) == of(Expired, early) == []
    events = queue.happens(tick(7.0, back))

    assert len(of(Lapsed, events)) == len(of(Expired, events)) == 1
    assert queue.request(asked.request_id).state == "expired"
    assert queue.replayed().approvals.save()() == queue.engine.approvals.save()()


def test_a_question_is_over_by_the_steady_clock_before_a_tick_says_so() -> None:
    queue = QueueStory()
    request = queue.request(queue.asks(0, timeout_s=7.0).request_id)

    assert not request.over(at(6), 6.9)
    assert request.over(at(3), 7.0)
    assert request.over(at(7), 3.0)  # as after a restart, since nothing ran meanwhile


def test_people_see_the_deadline_as_the_clock_shows_it_now() -> None:
    queue = QueueStory()
    asked = queue.asks(0, timeout_s=600.0)

    queue.happens(stepped(60, -3600.0))

    assert queue.request(asked.request_id).deadline == at(600 - 3600)


def test_a_clock_that_was_wrong_for_a_while_takes_no_time_away() -> None:
    queue = QueueStory()
    asked = queue.asks(0, timeout_s=86_400.0)
    queue.happens(
        ClockStepped(at=at(60 + 3600), t=60.0, seconds=3600.0),
        ClockStepped(at=at(90), t=90.0, seconds=-3600.0),
    )

    assert queue.request(asked.request_id).deadline == at(86_400)


def test_what_is_put_off_is_longer_by_both_clocks() -> None:
    queue = QueueStory()
    asked, long = queue.asks(0, timeout_s=600.0), queue.asks(0, "p2", text="else", timeout_s=0.0)
    for decision in (asked, long):
        ref = decision.request_id or ""
        queue.happens(Deferred(at=at(60), t=60.0, request_id=ref, by="bob", until=at(360)))

    assert queue.request(asked.request_id).ends_t == 600 + 300
    assert queue.request(long.request_id).ends_t == MAX_RISKY_S + 300


def test_a_request_of_an_older_checkpoint_ends_by_the_wall_clock() -> None:
    queue = QueueStory()
    asked = queue.asks(0, timeout_s=600.0)
    queue.engine.approvals.put(
        msgspec.structs.replace(queue.request(asked.request_id), ends_t=None)
    )
    engine = Engine.restore(queue.engine.save()())
    engine.handle(Deferred(at=at(0), t=0.0, request_id=asked.request_id or "", by="b", until=at(9)))
    engine.handle(stepped(60, -10.0))

    (request,) = engine.approvals.pending()

    assert (request.deadline, request.ends_t) == (at(609), None)


@pytest.mark.parametrize("back", BACK)
def test_a_grant_lasts_for_its_time_by_the_steady_clock(back: float) -> None:
    queue = QueueStory()
    queue.happens(granted(0, type="push", until=at(600)), stepped(2, back))

    assert queue.proposes(pushed(599.9, back, "p1")).allowed
    assert not queue.proposes(pushed(600.0, back, "p2")).allowed
    assert of(GrantEnded, queue.happens(tick(599.9, back))) == []
    assert len(of(GrantEnded, queue.happens(tick(600.0, back)))) == 1
    assert queue.replayed().grants.save()() == queue.engine.grants.save()()


def test_a_grant_of_an_older_checkpoint_ends_by_the_wall_clock() -> None:
    queue = QueueStory()
    queue.happens(granted(0, type="push", until=at(600)))
    queue.engine.grants.live()[0].ends_t = None

    queue.happens(stepped(2, -60.0))

    assert queue.proposes(pushed(650.0, -60.0, "p1")).allowed
    assert not queue.proposes(pushed(660.0, -60.0, "p2")).allowed


def test_a_clock_that_is_put_forward_makes_nothing_last_longer() -> None:
    queue = QueueStory(SHORT)
    asked = queue.asks(0)
    queue.answers(1, asked.request_id)
    queue.happens(granted(1, agent="ops", type="push", until=at(600)))

    queue.happens(ClockStepped(at=at(2 + 3600), t=2.0, seconds=3600.0))

    assert not queue.proposes(pushed(3, 3600.0, "p2")).allowed
    assert not queue.proposes(by_steady(3, 3600.0, push(3, "p3", "ops"))).allowed
