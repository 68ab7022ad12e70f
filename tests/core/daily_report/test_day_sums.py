"""Days can be added: however they are cut, the sum is the whole."""

from collections.abc import Callable
from datetime import date, timedelta
from functools import reduce
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.daily_report.day_numbers import BudgetUse, DayNumbers
from safetyd.core.daily_report.report_fold import WEEK, ReportFold
from safetyd.core.events.decision_events import Asking, Overdue, Reported, Settled
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BudgetRaised, PersonSeen, SafeModeEntered
from safetyd.core.events.history_events import RollbackFailed, SnapshotMissed, SnapshotTaken
from safetyd.core.events.request_events import Answered, Cancelled, Expired, Released
from safetyd.core.messages.telemetry import Commit, Iteration
from safetyd.core.messages.verdict import ASK, Verdict
from safetyd.core.policy import Policy
from tests.core.daily_report.day_events import (
    HOUR,
    anomaly,
    blocked,
    configured,
    decided,
    due,
    happens,
    mark,
    not_told,
    told,
)
from tests.story import NOON, resume, stop

BERLIN = Policy(timezone="Europe/Berlin")
ASKS = (Verdict("classify", ASK, "classify.high", "needs a person"),)

Make = Callable[[float, int], Event]


def asked(t: float, n: int) -> Event:
    asks = Asking(request_id=f"r{n}", action=b"k", joins=n % 3 == 0)
    return decided(t, f"q{n}", decision=ASK, verdicts=ASKS, asks=asks, confidence=n / 10)


def answered(t: float, n: int) -> Event:
    answer = "approved" if n % 2 else "denied"
    said = {"agent": "code", "id": f"q{n}", "by": "alice", "via": "cli"}
    return happens(Answered, t, request_id=f"r{n}", answer=answer, **said)


# `n` is from 0 to 9: so ids of one event meet those of others, also on other days.
MAKES: tuple[Make, ...] = (
    lambda t, n: decided(t, f"p{n}", confidence=n / 10, cost_usd=n / 4),
    lambda t, n: decided(t, f"p{n}", type="dispatch", agent=f"a{n % 3}"),
    lambda t, n: blocked(t),
    asked,
    answered,
    lambda t, n: happens(Released, t, request_id=f"r{n}", agent="code", id=f"q{n}", waits=True),
    lambda t, n: happens(Expired, t, request_ids=(f"r{n}",)),
    lambda t, n: happens(Cancelled, t, request_id=f"r{n}", by="bob", via="cli"),
    lambda t, n: happens(Settled, t, agent="code", id=f"p{n}", ok=n % 4 > 0, cost_usd=n / 3),
    lambda t, n: happens(Settled, t, agent="code", id=f"p{n}", ok=n % 4 > 0),
    lambda t, n: happens(Overdue, t, agent="code", ids=(f"p{n}", f"q{n}")),
    lambda t, n: happens(Reported, t, agent="code", telemetry=Iteration()),
    lambda t, n: happens(Reported, t, agent="code", telemetry=Commit(ref="c")),
    lambda t, n: happens(PersonSeen, t, by="alice", how="ack"),
    lambda t, n: happens(BudgetRaised, t, scope="day", usd=5.0, by="alice", reason="more"),
    lambda t, n: stop(t, agent=None if n % 2 else "code"),
    lambda t, n: resume(t, agent=None if n % 2 else "code"),
    lambda t, n: happens(SafeModeEntered, t, by="safetyd", agent=f"a{n % 3}", reason="errors"),
    lambda t, n: anomaly("high" if n % 2 else "low", t, agent=f"a{n}"),
    lambda t, n: mark("warning", t=t),
    lambda t, n: due(f"d{n}", f"n{n % 4}", t=t),
    lambda t, n: told(f"d{n}", t),
    lambda t, n: not_told(f"d{n}", t=t),
    lambda t, n: happens(SnapshotTaken, t, day=f"2026-03-0{n}", files=1, size=1),
    lambda t, n: happens(SnapshotMissed, t, day=f"2026-03-0{n}", error="full"),
    lambda t, n: happens(RollbackFailed, t, project="web", commit="c1", error="no room"),
    lambda t, n: configured(t, BERLIN if n % 2 else Policy()),
)
steps = st.tuples(st.floats(0.0, 30.0), st.sampled_from(MAKES), st.integers(0, 9))
stories = st.lists(steps, min_size=1, max_size=60)


def story_of(drawn: list[tuple[float, Make, int]]) -> list[Event]:
    """Return events in order, each so many hours after the one before."""
    t, story = 0.0, list[Event]()
    for hours, make, n in drawn:
        t += hours * HOUR
        story.append(make(t, n))
    return story


def folded(story: list[Event], fold: ReportFold) -> dict[date, DayNumbers]:
    for event in story:
        fold.fold(event)
    return fold.days


@given(stories)
def test_the_sum_of_days_is_the_whole(drawn: list[tuple[float, Make, int]]) -> None:
    story = story_of(drawn)

    days = folded(story, ReportFold())
    whole = folded(story, ReportFold(day_of=lambda _shown: NOON.date()))[NOON.date()]

    assert reduce(add, (days[day] for day in sorted(days)), DayNumbers()) == whole


@given(stories, st.integers(0, 40))
def test_a_day_depends_on_the_week_before_it_and_on_nothing_else(
    drawn: list[tuple[float, Make, int]], number: int
) -> None:
    """However early the reading begins, and whatever comes later, the day is the same."""
    story = story_of(drawn)
    whole = ReportFold(seen=NOON - 2 * WEEK)
    days = folded(story, whole)
    day = sorted(days)[number % len(days)]
    begins = next(e.at for e in story if e.at.date() >= day - timedelta(days=1)) - timedelta(days=2)
    earlier = [event for event in story if event.at < begins - WEEK]
    zone = [event for event in earlier if isinstance(event, type(configured()))][-1:]
    near = [event for event in story if event not in earlier]
    seen = max(NOON - 2 * WEEK, begins - WEEK)

    assert folded([*zone, *near], ReportFold(seen=seen))[day] == days[day]


@given(st.lists(stories, min_size=3, max_size=3))
def test_sums_are_the_same_however_they_are_grouped(
    drawn: list[list[tuple[float, Make, int]]],
) -> None:
    one, two, three = (reduce(add, folded(story_of(each), ReportFold()).values()) for each in drawn)

    assert (one + two) + three == one + (two + three)
    assert one + DayNumbers() == DayNumbers() + one == one


def test_a_budget_whose_day_lies_in_two_is_as_it_stood_last() -> None:
    first, second = BudgetUse(5, 10), BudgetUse(1, 20)

    both = DayNumbers(budgets={"2026-03-01": first}) + DayNumbers(budgets={"2026-03-01": second})

    assert both.budgets == {"2026-03-01": second}
