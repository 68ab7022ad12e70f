"""Messages are counted by recipient, hour and channel, and compared with what was read before."""

from typing import Any

import msgspec
import pytest

from safetyd.core.daily_report.day_numbers import DayNumbers, PersonNumbers
from safetyd.core.daily_report.day_report import ReportScope, report_of_numbers
from safetyd.core.events.decision_events import Asking
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.events.notification_events import Due, Item, ItemKind, Told
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.proposal import Urgency
from safetyd.core.messages.verdict import ASK, BLOCK, Verdict
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from tests.core.daily_report.day_events import (
    FIRST,
    HOUR,
    configured,
    decided,
    folded,
    happens,
    numbers,
)

ALICE = Recipient(name="alice", channels=("email", "sms"), quiet=QuietHours(timezone="UTC"))
TOLD = Policy(telling=TellingConfig(recipients=(ALICE,)))
NIGHT = 11.5 * HOUR  # half past eleven in the evening


def message(
    t: float,
    *refs: str,
    to: str = "alice",
    channel: str = "email",
    kind: ItemKind = "request",
    urgency: Urgency = "normal",
) -> tuple[Event, Event]:
    """Return a message that is due and arrives at once."""
    delivery = f"dlv_{to}_{channel}_{t}"
    items = tuple(Item(kind, ref) for ref in refs)
    said: dict[str, Any] = {"recipient": to, "channel": channel, "urgency": urgency}
    due = happens(Due, t, delivery=delivery, items=items, **said)
    return due, happens(Told, t, delivery=delivery, channel=channel, state="accepted")


def asked(t: float, ref: str, urgency: Urgency = "normal", **fields: Any) -> Event:
    verdicts = (Verdict("classify", ASK, "classify.high", "needs a person"),)
    asks = Asking(request_id=ref, action=b"k", urgency=urgency)
    return decided(t, f"p{ref}", decision=ASK, verdicts=verdicts, asks=asks, **fields)


def of_alice(*events: Event) -> PersonNumbers:
    return numbers(configured(0, TOLD), *events).people["alice"]


def test_messages_are_counted_by_channel_and_hour() -> None:
    found = of_alice(
        *message(1, "r1"), *message(2, "r2", channel="sms"), *message(3 * HOUR, "r3", "r4")
    )

    assert (found.messages, found.channels) == (3, {"email": 2, "sms": 1})
    assert (found.hours, found.worst_hour.value, found.entries) == ({12: 2, 15: 1}, 2, 4)


def test_an_hour_is_one_of_the_configured_zone() -> None:
    berlin = Policy(timezone="Europe/Berlin")
    found = numbers(configured(0, berlin), *message(1, "r1")).people["alice"]
    unconfigured = numbers(*message(1, "r1")).people["alice"]

    assert (found.hours, unconfigured.hours) == ({13: 1}, {12: 1})


def test_a_message_that_is_confirmed_later_counts_once() -> None:
    due, arrived = message(1, "r1")
    confirmed = msgspec.structs.replace(arrived, state="delivered")

    assert of_alice(due, arrived, confirmed).messages == 1


def test_a_message_about_which_nothing_is_known_is_no_message_to_anybody() -> None:
    _, arrived = message(1, "r1")

    assert numbers(configured(0, TOLD), arrived).people == {}


def test_the_busiest_hour_goes_on_over_midnight() -> None:
    late, early = 11.9 * HOUR, 12.1 * HOUR
    fold = folded(configured(0, TOLD), *message(late, "r1"), *message(early, "r2"))

    assert [day.people["alice"].worst_hour.value for day in fold.days.values()] == [1, 2]


def test_messages_in_quiet_hours_are_counted_and_those_that_could_wait() -> None:
    found = of_alice(*message(NIGHT, "r1", urgency="high"), *message(NIGHT + 1, "r2"))
    other = numbers(configured(0, TOLD), *message(NIGHT, "r1", to="bob")).people["bob"]

    assert (found.at_night, found.could_wait) == (2, 1)
    assert other.at_night == 0, "nobody knows when bob sleeps"


def test_the_same_request_again_within_four_hours_is_a_repeat() -> None:
    first, again, late = message(1, "r1"), message(HOUR, "r1", "r2"), message(9 * HOUR, "r1")

    found = of_alice(*first, *again, *late)

    assert (found.entries, found.repeats, found.echoes) == (4, 1, 0)


def test_an_urgent_request_may_be_repeated_after_five_minutes() -> None:
    urgent = asked(0, "r1", "high")

    found = of_alice(urgent, *message(1, "r1"), *message(60, "r1"), *message(600, "r1"))

    assert (found.entries, found.repeats) == (3, 1)


def test_alerts_of_one_cause_repeat_each_other() -> None:
    events: list[Event] = []
    for n, t in enumerate((1.0, 700.0)):
        said = {"rule": "anomaly.x", "message": "odd", "severity": "high", "agent": "code"}
        found = happens(AnomalyFound, t, seq=n + 10, **said)
        events += [found, *message(t + 1, f"note_{n + 10}", kind="alert")]

    assert of_alice(*events).repeats == 0, "a high anomaly is urgent"
    calm = [
        msgspec.structs.replace(one, severity="medium") if isinstance(one, AnomalyFound) else one
        for one in events
    ]
    assert of_alice(*calm).repeats == 1


def test_a_message_that_says_what_another_channel_said_is_an_echo() -> None:
    found = of_alice(
        *message(1, "r1"),
        *message(2, "r1", channel="sms"),
        *message(3, "r1", "r2", channel="sms"),
        *message(4),
    )

    assert (found.messages, found.repeats, found.echoes) == (4, 2, 1)


@pytest.mark.parametrize(("kind", "field"), [("reminder", "reminders"), ("summary", "summaries")])
def test_messages_of_one_kind_are_counted(kind: ItemKind, field: str) -> None:
    found = of_alice(*message(1, "r1", kind=kind), *message(2, "r2"), *message(3))

    assert getattr(found, f"only_{field}") == 1


def test_answers_are_counted_by_operator() -> None:
    answer = {"agent": "code", "id": "pr1", "answer": "approved", "by": "alice", "via": "cli"}
    found = of_alice(asked(0, "r1"), happens(Answered, 30.0, request_id="r1", **answer))

    assert (found.answers, found.took_ms) == (1, 30_000)


def test_what_is_denied_without_a_new_request_belongs_to_its_question() -> None:
    verdicts = (
        Verdict("classify", ASK, "classify.high", "needs a person"),
        Verdict("approvals", BLOCK, "approvals.denied", "alice denied the same action"),
    )
    again = decided(9, "again", decision=BLOCK, verdicts=verdicts)
    other = decided(10, "other", decision=BLOCK, verdicts=verdicts[:1])

    (question,) = numbers(asked(0, "r1"), again, other).questions.values()

    assert (question.asked, question.again) == (1, 1)


def test_the_report_shows_each_person_and_the_day_in_a_line() -> None:
    answer = {"agent": "code", "id": "pr1", "answer": "approved", "by": "carol", "via": "cli"}
    fold = folded(
        configured(0, TOLD),
        asked(0, "r1"),
        *message(1, "r1"),
        *message(2, "r1", channel="sms"),
        *message(NIGHT, "r2"),
        *message(3 * HOUR, "r3", to="bob"),
        happens(Answered, 3.5 * HOUR, request_id="r1", **answer),
    )

    made = report_of_numbers(fold.days, ReportScope(FIRST, FIRST, TOLD))
    part = made.messages

    assert dict(next(s.lines for s in made.sections if s.title == "Messages")) == {
        "Messages": "4, at most 2 to one person in an hour, 1 in quiet hours, "
        "1 of 4 entries repeated",
        "To alice": "3 (email 2, sms 1), at most 2 in an hour, 1 in quiet hours",
        "To bob": "1 (email 1)",
        "By carol": "1 answered in 3h 30m on average",
        "By hour": "12h 2, 15h 1, 23h 1",
        "In quiet hours but not urgent": "1",
    }
    assert [row.name for row in part.people] == ["alice", "bob", "carol"]
    assert (part.hours[12], part.hours[15], part.hours[23], sum(part.hours)) == (2, 1, 1, 4)
    assert part.people[2].average_s == 3.5 * HOUR


def test_a_day_without_messages_says_so() -> None:
    made = report_of_numbers({FIRST: DayNumbers(events=1)}, ReportScope(FIRST, FIRST, Policy()))

    (told,) = folded(configured(0, TOLD), *message(1, "r1")).days.values()
    quiet = report_of_numbers({FIRST: told}, ReportScope(FIRST, FIRST, TOLD))
    assert quiet.messages.says == "1, at most 1 to one person in an hour"
    assert made.messages.says == "none"
    assert tuple(made.messages.lines(str)) == (("Messages", "none"),)


def test_a_message_of_the_day_before_is_still_known() -> None:
    fold = folded(configured(0, TOLD), *message(12.0 * HOUR - 1, "r1"), *message(12 * HOUR, "r1"))

    assert [day.people["alice"].repeats for day in fold.days.values()] == [0, 1]
