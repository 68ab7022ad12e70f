"""Pace: how often messages are sent to one recipient on one channel.

Messages without urgent items follow a person's patience. The first one waits only for the batch
interval, or for `WAITING` if an agent waits for the answer. While the person has unanswered
messages, the next one waits longer. An answer or an opened link starts this again, except that a
person never gets more than `EAGER` messages an hour without longer waits, unless agents wait.

Urgent messages are sent immediately until a limit is reached. Then they share a message from time
to time. Each party has its own limit as well, so that the urgent messages of one party do not delay
those of others.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from safetyd.core.recipients import ChannelKind, Recipient, TellingConfig

WAITING: Final = timedelta(seconds=5)  # requests of waiting agents are collected for this time
EAGER: Final = 2  # messages within `HOUR`, after which the first wait applies to each message
PHONE: Final[frozenset[ChannelKind]] = frozenset({"sms", "chat", "desktop"})
PHONE_EARLY: Final = 3  # batch intervals
HOUR: Final = timedelta(hours=1)


class UrgentLimits(NamedTuple):
    """Limits on the urgent messages of a queue."""

    window: timedelta
    party: int  # maximum messages of a party within the window
    in_all: int  # the same for all parties together
    gap: timedelta  # time between further messages
    fresh_gap: timedelta  # the same for a party without messages in the window


PEOPLE: Final = UrgentLimits(HOUR, 3, 5, timedelta(minutes=20), timedelta(minutes=5))
_MINUTE: Final = timedelta(minutes=1)
MACHINES: Final = UrgentLimits(5 * _MINUTE, 5, 1_000, _MINUTE, timedelta())
NONE: Final = UrgentLimits(timedelta(), 1, 1, timedelta(), timedelta())


class PersonPace(msgspec.Struct):
    """The recent messages of one person, on all channels."""

    unanswered: int = 0  # messages without urgent items since the last answer or opened link
    sent_at: list[datetime] = []  # the last ones, at most `EAGER`
    digest_at: datetime | None = None  # the last message after quiet hours


class Pace:
    """Says when the next message may be sent. `persons` maps names to what they got."""

    def __init__(self, config: TellingConfig, persons: dict[str, PersonPace]) -> None:
        self.interval = timedelta(seconds=config.batch_interval_s)
        self._usual = config.calmness.patience_s
        self._phone = timedelta(seconds=config.calmness.next_person_s)
        self._persons = persons
        self._recipients = {each.name: each for each in config.recipients}
        self._kinds = config.channels

    def limits(self, channel: str) -> UrgentLimits:
        return MACHINES if self._kinds.get(channel) == "webhook" else PEOPLE

    def is_phone(self, channel: str) -> bool:
        """Return True if a message on a channel interrupts."""
        return self._kinds.get(channel) in PHONE

    def next_at(self, recipient: str, channel: str, at: datetime) -> datetime | None:
        """Return when a person's patience allows the next message, or None if it does now."""
        who, known = self._recipients.get(recipient), self._persons.get(recipient)
        if who is None or known is None or self._kinds.get(channel) == "webhook":
            return None
        # Times in the future are from before a step of the clock.
        sent_at = [sent for sent in known.sent_at if sent <= at]
        wait = self._wait(who, known.unanswered)
        if self.is_phone(channel) and who.patience_s is None:
            wait = max(wait, self._phone)
        elif len(sent_at) >= EAGER and at < sent_at[-EAGER] + HOUR:
            wait = max(wait, self._wait(who, 1))
        return sent_at[-1] + wait if sent_at else None

    def attends(self, recipient: str) -> bool:
        """Return True if a person has no unanswered messages."""
        known = self._persons.get(recipient)
        return known is None or not known.unanswered

    def busy_until(self, recipient: str, channel: str, at: datetime) -> datetime | None:
        """Return when a person who has unanswered messages gets a new request, or None if now."""
        free_at = None if self.attends(recipient) else self.next_at(recipient, channel, at)
        if free_at is None or free_at <= at:
            return None
        return min(free_at, at + self.first_within(recipient, channel))

    def first_within(self, recipient: str, channel: str = "") -> timedelta:
        """Return the longest wait for a request that nobody has received.

        It is a little shorter on a phone, where most requests wait for nearly as long.
        """
        who = self._recipients.get(recipient)
        patient = self.interval if who is None else self._wait(who, 1)
        early = PHONE_EARLY if self.is_phone(channel) else 1
        return max(self.interval, patient - early * self.interval)

    def sent(self, recipient: str, at: datetime, *, asks: bool, digest: bool) -> None:
        """Record a message. With `asks`, it has requests that are not urgent."""
        known = self._persons.setdefault(recipient, PersonPace())
        known.unanswered += asks
        known.sent_at = [*known.sent_at, at][-EAGER:]
        if digest:
            known.digest_at = at

    def attended(self, recipient: str) -> None:
        """Record that a person answered a request or opened a link."""
        if (known := self._persons.get(recipient)) is not None:
            known.unanswered = 0

    def digest_since(self, recipient: str, since: datetime) -> bool:
        """Return True if a person got a digest since a time."""
        known = self._persons.get(recipient)
        return known is not None and known.digest_at is not None and known.digest_at > since

    def shift(self, by: timedelta) -> None:
        """Shift all times after a step of the wall clock."""
        for known in self._persons.values():
            known.sent_at = [at + by for at in known.sent_at]
            known.digest_at = None if known.digest_at is None else known.digest_at + by

    def _wait(self, who: Recipient, unanswered: int) -> timedelta:
        waits = self._usual if who.patience_s is None else who.patience_s
        if not unanswered or not waits:
            return self.interval
        seconds = waits[min(unanswered, len(waits)) - 1]
        return max(self.interval, timedelta(seconds=seconds))
