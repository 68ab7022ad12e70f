"""When somebody who may answer a request can be notified."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.approvals.reachability import PRESENT_S, Waking, reachable_from
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.notification_events import Due, Told
from safetyd.core.messages.decision import Decision
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig, quiet_until
from safetyd.core.rota import Rota, RotaPolicy, WeeklyShift
from tests.core.approvals.queue_story import QueueStory, push
from tests.core.approvals.test_deadlines import hours as quiet_hours
from tests.core.approvals.test_deadlines import near, times
from tests.story import at, tick

HOUR_S = 3600.0
MIDNIGHT = 12 * HOUR_S
SEVEN = at(19 * HOUR_S)  # the end of the night
NEVER = QuietHours(start="00:00", end="00:00")
ALICE = Recipient(name="alice", channels=("email",))  # quiet from 23:00 to 07:00 in UTC
BOB = Recipient(name="bob", channels=("sms",), quiet=QuietHours(start="22:00", end="05:00"))


def story(*recipients: Recipient, rota: RotaPolicy | None = None, **telling: Any) -> QueueStory:
    channels: Any = {"email": "email", "sms": "sms"}
    config = TellingConfig(recipients=recipients, channels=channels, **telling)
    return QueueStory(Policy(telling=config, rota=rota or RotaPolicy()))


def asked(
    *recipients: Recipient,
    t: float = MIDNIGHT,
    rota: RotaPolicy | None = None,
    telling: dict[str, Any] | None = None,
    **fields: Any,
) -> Decision:
    return story(*recipients, rota=rota, **telling or {}).asks(t, **fields)


def test_by_day_somebody_is_reachable_at_once() -> None:
    decision = asked(ALICE, t=0)

    assert decision.reachable_from is msgspec.UNSET
    assert b"reachable_from" not in msgspec.json.encode(decision)


def test_at_night_nobody_is_until_the_first_quiet_hours_end() -> None:
    assert asked(ALICE).reachable_from == SEVEN
    assert asked(ALICE, BOB).reachable_from == at(17 * HOUR_S)
    assert asked(ALICE, BOB, t=10.5 * HOUR_S).reachable_from is msgspec.UNSET  # alice is awake


def test_only_people_who_are_notified_of_the_agent_count() -> None:
    web = msgspec.structs.replace(BOB, agents=("web-*",))
    mute = msgspec.structs.replace(BOB, channels=())

    assert asked(ALICE, web, mute).reachable_from == SEVEN
    assert asked(web, agent="web-1").reachable_from == at(17 * HOUR_S)


def test_without_recipients_nothing_is_said() -> None:
    assert asked().reachable_from is msgspec.UNSET
    assert asked(msgspec.structs.replace(ALICE, quiet=NEVER)).reachable_from is msgspec.UNSET


def test_the_reason_says_so_if_nobody_is_reachable_before_the_deadline() -> None:
    words = (
        "Nobody who may answer can be notified before 02 Mar 07:00Z, and the request expires at "
        "02 Mar 01:00Z"
    )

    assert asked(ALICE, wait=True).reason.endswith(words)
    assert "Nobody" not in asked(ALICE, wait=True, timeout_s=8 * HOUR_S).reason
    assert "Nobody" not in asked(ALICE).reason


def test_an_urgent_request_wakes_people() -> None:
    assert asked(ALICE, urgency="high").reachable_from is msgspec.UNSET
    asleep = {"quiet_bypass": "none"}
    assert asked(ALICE, urgency="high", telling=asleep).reachable_from == SEVEN
    # It is urgent for safetyd, but the agent did not say so.
    raised = asked(ALICE, cost_usd=500.0, type="purchase")
    assert raised.reachable_from == SEVEN


SHIFTS = RotaPolicy(
    shifts=(
        WeeklyShift(who="bob", from_="20:00", to="02:00"),
        WeeklyShift(who="alice", from_="03:00", to="06:00"),
    )
)


@pytest.mark.parametrize(
    ("people", "wake_for", "hour"),
    [
        ((ALICE, BOB), {}, None),  # bob is on duty
        ((ALICE,), {}, 2),  # from 02:00 to 03:00 nobody is on duty, so everybody may be woken
        ((ALICE,), {"alice": ("push",)}, None),
        ((ALICE,), {"alice": ("irreversible",)}, None),
        ((ALICE,), {"alice": ("all",)}, None),
        ((ALICE,), {"alice": ("deploy",), "bob": ("all",)}, 2),
    ],
)
def test_an_urgent_request_wakes_whoever_is_on_duty(
    people: tuple[Recipient, ...], wake_for: dict[str, tuple[str, ...]], hour: int | None
) -> None:
    rota = msgspec.structs.replace(SHIFTS, wake_for=wake_for)

    found = asked(*people, rota=rota, urgency="high").reachable_from

    assert found == (msgspec.UNSET if hour is None else at(MIDNIGHT + hour * HOUR_S))


def test_somebody_who_is_on_duty_later_may_be_woken_then() -> None:
    busy = RotaPolicy(
        shifts=(
            WeeklyShift(who="bob", from_="20:00", to="04:00"),
            WeeklyShift(who="alice", from_="04:00", to="20:00"),
        )
    )
    only_bob = RotaPolicy(shifts=(WeeklyShift(who="bob"),))

    assert asked(ALICE, rota=busy, urgency="high").reachable_from == at(16 * HOUR_S)
    assert asked(ALICE, rota=only_bob, urgency="high").reachable_from == SEVEN
    # Requests that are not urgent wake nobody.
    assert asked(ALICE, rota=busy).reachable_from == SEVEN


def test_an_operator_who_was_just_active_is_reachable() -> None:
    queue = story(ALICE)
    queue.happens(tick(MIDNIGHT - 30))  # the first start is not an operator
    assert queue.asks(MIDNIGHT - 20, "p1").reachable_from == SEVEN

    queue.happens(PersonSeen(at=at(MIDNIGHT), t=MIDNIGHT, by="alice", how="cli"))

    assert queue.asks(MIDNIGHT + 1, "p2").reachable_from is msgspec.UNSET
    assert queue.asks(MIDNIGHT + PRESENT_S, "p3").reachable_from == SEVEN


def test_a_waiting_agent_learns_that_somebody_has_an_unanswered_message() -> None:
    queue = story(ALICE)
    first = queue.asks(0, "p1", text="one", wait=True)
    sent = [event for event in queue.happens(tick(6)) if isinstance(event, Due)]
    (due,) = sent
    told = Told(at=at(7), t=7.0, delivery=due.delivery, channel=due.channel, state="accepted")
    queue.happens(told)

    second = queue.asks(20, "p2", text="two", wait=True)
    urgent = queue.asks(21, "p3", text="three", wait=True, urgency="high")
    brief = queue.asks(22, "p4", text="four", wait=True, timeout_s=300)
    endless = queue.asks(22, "p7", text="seven", wait=True, timeout_s=0)
    calm = queue.asks(23, "p5", text="five")
    queue.answers(30, first.request_id)
    answered = queue.asks(40, "p6", text="six", wait=True)

    assert second.reachable_from == at(20 + 14 * 60)
    assert not second.answerable_within(240)
    assert endless.reachable_from == at(22 + 14 * 60)
    assert brief.answerable_within(300)
    for other in (first, urgent, calm, answered):
        assert other.reachable_from is msgspec.UNSET


def test_a_coding_agent_does_not_wait_so_its_request_outlasts_the_night() -> None:
    queue = story(ALICE)
    hook = msgspec.structs.replace(push(MIDNIGHT, wait=True), host="claude")

    decision = queue.proposes(hook)

    assert decision.reachable_from == SEVEN
    assert decision.expires_at == at(MIDNIGHT) + timedelta(hours=24 + 7)
    assert "Nobody" not in decision.reason
    assert queue.request(decision.request_id).rule == "queued"
    by_day = msgspec.structs.replace(push(86_400, "p2", text="else", wait=True), host="claude")
    assert queue.proposes(by_day).expires_at == at(86_400 + HOUR_S)


def test_a_joined_request_says_it_for_each_proposal() -> None:
    queue = story(ALICE)
    first = queue.asks(10.9 * HOUR_S, "p1", wait=True)  # at 22:54
    assert first.reachable_from is msgspec.UNSET

    second = queue.asks(11.5 * HOUR_S, "p2", wait=True)

    assert second.request_id == first.request_id
    assert second.reachable_from == SEVEN
    assert second.expires_at == at(12.5 * HOUR_S)


def test_a_repeated_proposal_says_it_only_until_that_time() -> None:
    queue = story(ALICE)
    queue.asks(MIDNIGHT, "p1")

    assert queue.asks(MIDNIGHT + HOUR_S, "p1").reachable_from == SEVEN
    assert queue.asks(19 * HOUR_S, "p1").reachable_from is msgspec.UNSET


def test_a_decision_says_whether_somebody_is_reachable_in_time() -> None:
    decision = asked(ALICE)

    assert decision.answerable_within(8 * HOUR_S)
    assert not decision.answerable_within(7 * HOUR_S)
    assert msgspec.structs.replace(decision, at=None).answerable_within(0)
    assert asked(ALICE, t=0).answerable_within(0)


def test_a_final_decision_does_not_say_it() -> None:
    queue = story(ALICE)
    request_id = queue.asks(MIDNIGHT, wait=True).request_id

    final = queue.answers(MIDNIGHT + 9, request_id, "denied")

    assert final.reachable_from is msgspec.UNSET
    assert "Nobody" not in final.reason


@given(near | times, st.lists(quiet_hours, min_size=1, max_size=3))
def test_somebody_is_awake_at_the_returned_time_and_nobody_before(
    start: datetime, everybody: list[QuietHours]
) -> None:
    people = [
        Recipient(name=f"p{n}", channels=("email",), quiet=quiet)
        for n, quiet in enumerate(everybody)
    ]

    found = reachable_from(people, start)

    def awake(when: datetime) -> bool:
        return any(quiet_until(quiet, when) is None for quiet in everybody)

    assert awake(found or start)
    assert found is None or not awake(start)
    assert found is None or not awake(found - timedelta(microseconds=1))
    # Whoever may be woken is reachable no later.
    rota = Rota(msgspec.structs.replace(SHIFTS, timezone="Europe/Berlin"))
    woken = reachable_from(people, start, Waking(rota))
    assert (woken or start) <= (found or start)
