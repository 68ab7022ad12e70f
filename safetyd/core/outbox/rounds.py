"""Rounds: reminders of everything that is open, at fixed times on each recipient's clock.

A round reminds of requests that the recipient received some hours ago and that nobody has answered.
Urgent requests have their own reminders. They join a round only after these have ended.
"""

from collections.abc import Container
from datetime import datetime, time, timedelta
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from safetyd.core.events.notification_events import Round, RoundDue
from safetyd.core.outbox.deliveries import Deliveries
from safetyd.core.outbox.delivery_queue import DeliveryQueue
from safetyd.core.outbox.escalation import REPEATED
from safetyd.core.outbox.reminders import Reminded, Reminders
from safetyd.core.outbox.slots import Slots
from safetyd.core.recipients import Recipient, TellingConfig, first_instant

LATE: Final = timedelta(minutes=1)  # a round that is later than this is left out
AFTER_DIGEST: Final = timedelta(hours=2)  # no round so soon after a digest
MOST: Final = 1_000  # requests in a round

ALL_AGENTS: Final = "*"


class Rounds:
    """Starts rounds. `last` has the time of each recipient's last round."""

    def __init__(
        self,
        config: TellingConfig,
        last: dict[str, datetime],
        stopped: Container[str],
        reminders: Reminders,
        deliveries: Deliveries,
        slots: Slots,
    ) -> None:
        self._times = tuple(map(time.fromisoformat, config.calmness.rounds))
        self._people = {who.name: who for who in config.recipients}
        self._last = last
        self._stopped = stopped
        self._reminders = reminders
        self._deliveries = deliveries
        self._slots = slots

    def due(self, at: datetime) -> tuple[Round, ...]:
        """Return the rounds that start now."""
        if ALL_AGENTS in self._stopped:
            return ()
        found = (self._of(who, at) for who in self._people.values() if self._starts(who, at))
        return tuple(each for each in found if each.request_ids)

    def started(self, event: RoundDue) -> list[DeliveryQueue]:
        """Queue the reminders of rounds, and return the queues that changed."""
        touched = list[DeliveryQueue]()
        for each in event.rounds:
            self._last[each.recipient] = event.at
            if (who := self._people.get(each.recipient)) is not None:
                for found in filter(None, map(self._reminders.find, each.request_ids)):
                    touched += self._reminders.remind(event, who, found)
        return touched

    def _starts(self, who: Recipient, at: datetime) -> bool:
        """Return True if a round of a recipient is due and was not made yet."""
        began = self._began(who, at)
        if began is None or self._last.get(who.name, began - LATE) >= began:
            return False
        asleep = self._slots.quiet_until(who.name, at) is not None
        return not asleep and not self._slots.pace.digest_since(who.name, at - AFTER_DIGEST)

    def _began(self, who: Recipient, at: datetime) -> datetime | None:
        """Return when the current round began, or None if there is none."""
        zone = ZoneInfo(who.quiet.timezone)
        today = at.astimezone(zone).date()
        starts = (first_instant(today, each, zone) for each in self._times)
        return next((start for start in starts if start <= at < start + LATE), None)

    def _of(self, who: Recipient, at: datetime) -> Round:
        open_ = (found.request.id for found in self._reminders.all() if self._open(who, found, at))
        return Round(who.name, tuple(islice(open_, MOST)))

    def _open(self, who: Recipient, found: Reminded, at: datetime) -> bool:
        state, request = found
        if request.agent in self._stopped or not who.hears_of(request.agent):
            return False
        if (request.until is not None and request.until > at) or (
            request.urgency == "high" and state.next is not None
        ):
            return False
        mine = [d for d in self._deliveries.about(request.id) if d.recipient == who.name]
        return (
            any(delivery.arrived for delivery in mine)
            and self._reminders.received_by(state, who) <= at - REPEATED
            and not any(delivery.under_way for delivery in mine)
        )
