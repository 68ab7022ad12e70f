"""Counts events, in order, in the numbers of each day.

The day of an event depends on the time zone configured at that time. Data about earlier events is
stored for a fixed time. The numbers of a day therefore depend only on its events and those of the
week before.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, TypeVar

from safetyd.core.daily_report.asked_people import AskedPeople
from safetyd.core.daily_report.day_numbers import (
    MILLION,
    DayNumbers,
    Hold,
    HourNumbers,
    LastHolds,
    Most,
    Pattern,
    Rounds,
    count,
    entry,
)
from safetyd.core.daily_report.money_used import MoneyUsed
from safetyd.core.daily_report.notified_people import NotifiedPeople
from safetyd.core.daily_report.recent_entries import RecentEntries
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import (
    Decided,
    Overdue,
    Refused,
    Reported,
    Settled,
    Transcribed,
)
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BudgetMarked,
    BudgetRaised,
    CostStruck,
    Paused,
    Resumed,
    SafeModeEntered,
    Stopped,
)
from safetyd.core.events.history_events import (
    CommitFailed,
    Committed,
    RollbackFailed,
    RolledBack,
    SnapshotMissed,
    SnapshotTaken,
)
from safetyd.core.events.notification_events import Due, NotTold, Told
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    Expired,
    Granted,
    GrantRevoked,
    Released,
    Superseded,
)
from safetyd.core.guards.anomaly.presence import by_a_person
from safetyd.core.messages.telemetry import Commit, Iteration, Rollback
from safetyd.core.messages.verdict import ALLOW, ASK, strictest
from safetyd.core.policy import Configured, Policy

DAY: Final = timedelta(days=1)
WEEK: Final = timedelta(days=7)  # the longest time that data about an event is stored
ONE_STOP: Final = timedelta(minutes=1)  # a stop command and the file it writes count as one stop
REASON_CHARS: Final = 120
LONGEST_ALONE_S: Final = int(WEEK.total_seconds())
UNCOUNTED: Final = (SafetyEvent, Transcribed)
_BLOCK: Final = timedelta(minutes=15)  # a time zone's offset changes only between such blocks
_DISPATCH: Final = "dispatch"
_NO_PERSON: Final = frozenset({"safetyd", "file", "environment"})
_LOST: Final = frozenset({"dead", "undelivered", "parked", "expired"})  # states of messages
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

Kind = TypeVar("Kind", bound=Event)
Act = Callable[[Event, DayNumbers], None]


def local_day(shown: datetime) -> date:
    """Return the date of a local time."""
    return shown.date()


class ReportFold:
    """Counts events by day. `days` contains the numbers so far.

    `seen` is the last time an operator was active before the first event. `day_of` returns the day
    of a local time.
    """

    def __init__(
        self, seen: datetime | None = None, day_of: Callable[[datetime], date] = local_day
    ) -> None:
        self._day_of = day_of
        self.days: dict[date, DayNumbers] = {}
        self.policies: dict[date, Policy] = {}  # the policy at the end of each day
        self.today = date.min  # the day of the last event
        self._policy = Policy()
        self._zone: tzinfo = UTC
        self._seen = seen
        self._asked = AskedPeople()
        self._notified = NotifiedPeople()
        self._money = MoneyUsed()
        self._stops: RecentEntries[str | None, Stopped] = RecentEntries(ONE_STOP)  # by agent
        self._holding: RecentEntries[tuple[str | None, str], Stopped] = RecentEntries(WEEK)
        # An item may be sent on several channels. One delivery is enough.
        self._messages: RecentEntries[str, Due] = RecentEntries(DAY)
        self._told: RecentEntries[str, Told] = RecentEntries(DAY)
        self._lost: RecentEntries[str, NotTold] = RecentEntries(DAY)
        self._waits: RecentEntries[str, Decided] = RecentEntries(WEEK)
        self._day = DayNumbers()
        self._hour = HourNumbers()
        self._from = self._until = _LONG_AGO
        self._acts: Mapping[type[Event], Act] = dict(
            (
                _on(Configured, self._configured),
                _on(Decided, self._decided),
                _on(Refused, _refused),
                _on(Reported, self._reported),
                _on(Settled, self._settled),
                _on(Overdue, self._overdue),
                _on(Stopped, self._stopped),
                _on(Resumed, self._resumed),
                _on(SafeModeEntered, self._safe_mode),
                _on(Paused, self._paused),
                _on(BudgetMarked, self._money.marked),
                _on(BudgetRaised, self._money.raised),
                _on(CostStruck, self._money.struck),
                _on(AnomalyFound, self._found),
                _on(Answered, self._asked.answered),
                _on(Released, self._released),
                _on(Claimed, self._begun),
                _on(Expired, self._asked.expired),
                _on(Cancelled, self._withdrawn),
                _on(Superseded, self._withdrawn),
                _on(Granted, _intervened),
                _on(GrantRevoked, _intervened),
                _on(Due, self._due),
                _on(Told, self._arrived),
                _on(NotTold, self._not_told),
                _on(Committed, _committed),
                _on(CommitFailed, _not_committed),
                _on(RolledBack, self._rolled_back),
                _on(RollbackFailed, self._not_rolled_back),
                _on(SnapshotTaken, _snapshot),
                _on(SnapshotMissed, _no_snapshot),
            )
        )

    def fold(self, event: Event) -> None:
        """Count an event. Events must come in the order of the journal.

        Events that only describe other events are skipped.
        """
        if isinstance(event, UNCOUNTED):
            return
        at = event.at
        if isinstance(event, Configured):
            self._rezone(event)
        elif not self._from <= at < self._until:
            self._turn(at)
        day = self._day
        day.events += 1
        if self._seen is None:
            self._seen = at
        alone_s = min(int((at - self._seen).total_seconds()), LONGEST_ALONE_S)
        if alone_s > day.without_person.value:
            day.without_person = Most(alone_s)
        self._notified.noted(event)
        act = self._acts.get(type(event))
        if act is not None:
            act(event, day)
        if by_a_person(event):
            self._seen = max(self._seen, at)
            kind = type(event).__struct_config__.tag
            if kind != "person_seen":
                count(day.interventions, str(kind))

    def _turn(self, at: datetime) -> None:
        """Switch to the day and hour of a time."""
        self._from = at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0)
        self._until = self._from + _BLOCK
        shown = at.astimezone(self._zone)
        self.today = self._day_of(shown)
        known = self.days.get(self.today)
        if known is None:
            known = self.days[self.today] = DayNumbers()
        self._asked.look(at, known)
        self.policies[self.today] = self._policy
        self._day, self._hour = known, known.hour(shown.hour)

    def _rezone(self, event: Configured) -> None:
        """Use the policy and time zone of an event from now on."""
        self._policy, self._zone = event.policy, event.policy.zone
        self._turn(event.at)

    def _configured(self, event: Configured, day: DayNumbers) -> None:
        self._asked.configured(event.policy)
        self._notified.configured(event.policy.telling, event.policy.zone)
        self._money.configured(event.policy.budget, event.at, day)

    def _decided(self, event: Decided, day: DayNumbers) -> None:
        if not event.first:
            return
        if event.proposal.confidence is not None:
            day.stated += 1
            day.stated_millionths += round(event.proposal.confidence * MILLION)
        if event.decision is ALLOW:
            self._allowed(event, event.at, day)
            self._hour.allowed += 1
            if event.uses is None:
                day.executed += 1
                day.by_grant += bool(event.grants)
            else:
                self._waits.pop(event.uses.request_id, event.at)
                day.approved += 1
            return
        first = strictest(event.verdicts)
        count(day.restricting, first.rule)
        count(day.held_by, first.guard)
        if event.decision is ASK:
            self._escalated(event, day)
        else:
            self._asked.blocked(event, day)
            day.blocked += 1
            self._hour.blocked += 1

    def _escalated(self, event: Decided, day: DayNumbers) -> None:
        day.escalated += 1
        self._hour.asked += 1
        self._hour.cost_nano += self._money.asked(event, day)
        self._asked.asked(event, day)
        if event.asks is not None and (not event.asks.joins or event.asks.takes_over):
            self._waits.put(event.asks.request_id, event, event.at)

    def _allowed(self, event: Decided, at: datetime, day: DayNumbers) -> None:
        self._hour.cost_nano += self._money.allowed(event, at, day)
        if event.type == _DISPATCH:
            entry(day.rounds, event.agent, Rounds).dispatched += 1

    def _withdrawn(self, event: Cancelled | Superseded, day: DayNumbers) -> None:
        self._asked.withdrawn(event, day)
        # Ending a pause also cancels its request. Both are one intervention.
        if isinstance(event, Cancelled) and event.via != "unpause":
            _intervened(event, day)

    def _released(self, event: Released, day: DayNumbers) -> None:
        """Count an approved action if its agent waited for the answer and executes it now."""
        asked = self._waits.find(event.request_id, event.at)
        if asked is not None and event.waits and not event.verdicts and not asked.permission:
            self._begun(event, day)

    def _begun(self, event: Released | Claimed, day: DayNumbers) -> None:
        """Count an approved action when it begins, but only once per request."""
        asked = self._waits.pop(event.request_id, event.at)
        if asked is not None:
            day.approved += 1
            self._allowed(asked, event.at, day)

    def _settled(self, event: Settled, day: DayNumbers) -> None:
        day.succeeded, day.failed = day.succeeded + event.ok, day.failed + (not event.ok)
        cost, action = self._money.settled(event, day)
        self._hour.cost_nano += cost
        stated = day.stated_by(event.agent, action.confidence if action else None)
        if stated is not None:
            stated.succeeded, stated.failed = (
                stated.succeeded + event.ok,
                stated.failed + (not event.ok),
            )

    def _overdue(self, event: Overdue, day: DayNumbers) -> None:
        day.overdue += 0 if event.said else len(event.ids)
        self._hour.cost_nano += self._money.overdue(event, day)

    def _stopped(self, event: Stopped, day: DayNumbers) -> None:
        if not self._stops.find(event.agent, event.at):
            day.stops += 1
            day.last_stops += self._hold(event, event.by, event.reason, event.agent)
        source = event.agent, event.source
        if not self._holding.find(source, event.at):
            count(day.stopped, event.agent or "")
        self._stops.put(event.agent, event, event.at)
        self._holding.put(source, event, event.at)

    def _resumed(self, event: Resumed, day: DayNumbers) -> None:
        self._stops.pop(event.agent, event.at)
        for source in event.sources:
            if self._holding.pop((event.agent, source), event.at):
                count(day.stopped, event.agent or "", -1)

    def _safe_mode(self, event: SafeModeEntered, day: DayNumbers) -> None:
        day.safe_modes += 1
        day.last_safe_modes += self._hold(event, event.by, event.reason, event.agent)

    def _hold(self, event: Event, by: str, reason: str, whom: str | None) -> LastHolds:
        """Return a `Hold` for an event, with a shortened reason."""
        reason = " ".join(reason.split())
        if len(reason) > REASON_CHARS:
            reason = f"{reason[:REASON_CHARS]}…"
        return LastHolds((Hold(event.at.astimezone(self._zone), by, reason, whom or ""),))

    def _paused(self, event: Paused, day: DayNumbers) -> None:
        if event.source == "anomaly":
            self._asked.paused(event, day)

    def _due(self, event: Due, _day: DayNumbers) -> None:
        self._messages.put(event.delivery, event, event.at)

    def _arrived(self, event: Told, day: DayNumbers) -> None:
        day.told += 1
        due = self._messages.find(event.delivery, event.at)
        if due is not None:
            self._notified.arrived(due, event.at, day)
        for ref in self._refs(event):
            self._told.put(ref, event, event.at)
            if self._lost.pop(ref, event.at):
                count(day.told_after_all, ref)

    def _not_told(self, event: NotTold, day: DayNumbers) -> None:
        """Record the undelivered items of a message, unless another message delivered them.

        Ignore messages that an operator dropped.
        """
        if event.state not in _LOST or event.by:
            return
        for ref in self._refs(event):
            if not self._told.find(ref, event.at):
                self._lost.put(ref, event, event.at)
                count(day.lost, ref)

    def _refs(self, event: Told | NotTold) -> list[str]:
        """Return the ids of the requests and notes in a message."""
        due = self._messages.find(event.delivery, event.at)
        return [item.ref for item in due.items] if due else []

    def _found(self, event: AnomalyFound, day: DayNumbers) -> None:
        count(day.anomalies, event.severity)
        pattern = entry(day.patterns, event.rule, Pattern)
        pattern.count += 1
        whose = event.agent or event.breaker or ""
        if whose:
            count(pattern.agents, whose)
        last = entry(day.last_anomalies, event.severity, LastHolds)
        found = self._hold(event, event.rule, event.message, whose)
        day.last_anomalies[event.severity] = last + found

    def _reported(self, event: Reported, day: DayNumbers) -> None:
        match event.telemetry:
            case Iteration():
                entry(day.rounds, event.agent, Rounds).reported += 1
            case Commit():
                day.commits_reported += 1
            case Rollback(ref=ref):
                day.rollbacks_reported += 1
                day.last_rollbacks += self._hold(event, event.agent, f"to {ref}", "")

    def _rolled_back(self, event: RolledBack, day: DayNumbers) -> None:
        day.rollbacks += 1
        day.last_rollbacks += self._hold(event, event.by, event.reason, event.project)
        _intervened(event, day)

    def _not_rolled_back(self, event: RollbackFailed, day: DayNumbers) -> None:
        day.rollbacks_failed += 1
        day.last_rollbacks += self._hold(event, "safetyd", f"failed: {event.error}", event.project)


def _on(kind: type[Kind], act: Callable[[Kind, DayNumbers], None]) -> tuple[type[Event], Act]:
    """Return an entry for the table of handlers."""
    return kind, act  # type: ignore[return-value] # only called with events of this kind


def _refused(event: Refused, day: DayNumbers) -> None:
    day.refused += event.count


def _intervened(event: Granted | GrantRevoked | Cancelled | RolledBack, day: DayNumbers) -> None:
    """Count an operator's intervention other than an answer."""
    follows = isinstance(event, GrantRevoked) and event.request_id
    if event.by not in _NO_PERSON and not follows:
        count(day.interventions, str(type(event).__struct_config__.tag))


def _committed(event: Committed, day: DayNumbers) -> None:
    if event.commit:  # the commit is empty if nothing had changed
        day.commits += 1


def _not_committed(_event: CommitFailed, day: DayNumbers) -> None:
    day.commits_failed += 1


def _snapshot(event: SnapshotTaken, day: DayNumbers) -> None:
    count(day.snapshots, event.day)


def _no_snapshot(event: SnapshotMissed, day: DayNumbers) -> None:
    for missed in event.each_day():
        count(day.snapshots_missed, missed)
