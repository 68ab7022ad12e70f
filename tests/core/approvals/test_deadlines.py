"""Deadlines of requests: how long they stay pending, by which rule, and after a renewal."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.action_types import Kind, Kinds
from safetyd.core.approvals.request import ApprovalsConfig, Request
from safetyd.core.approvals.request_deadline import (
    MAX_ASKED_S,
    MAX_RISKY_S,
    RequestDeadline,
    closing,
    deadline_of,
    renewed,
)
from safetyd.core.events.decision_events import DeadlineRule
from safetyd.core.events.request_events import Deferred, Expired
from safetyd.core.messages.proposal import Proposal, Reversibility, Urgency
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig, quiet_until
from tests.core.approvals.queue_story import QueueStory, push
from tests.story import at, tick

HOUR_S = 3600.0
DAY_S = 86_400.0
DAY = timedelta(days=1)
NIGHT = timedelta(hours=8)
ALICE = Recipient(name="alice", channels=("email",))  # quiet from 23:00 to 07:00 in UTC
NEVER = QuietHours(start="00:00", end="00:00")
SLEEPLESS = Recipient(name="carol", channels=("email",), quiet=NEVER)
KINDS = Kinds({}, "strict")


def story(*recipients: Recipient, config: ApprovalsConfig | None = None) -> QueueStory:
    telling = TellingConfig(recipients=recipients, channels={"email": "email"})
    return QueueStory(Policy(approvals=config or ApprovalsConfig(), telling=telling))


def asked(*recipients: Recipient, config: ApprovalsConfig | None = None, **fields) -> Request:
    """Return a request that was made at noon."""
    queue = story(*recipients, config=config)
    return queue.request(queue.asks(0, **fields).request_id)


def deadline(*recipients: Recipient, **fields) -> datetime | None:
    return asked(*recipients, **fields).deadline


def test_without_recipients_quiet_hours_count() -> None:
    assert deadline() == at(0) + DAY
    assert deadline(Recipient(name="nobody", channels=())) == at(0) + DAY


@pytest.mark.req("S3.38")
def test_a_queued_request_has_a_day_and_one_night() -> None:
    assert deadline(ALICE) == at(0) + DAY + NIGHT
    assert asked(ALICE).rule == "queued"


def test_only_one_night_is_added() -> None:
    week = ApprovalsConfig(queued_timeout_minutes=7 * 1440)

    assert deadline(ALICE, config=week) == at(0) + 7 * DAY + NIGHT


def test_of_a_night_that_has_begun_only_the_rest_is_added() -> None:
    queue = story(ALICE)

    request = queue.request(queue.asks(16 * HOUR_S).request_id)  # at 04:00

    assert request.deadline == at(16 * HOUR_S) + DAY + timedelta(hours=3)


def test_a_deadline_before_the_night_is_not_moved() -> None:
    config = ApprovalsConfig(queued_timeout_minutes=10 * 60)

    assert deadline(ALICE, config=config) == at(10 * HOUR_S)


def test_a_waiting_agent_has_an_hour_including_quiet_hours() -> None:
    bob = Recipient(name="bob", channels=("email",), quiet=QuietHours(start="12:30", end="20:00"))

    assert deadline(bob, wait=True) == at(HOUR_S)
    assert asked(bob, wait=True).rule == "waiting"


def test_the_agents_own_time_includes_quiet_hours() -> None:
    assert deadline(ALICE, timeout_s=DAY_S) == at(DAY_S)
    assert asked(ALICE, timeout_s=DAY_S).rule == "stated"


@pytest.mark.parametrize(
    ("minutes", "waiting", "hours"),
    [(1440.0, 60.0, 6.0), (120.0, 60.0, 1.0), (30.0, 60.0, 0.5), (1440.0, 0.0, 24.0)],
)
def test_an_urgent_request_has_a_quarter_but_not_less_than_a_waiting_one(
    minutes: float, waiting: float, hours: float
) -> None:
    config = ApprovalsConfig(queued_timeout_minutes=minutes, timeout_minutes=waiting)

    request = asked(config=config, urgency="high")

    assert (request.deadline, request.rule) == (at(hours * HOUR_S), "urgent")


def test_an_urgent_request_outlasts_the_night_too() -> None:
    queue = story(ALICE)

    request = queue.request(queue.asks(11 * HOUR_S, urgency="high").request_id)  # at 23:00

    assert request.deadline == at(11 * HOUR_S) + NIGHT + timedelta(hours=6)


@pytest.mark.parametrize(
    ("type_", "most_s"),
    [("start_service", MAX_ASKED_S), ("push", MAX_RISKY_S), ("start_oven", MAX_RISKY_S)],
)
@pytest.mark.parametrize(
    "fields", [{}, {"wait": True}, {"timeout_s": 0.0}, {"timeout_s": 90 * DAY_S}]
)
def test_the_longest_time_depends_on_whether_the_action_can_be_undone(
    type_: str, most_s: float, fields: dict[str, object]
) -> None:
    off = ApprovalsConfig(queued_timeout_minutes=0, timeout_minutes=0)

    request = asked(ALICE, config=off, type=type_, **fields)

    assert (request.deadline, request.rule) == (at(most_s), "longest")


def test_quiet_hours_count_unless_everybody_has_them() -> None:
    others = Recipient(name="bob", channels=("email",), agents=("web-*",), quiet=NEVER)
    early = Recipient(
        name="dave", channels=("email",), quiet=QuietHours(start="21:00", end="05:00")
    )

    assert deadline(others, ALICE, SLEEPLESS) == at(0) + DAY
    assert deadline(others, ALICE) == at(0) + DAY + NIGHT
    assert deadline(others, ALICE, agent="web-1") == at(0) + DAY
    assert deadline(ALICE, early) == at(0) + DAY + timedelta(hours=6)  # from 23:00 to 05:00


def test_a_deadline_stays_when_quiet_hours_change() -> None:
    queue = QueueStory(Policy(telling=TellingConfig(recipients=(ALICE,))))
    asked_for = queue.asks(0)
    before = queue.request(asked_for.request_id).deadline

    queue.engine._reconfigure(Policy())

    assert queue.request(asked_for.request_id).deadline == before


def test_a_deadline_is_the_same_after_a_replay() -> None:
    queue = QueueStory(Policy(telling=TellingConfig(recipients=(ALICE,))))
    asked_for = queue.asks(0)

    replayed = queue.replayed().approvals.find(asked_for.request_id or "")

    assert replayed == queue.request(asked_for.request_id)


def test_a_repeated_proposal_renews_the_deadline() -> None:
    queue = story()
    first = queue.asks(0, "p1")

    again = queue.asks(20 * HOUR_S, "p2")

    assert again.request_id == first.request_id
    assert again.expires_at == at(20 * HOUR_S) + DAY
    assert queue.request(first.request_id).deadline == at(20 * HOUR_S) + DAY
    # The first proposal, sent again under the same id, gets the new deadline too.
    assert queue.proposes(push(21 * HOUR_S, "p1")).expires_at == at(20 * HOUR_S) + DAY


def test_a_loop_renews_a_request_for_at_most_a_week() -> None:
    queue = story(ALICE)
    first = queue.asks(0, "p0")
    closed: list[Expired] = []

    for n in range(1, 8 * 24):
        caused = queue.happens(tick(n * HOUR_S - 1))
        closed += (event for event in caused if isinstance(event, Expired))
        queue.asks(n * HOUR_S, f"p{n}")

    assert [event.request_ids for event in closed] == [(first.request_id,)]
    assert at(MAX_RISKY_S) <= closed[0].at < at(MAX_RISKY_S + HOUR_S)
    assert "renews" in closed[0].reasons[0]
    # The next proposal opens a new request.
    (pending,) = queue.engine.approvals.pending("code")
    assert pending.asked.at > at(MAX_RISKY_S)


def test_a_renewal_neither_shortens_a_request_nor_gives_one_without_a_deadline_any() -> None:
    queue = story()
    first = queue.asks(0, timeout_s=3 * DAY_S)

    queue.asks(60, "p2", timeout_s=60.0)

    request = queue.request(first.request_id)
    assert (request.deadline, request.rule) == (at(3 * DAY_S), "stated")
    queue.engine.approvals.put(msgspec.structs.replace(request, deadline=None, ends_t=None))
    assert queue.asks(90, "p3").expires_at is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "within 24h, the time for an agent that does not wait (approvals.queued_timeout_min"),
        ({"wait": True}, "within 1h, the time for an agent that waits (approvals.timeout_minutes)"),
        ({"timeout_s": 5400.0}, "within 1h 30m, the time that the agent stated (timeout_s)"),
        ({"urgency": "high"}, "within 6h, the time for an urgent request"),
        ({"timeout_s": 0.0}, "within 168h, the longest time for such an action"),
    ],
)
def test_the_closing_names_its_rule_and_how_to_ask_again(
    fields: dict[str, Any], words: str
) -> None:
    queue = story()
    request = queue.request(queue.asks(0, **fields).request_id)
    assert request.deadline is not None

    (expired,) = (
        event
        for event in queue.happens(tick((request.deadline - at(0)).total_seconds()))
        if isinstance(event, Expired)
    )

    for reason in (*expired.reasons, queue.final("p1").reason):
        assert reason.startswith(f"nobody answered {words}")
        assert reason.endswith("To ask again, propose the same action again")
    ended = queue.request(request.id)
    assert ended.answer is not None
    assert ended.answer.words == expired.reasons[0]


def test_the_closing_of_a_deferred_request_says_so() -> None:
    queue = story()
    ref = queue.asks(0, wait=True).request_id or ""
    queue.happens(Deferred(at=at(60), t=60, request_id=ref, by="alice", until=at(3660)))

    queue.happens(tick(7200))

    assert "within 2h, " in queue.final("p1").reason
    assert ", which an operator extended." in queue.final("p1").reason


def test_a_closing_of_an_older_journal_names_no_rule() -> None:
    queue = story()
    ref = queue.asks(0).request_id or ""

    queue.happens(Expired(at=at(9), t=9.0, request_ids=(ref,)))

    assert queue.final("p1").reason == "nobody answered in time"
    assert closing("", 60.0, deferred=True) == "nobody answered in time"


def test_every_rule_has_words() -> None:
    said = {closing(rule, 60.0, deferred=False) for rule in get_args(DeadlineRule)}

    assert len(said) == len(get_args(DeadlineRule))


ZONES = ("America/New_York", "Australia/Lord_Howe", "Europe/Berlin", "Pacific/Apia", "UTC")
CLOCKS = [f"{hour:02}:{minute:02}" for hour in range(24) for minute in (0, 10, 30)]
# Days around clock changes of these zones, and all others of the year.
times = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
changes = st.sampled_from(
    [
        datetime(2026, month, day, tzinfo=UTC)
        for month, day in ((3, 8), (3, 29), (4, 5), (10, 4), (10, 25), (11, 1))
    ]
)
near = st.builds(
    lambda day, minutes: day + timedelta(minutes=minutes), changes, st.integers(-2880, 2880)
)
hours = st.builds(
    QuietHours,
    start=st.sampled_from(CLOCKS),
    end=st.sampled_from(CLOCKS),
    days=st.sampled_from([(), ("fri",), ("sat", "sun"), ("mon", "tue", "wed", "thu", "fri")]),
    timezone=st.sampled_from(ZONES),
)


def kind(reversibility: Reversibility) -> Kind:
    return msgspec.structs.replace(KINDS.named("push"), reversibility=reversibility)


@given(
    near | times,
    st.lists(hours, max_size=3),
    st.integers(1, 4 * 1440),
    st.sampled_from(["low", "normal", "high"]),
)
def test_a_deadline_adds_at_most_one_time_at_which_all_are_quiet(
    start: datetime, everybody: list[QuietHours], minutes: int, urgency: Urgency
) -> None:
    terms = ApprovalsConfig(queued_timeout_minutes=minutes, timeout_minutes=1).terms
    proposal = Proposal(type="push", id="p", urgency=urgency)

    found = deadline_of(proposal, kind("irreversible"), start, terms, everybody, waits=False)

    share = 4 if urgency == "high" else 1
    plain = timedelta(minutes=max(minutes / share, 1))
    added = found.at - start - plain
    assert timedelta() <= added <= timedelta(hours=25)
    step = timedelta(minutes=7)
    found_quiet = (start + n * step for n in range(int(plain / step)))
    begun = next((when for when in found_quiet if all(quiet_ends(everybody, when))), None)
    if begun is not None and everybody:
        # The first such time, of which up to seven minutes may lie before the step.
        rest = min(end for end in quiet_ends(everybody, begun) if end) - begun
        assert timedelta() <= added - rest <= step
    if not everybody:
        assert added == timedelta()


def quiet_ends(everybody: list[QuietHours], when: datetime) -> list[datetime | None]:
    return [quiet_until(each, when) for each in everybody]


@given(
    near | times,
    st.none() | st.floats(0, 90 * DAY_S),
    st.booleans(),
    st.sampled_from(["low", "normal", "high"]),
    st.lists(hours, max_size=2),
    st.integers(0, 20_160),
)
def test_what_may_be_irreversible_is_pending_no_longer_than_what_can_be_undone(
    start: datetime,
    timeout_s: float | None,
    wait: bool,  # noqa: FBT001
    urgency: Urgency,
    everybody: list[QuietHours],
    minutes: int,
) -> None:
    terms = ApprovalsConfig(queued_timeout_minutes=minutes, timeout_minutes=minutes).terms
    proposal = Proposal(type="push", id="p", timeout_s=timeout_s, wait=wait, urgency=urgency)

    def lasting(reversibility: Reversibility) -> timedelta:
        rated = kind(reversibility)
        return deadline_of(proposal, rated, start, terms, everybody, waits=wait).at - start

    assert timedelta() < lasting("irreversible") <= lasting("reversible")
    assert lasting("unknown") == lasting("irreversible")


@given(st.lists(st.tuples(st.floats(0, 2 * DAY_S), st.floats(1, 9 * DAY_S)), max_size=20))
def test_renewals_end_within_a_week_unless_the_first_proposal_stated_more(
    repeats: list[tuple[float, float]],
) -> None:
    now = 0.0
    first = known = RequestDeadline(at(DAY_S), "queued")
    for passed, wished in repeats:
        now += passed
        later = renewed(at(0), known, RequestDeadline(at(now + wished), "queued"))
        assert later.at >= known.at
        known = later

    assert first.at <= known.at <= at(MAX_RISKY_S)
    assert known.rule == ("renewed" if known.at == at(MAX_RISKY_S) else "queued")
