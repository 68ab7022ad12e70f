"""Slots: the batch for an item, and the time at which the batch is due."""

from datetime import datetime, timedelta
from typing import Final

from safetyd.core import recipients
from safetyd.core.anonymous_pool import ANONYMOUS, counted_as
from safetyd.core.approvals.reachability import in_time
from safetyd.core.approvals.request import Request
from safetyd.core.catalogue.entry import Alert
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Due, ItemKind, Note
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.ask_limits import AskLimits, party_of
from safetyd.core.outbox.delivery_queue import (
    SUMMARY_WINDOW,
    Addressed,
    DeliveryQueue,
    QueuedMessage,
    Slot,
    Sort,
    Timing,
    lone_batch,
    storm_batch,
    urgent_batch,
)
from safetyd.core.outbox.duty import Duty
from safetyd.core.outbox.item_facts import Keyless, rank
from safetyd.core.outbox.pace import WAITING, Pace
from safetyd.core.recipients import QuietHours, TellingConfig
from safetyd.core.sender_limits import SenderLimits

_ASKS: Final[frozenset[ItemKind]] = frozenset({"request", "reminder", "last_call"})
_REPEATED: Final[frozenset[ItemKind]] = frozenset({"reminder", "last_call"})
HURRY_S: Final = 900.0
_TICK: Final = timedelta(seconds=5)  # more than between two ticks
_LIMITS: Final = SenderLimits()
_NEVER: Final = QuietHours(start="00:00", end="00:00")


def _hurries(request: Request) -> bool:
    """Return True if an agent waits for the answer, and not for much longer than patience lasts."""
    asked = request.asked.proposal
    return asked.wait and (asked.timeout_s is None or asked.timeout_s <= HURRY_S)


class Slots:
    """Chooses slots by urgency, quiet hours and limits."""

    def __init__(
        self, config: TellingConfig, limits: AskLimits, pace: Pace, duty: Duty, keyless: Keyless
    ) -> None:
        self.pace = pace
        self._config = config
        self._limits = limits
        self._duty = duty
        self._keyless = keyless
        self._hours = {recipient.name: recipient.quiet for recipient in config.recipients}
        self._shared = {recipient.name for recipient in config.recipients if recipient.shared}

    @property
    def interval(self) -> timedelta:
        return self.pace.interval

    def timing(self, queue: DeliveryQueue, at: datetime) -> Timing:
        """Return when a queue may send messages."""
        name = queue.recipient
        return Timing(
            quiet=lambda when: self.quiet_until(name, when),
            interval=self.interval,
            paced=self.pace.next_at(name, queue.channel, at),
            limits=self.pace.limits(queue.channel),
            attentive=self.pace.attends(name),
        )

    def quiet_until(self, recipient: str, at: datetime) -> datetime | None:
        """Return when the recipient's current quiet hours end, or None."""
        return recipients.quiet_until(self._hours.get(recipient, _NEVER), at)

    def too_calm(self, urgency: Urgency) -> bool:
        """Return True if an urgency is below the configured minimum."""
        return rank(urgency) < rank(self._config.min_urgency)

    def asked(self, agent: str, t: float) -> None:
        """Record a request of an agent."""
        self._limits.asked(agent, t)

    def storms(self, request: Request, t: float) -> bool:
        """Return True if the agent of a request made too many requests recently."""
        # Requests of safetyd itself to end a pause are not limited.
        return not request.own and self._limits.storms(request.agent, t)

    def sent(self, queue: DeliveryQueue, message: QueuedMessage, event: Due) -> None:
        """Record a message for the limits on later ones."""
        name, batch = queue.recipient, message.sort == "batch"
        asks = batch and any(item.kind in _ASKS for item in event.items)
        if message.sort != "alone":
            self.pace.sent(name, event.at, asks=asks, digest=event.digest)
        until = self.quiet_until(name, event.at) if message.sort == "high" else None
        if until is not None:
            first = queue.parties(item for item in event.items if item.kind not in _REPEATED)
            self._limits.wakes(name, queue.parties(event.items), first, event.at, until)

    def limited_until(
        self, queue: DeliveryQueue, message: QueuedMessage, at: datetime
    ) -> datetime | None:
        """Return when the next urgent message is sent, if this one reaches a limit."""
        if message.sort != "high":
            return None
        asleep = self._last_at_night(queue.recipient, at)
        return asleep or queue.limited_until(message, at, self.pace.limits(queue.channel))

    def full(self, queue: DeliveryQueue, party: str, at: datetime) -> bool:
        """Return True if an urgent request of a party would have to wait in a queue."""
        return queue.urgent_at(party, at, self.pace.limits(queue.channel)) is not None

    def reaches(
        self, recipient: str, request: Request, at: datetime, *, backup: bool = False
    ) -> bool:
        """Return True if an urgent request is sent to a recipient at once.

        People get it at once if they are on duty, or the `backup` of somebody. During quiet hours,
        limits apply, and without a rota, the agent itself must have marked the request as urgent.
        """
        shared, until = recipient in self._shared, self.quiet_until(recipient, at)
        if not (shared or backup or self._duty.wakes(recipient, request, at)):
            return False
        if until is None:
            return True
        on_duty = self._duty.in_use and (backup or self._duty.covers(recipient, at))
        marked = request.asked.proposal.urgency == "high"
        if self._config.quiet_bypass == "none" or not (marked or on_duty):
            return False
        return shared or self._may_wake(recipient, counted_as(request.asked), at, until)

    def _may_wake(self, recipient: str, party: str, at: datetime, until: datetime) -> bool:
        """Return True if limits permit another urgent message until quiet hours end."""
        most = self._most_at_night(recipient, at)
        mine = self._limits.woken(party_of(recipient, party), until)
        if party == ANONYMOUS:
            return mine < 1  # it does not count for other parties
        if mine >= max(1, int(most * _LIMITS.night_share)):
            return False
        # The last message is left for a party without any. Alerts do not count.
        return self._limits.woken(recipient, until) < most - bool(mine)

    def _last_at_night(self, recipient: str, at: datetime) -> datetime | None:
        """Return when quiet hours end, if the next urgent message is the last one until then."""
        until = self.quiet_until(recipient, at)
        if until is None or recipient in self._shared:
            return None
        left = self._most_at_night(recipient, at) - self._limits.woken(recipient, until)
        return until if left <= 1 else None

    def _most_at_night(self, recipient: str, at: datetime) -> int:
        """Return the maximum number of urgent messages during a recipient's quiet hours."""
        on_call = self._duty.in_use and self._duty.covers(recipient, at)
        calm = self._config.calmness
        return calm.on_call_night_messages if on_call else calm.night_messages

    def request(
        self,
        addressed: Addressed,
        request: Request,
        event: Event,
        kind: ItemKind = "request",
        *,
        soon: bool = False,
    ) -> Slot:
        """Return the slot of an item about a request. With `soon`, it is due immediately."""
        queue, urgent, first = addressed
        slot = self._usual("high" if urgent else "normal", event.at, counted_as(request.asked))
        flush_at = event.at if soon else slot.flush_at
        calm = kind == "request" and not soon and not urgent
        if calm and not first:
            flush_at += timedelta(seconds=self._config.calmness.next_person_s)
        latest = self.latest(queue, request, event.at, first=calm and first)
        if calm and first and _hurries(request) and self.pace.attends(queue.recipient):
            soonest = event.at + WAITING
            latest = soonest if latest is None else min(soonest, latest)
            slot = slot._replace(batch="waiting", eager=True)
        if soon:
            latest = event.at
        if latest is not None:
            flush_at = max(event.at, min(flush_at, latest))
        slot = slot._replace(flush_at=flush_at, latest=latest)
        if not (self.storms(request, event.t) and queue.told_lately(request.agent, event.at)):
            return slot
        return slot._replace(batch=storm_batch(slot.sort, request.agent), agent=request.agent)

    def alone(self, queue: DeliveryQueue, request: Request, at: datetime) -> Slot:
        """Return the slot of a request whose message was refused.

        Perhaps the words of another agent in it were the reason, so it shares no message again.
        """
        ends = self.quiet_until(queue.recipient, at)
        urgent = request.urgency == "high" and self.reaches(queue.recipient, request, at)
        return Slot(lone_batch(request.id), "alone", at if urgent or ends is None else ends)

    def reminder(self, request: Request, event: Event) -> Slot:
        """Return the slot of a reminder that is sent with all others of its recipient."""
        slot = self._usual("normal", event.at, counted_as(request.asked))
        return slot._replace(flush_at=event.at, latest=event.at)

    def latest(
        self, queue: DeliveryQueue, request: Request, at: datetime, *, first: bool
    ) -> datetime | None:
        """Return when a request must be sent in spite of patience and limits.

        It must be early enough to answer before the deadline. With `first`, nobody has received the
        request yet, so that it does not wait for long.
        """
        times = list[datetime]()
        if first:
            times.append(at + self.pace.first_within(queue.recipient, queue.channel))
            times += self._before_quiet(queue.recipient, request, at)
        if request.deadline is not None:
            times.append(in_time(request.deadline, request.asked.at))
        return max(at, min(times)) if times else None

    def _before_quiet(self, recipient: str, request: Request, at: datetime) -> list[datetime]:
        """Return when quiet hours begin, if a request ends during them."""
        hours = self._hours.get(recipient, _NEVER)
        begins = recipients.quiet_from(hours, at)
        if begins is None or begins <= at or request.deadline is None:
            return []
        ends = recipients.quiet_until(hours, begins)
        return [begins - _TICK] if ends is not None and request.deadline < ends else []

    def alert(self, queue: DeliveryQueue, alert: Alert, note: Note) -> Slot:
        """Return the slot of an alert that is sent immediately or with the next batch."""
        return self._alert(queue, alert, note, note.at)

    def later(self, queue: DeliveryQueue, alert: Alert, note: Note) -> Slot:
        """Return the slot of an alert on channels that get it `after_s` later."""
        at = note.at + timedelta(seconds=alert.after_s)
        slot = self._alert(queue, alert, note, at)
        return slot._replace(batch=f"later:{note.id}", flush_at=at)

    def moved(self, note: Note, at: datetime) -> Slot:
        """Return the slot of an alert that another channel did not deliver."""
        if note.urgency == "high":
            return Slot(lone_batch(note.id), "alone", at)
        return self._usual("normal", at)._replace(latest=at)

    def handover(self, at: datetime, *, urgent: bool) -> Slot:
        """Return the slot of the note for a person who goes on duty.

        It is sent with the urgent requests for this person. Without any, it can wait.
        """
        return self._usual("high" if urgent else "normal", at)

    def summary(self, queue: DeliveryQueue, at: datetime) -> Slot:
        if queue.sums_up(at):
            return Slot("summaries", "batch", at + SUMMARY_WINDOW)
        return self._usual("low", at)

    def announced(self, note: Note, at: datetime) -> Slot:
        if note.kind == "test":
            return Slot(lone_batch(note.id), "alone", at)
        return self._usual(note.urgency, at, self._party(note.agent), "alert")

    def _alert(self, queue: DeliveryQueue, alert: Alert, note: Note, at: datetime) -> Slot:
        asleep = self.quiet_until(queue.recipient, at) is not None
        shared = queue.recipient in self._shared
        if asleep and not shared and not self._duty.covers(queue.recipient, at):
            return self._usual("normal", at)
        if alert.always:
            return Slot(lone_batch(note.id), "alone", at)
        if alert.batched:
            return Slot("alerts", "batch", at + timedelta(seconds=self._config.alert_batch_s))
        sleeps = self._config.quiet_bypass == "none" and asleep
        urgency = "normal" if sleeps else alert.urgency
        return self._usual(urgency, at, self._party(alert.agent), "alert")

    def _usual(self, urgency: Urgency, at: datetime, party: str = "", sort: Sort = "high") -> Slot:
        """Return the default slot for an urgency. `sort` is that of an urgent item."""
        if urgency == "high":
            return Slot(urgent_batch(sort, party), sort, at, party=party)
        leading = self._config.batch_mode == "leading"
        return Slot("batch", "batch", at if leading else at + self.interval)

    def _party(self, agent: str | None) -> str:
        """Return the party whose limit applies to a note, or an empty string if it has no agent."""
        if agent is None:
            return ""
        return ANONYMOUS if self._keyless(agent) else agent
