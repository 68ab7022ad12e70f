"""Counts the messages that each recipient gets: when, on which channel, and how many repeat."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from safetyd.core.catalogue.catalogue import CATALOGUE, alert_of
from safetyd.core.daily_report.day_numbers import DayNumbers, Most, PersonNumbers, count, entry
from safetyd.core.daily_report.message_repeats import HOUR, REPEATED, is_repeat, worst
from safetyd.core.daily_report.recent_entries import RecentEntries
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Due, Item
from safetyd.core.recipients import TellingConfig, quiet_until

KEPT_FOR: Final = timedelta(days=7)
_REMINDERS: Final = frozenset({"reminder", "last_call"})


class LastRead(NamedTuple):
    """When and on which channel a recipient last read about a request or the cause of an alert."""

    at: datetime
    channel: str


class NotifiedPeople:
    """Counts messages. Each is counted once, when its channel accepts it."""

    def __init__(self) -> None:
        self._telling = TellingConfig()
        self._zone: tzinfo = UTC
        self._read: RecentEntries[tuple[str, str], LastRead] = RecentEntries(REPEATED)
        self._recent: dict[str, list[datetime]] = {}  # messages of the last hour, by recipient
        self._counted: RecentEntries[str, Due] = RecentEntries(timedelta(days=1))
        # The causes of alerts, and whether they or requests are urgent.
        self._things: RecentEntries[str, tuple[str, bool]] = RecentEntries(KEPT_FOR)

    def configured(self, telling: TellingConfig, zone: tzinfo) -> None:
        """Use other recipients and another time zone from now on."""
        self._telling, self._zone = telling, zone

    def noted(self, event: Event) -> None:
        """Remember what a later message may be about."""
        if isinstance(event, Decided):
            if event.asks is not None and not event.asks.joins:
                ref, urgent = event.asks.request_id, event.asks.urgency == "high"
                self._things.put(ref, (ref, urgent), event.at)
        elif type(event) in CATALOGUE and (alert := alert_of(event)) is not None:
            thing = alert.key, alert.urgency == "high"
            self._things.put(f"note_{event.seq}", thing, event.at)

    def arrived(self, due: Due, at: datetime, day: DayNumbers) -> None:
        """Count a message that a channel accepted."""
        if self._counted.find(due.delivery, at) is not None:
            return
        self._counted.put(due.delivery, due, at)
        person = entry(day.people, due.recipient, PersonNumbers)
        person.messages += 1
        count(person.channels, due.channel)
        count(person.hours, at.astimezone(self._zone).hour)
        person.worst_hour += Most(self._within_hour(due.recipient, at))
        if self._is_quiet(due.recipient, at):
            person.at_night += 1
            person.could_wait += due.urgency != "high"
        kinds = {item.kind for item in due.items}
        person.only_reminders += bool(kinds) and kinds <= _REMINDERS
        person.only_summaries += kinds == {"summary"}
        echoes = [self._is_echo(item, due, at, person) for item in due.items]
        person.echoes += bool(echoes) and all(echoes)

    def _is_echo(self, item: Item, due: Due, at: datetime, person: PersonNumbers) -> bool:
        """Count one entry of a message. Return True if another channel just said the same."""
        thing, urgent = self._things.find(item.ref, at) or (item.ref, False)
        key = due.recipient, thing
        last = self._read.find(key, at)
        self._read.put(key, LastRead(at, due.channel), at)
        person.entries += 1
        if last is None or not is_repeat(at - last.at, urgent=urgent):
            return False
        person.repeats += 1
        return last.channel != due.channel

    def _within_hour(self, recipient: str, at: datetime) -> int:
        recent = [one for one in self._recent.get(recipient, ()) if at - one < HOUR]
        self._recent[recipient] = [*recent, at]
        return worst(self._recent[recipient], HOUR)

    def _is_quiet(self, recipient: str, at: datetime) -> bool:
        known = (one.quiet for one in self._telling.recipients if one.name == recipient)
        return any(quiet_until(hours, at) is not None for hours in known)
