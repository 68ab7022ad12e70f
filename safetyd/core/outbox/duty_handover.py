"""Handover: notifies people who go on duty, and gives them the urgent requests that are pending."""

from zoneinfo import ZoneInfo

from safetyd.core.events.notification_events import Note
from safetyd.core.events.rota_events import DutyChanged
from safetyd.core.outbox.alerts import Alerts, Placed
from safetyd.core.outbox.delivery_queue import DeliveryQueue
from safetyd.core.outbox.duty import Duty
from safetyd.core.outbox.reminders import Reminders
from safetyd.core.outbox.routing import Routing
from safetyd.core.outbox.slots import Slots
from safetyd.core.recipients import Recipient


class Handover:
    """Queues handovers. `on_duty` lists the people on duty."""

    def __init__(
        self,
        on_duty: list[str],
        alerts: Alerts,
        reminders: Reminders,
        routing: Routing,
        slots: Slots,
        duty: Duty,
    ) -> None:
        self._on_duty = on_duty
        self._alerts = alerts
        self._reminders = reminders
        self._routing = routing
        self._slots = slots
        self._duty = duty

    def changed(self, event: DutyChanged) -> list[DeliveryQueue]:
        """Notify people who were not on duty before. Return the queues that changed."""
        began = [name for name in event.on if name not in self._on_duty]
        self._on_duty[:] = event.on
        for name in event.off:
            self._alerts.withdraw(_key(name))
        if event.first or not self._duty.hands_over:
            return []
        found = filter(None, map(self._routing.find, began))
        return [queue for who in found for queue in self._begins(event, who)]

    def _begins(self, event: DutyChanged, who: Recipient) -> list[DeliveryQueue]:
        handed = self._reminders.hand_over(event, who)
        urgent = [queue for queue in handed if queue.has_urgent]
        note = self._note(event, who)
        placed: Placed = {}
        for queue in urgent or handed or self._routing.queues(who, "normal", event.at):
            placed[queue.key] = queue, self._slots.handover(event.at, urgent=bool(urgent))
        return [*handed, *self._alerts.put(_key(who.name), note, placed)]

    def _note(self, event: DutyChanged, who: Recipient) -> Note:
        until = self._duty.ends(event.at)
        local = until and until.astimezone(ZoneInfo(who.quiet.timezone))
        ends = f" until {local:%a %H:%M}" if local else ""
        return Note(
            id=f"note_{event.seq}_{who.name}",
            kind="alert",
            urgency="normal",
            title=f"{who.name} is on call{ends}",
            text="Urgent requests are sent to you. To see the rota: safetyd rota",
            at=event.at,
        )


def _key(name: str) -> str:
    return f"on_call {name}"
