"""Slots: the batch for an item, and the time at which the batch is due."""

from datetime import datetime, timedelta
from typing import Final

from safetyd.core import recipients
from safetyd.core.anonymous_pool import ANONYMOUS, counted_as
from safetyd.core.approvals.request import Request
from safetyd.core.catalogue.entry import Alert
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Note
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.ask_limits import AskLimits
from safetyd.core.outbox.delivery_queue import (
    SUMMARY_WINDOW,
    DeliveryQueue,
    Slot,
    high_batch,
    lone_batch,
    storm_batch,
)
from safetyd.core.outbox.item_facts import Keyless, rank
from safetyd.core.recipients import QuietHours, TellingConfig

SOONEST: Final = timedelta(minutes=2)  # minimum time between a message and the deadline
_NEVER: Final = QuietHours(start="00:00", end="00:00")


class Slots:
    """Chooses slots by urgency, quiet hours and limits on requests."""

    def __init__(self, config: TellingConfig, limits: AskLimits, keyless: Keyless) -> None:
        self.interval = timedelta(seconds=config.batch_interval_s)
        self._config = config
        self._limits = limits
        self._keyless = keyless
        self._hours = {recipient.name: recipient.quiet for recipient in config.recipients}

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

    def request(
        self, queue: DeliveryQueue, request: Request, event: Event, *, soon: bool = False
    ) -> Slot:
        """Return the slot of an item about a request. With `soon`, it is due immediately."""
        urgent = request.urgency == "high" and self._wakes(queue.recipient, request, event.at)
        slot = self._usual("high" if urgent else "normal", event.at, counted_as(request.asked))
        flush_at = event.at if soon else _flush_at(slot, request, event.at)
        if not (self.storms(request, event.t) and queue.told_lately(request.agent, event.at)):
            return slot._replace(flush_at=flush_at)
        name = storm_batch(slot.sort, request.agent)
        return slot._replace(batch=name, flush_at=flush_at, agent=request.agent)

    def alert(self, queue: DeliveryQueue, alert: Alert, note: Note) -> Slot:
        """Return the slot of an alert that is sent immediately or with the next batch."""
        return self._alert(queue, alert, note, note.at)

    def later(self, queue: DeliveryQueue, alert: Alert, note: Note) -> Slot:
        """Return the slot of an alert on channels that get it `after_s` later."""
        at = note.at + timedelta(seconds=alert.after_s)
        slot = self._alert(queue, alert, note, at)
        return slot._replace(batch=f"later:{note.id}", flush_at=at)

    def summary(self, queue: DeliveryQueue, at: datetime) -> Slot:
        if queue.sums_up(at):
            return Slot("summaries", "batch", at + SUMMARY_WINDOW)
        return self._usual("low", at)

    def announced(self, note: Note, at: datetime) -> Slot:
        if note.kind == "test":
            return Slot(lone_batch(note.id), "alone", at)
        return self._usual(note.urgency, at, self._party(note.agent))

    def _alert(self, queue: DeliveryQueue, alert: Alert, note: Note, at: datetime) -> Slot:
        if alert.always:
            return Slot(lone_batch(note.id), "alone", at)
        if alert.batched:
            return Slot("alerts", "batch", at + timedelta(seconds=self._config.alert_batch_s))
        sleeps = self._config.quiet_bypass == "none" and self.quiet_until(queue.recipient, at)
        return self._usual("normal" if sleeps else alert.urgency, at, self._party(alert.agent))

    def _usual(self, urgency: Urgency, at: datetime, party: str = "") -> Slot:
        """Return the default slot for an urgency. Urgent items count against the party's limit."""
        if urgency == "high":
            return Slot(high_batch(party), "high", at, party=party)
        leading = self._config.batch_mode == "leading"
        return Slot("batch", "batch", at if leading else at + self.interval)

    def _party(self, agent: str | None) -> str:
        """Return the party whose limit applies to a note, or an empty string if it has no agent."""
        if agent is None:
            return ""
        return ANONYMOUS if self._keyless(agent) else agent

    def _wakes(self, recipient: str, request: Request, at: datetime) -> bool:
        """Return True if a request may be sent now.

        During quiet hours, the agent itself must have marked it as urgent, and limits apply.
        """
        until = self.quiet_until(recipient, at)
        if until is None:
            return True
        if self._config.quiet_bypass == "none" or request.asked.proposal.urgency != "high":
            return False
        return self._limits.wakes(recipient, counted_as(request.asked), request.id, at, until)


def _flush_at(slot: Slot, request: Request, at: datetime) -> datetime:
    """Return when an item is due. It must be early enough to answer before the deadline."""
    if request.deadline is None:
        return slot.flush_at
    needed = max(SOONEST, (request.deadline - request.asked.at) / 4)
    return max(at, min(slot.flush_at, request.deadline - needed))
