"""Failover: moves requests and alerts from a failed channel to the next channel."""

from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Item
from safetyd.core.outbox.alerts import Alerts
from safetyd.core.outbox.audience import Audience
from safetyd.core.outbox.deliveries import Deliveries, Delivery
from safetyd.core.outbox.delivery_queue import DeliveryQueue
from safetyd.core.outbox.reminders import Reminders
from safetyd.core.outbox.routing import Routing
from safetyd.core.outbox.slots import Slots


class Failover:
    """Moves requests to the next queue of their recipient.

    Methods that move requests return the queues that they changed.
    """

    def __init__(
        self,
        reminders: Reminders,
        alerts: Alerts,
        deliveries: Deliveries,
        routing: Routing,
        audience: Audience,
        slots: Slots,
    ) -> None:
        self._reminders = reminders
        self._deliveries = deliveries
        self._alerts = alerts
        self._routing = routing
        self._audience = audience
        self._slots = slots

    def undeliverable(self, request_id: str) -> bool:
        """Return True if every channel for a request refused it or is down."""
        found = self._reminders.find(request_id)
        if found is None or any(each.arrived for each in self._deliveries.about(request_id)):
            return False
        return self._routing.unreachable(found.request.agent, found.state.refused)

    def refused(self, event: Event, delivery: Delivery) -> list[DeliveryQueue]:
        """Move the requests in a refused message to the recipient's next channel."""
        touched = list[DeliveryQueue]()
        for item in delivery.items:
            touched += self._move(event, delivery.recipient, item)
            touched += self._readdress(event, delivery.recipient, item)
        return touched

    def down(self, event: Event, channel: str) -> list[DeliveryQueue]:
        """Move the requests of a channel that is down to the recipients' next channels."""
        touched = list[DeliveryQueue]()
        for queue in self._routing.on(channel):
            touched += self._leave(event, queue)
        return touched

    def _leave(self, event: Event, queue: DeliveryQueue) -> list[DeliveryQueue]:
        touched = list[DeliveryQueue]()
        waiting = [item for batch in queue.rows.values() for item in batch.items.values()]
        for item in waiting:
            if moved := self._move(event, queue.recipient, item):
                queue.drop(item.ref)
                touched += moved
            touched += self._readdress(event, queue.recipient, item)
        for delivery in self._deliveries.under_way():
            if delivery.queue == queue.key:
                for item in delivery.items:
                    touched += self._move(event, queue.recipient, item)
                    touched += self._readdress(event, queue.recipient, item)
        return touched

    def _move(self, event: Event, recipient: str, item: Item) -> list[DeliveryQueue]:
        """Queue an item on the recipient's next channel, unless it is already there."""
        if item.kind == "alert":
            return self._alerts.move(event, recipient, item)
        found = self._reminders.find(item.ref)
        if found is None:
            return []
        who = self._routing.find(recipient)
        if who is None or not self._routing.steps(who):
            return []
        (addressed,) = self._audience.one(who, found.request, event.at, found.state.refused)
        queue = addressed.queue
        if self._routing.shut(queue, found.state.refused) or self._has(queue, item.ref):
            return []
        slot = self._slots.request(addressed, found.request, event, soon=True)
        queue.put(item, slot, event.at)
        return [queue]

    def _readdress(self, event: Event, recipient: str, item: Item) -> list[DeliveryQueue]:
        """Send a request that nobody has received to other recipients at once."""
        found, who = self._reminders.find(item.ref), self._routing.find(recipient)
        if found is None or found.state.told or who is None or not self._routing.steps(who):
            return []
        touched = list[DeliveryQueue]()
        for each in self._audience.of(found.request, event.at, found.state.refused):
            if each.queue.recipient != recipient and not self._sent(each.queue, item.ref):
                slot = self._slots.request(each, found.request, event, soon=True)
                each.queue.put(item, slot, event.at)
                touched.append(each.queue)
        return touched

    def _has(self, queue: DeliveryQueue, ref: str) -> bool:
        """Return True if a request is in this queue, or in a message from it that was not lost."""
        return queue.holds(ref) or self._sent(queue, ref)

    def _sent(self, queue: DeliveryQueue, ref: str) -> bool:
        known = (each for each in self._deliveries.about(ref) if each.queue == queue.key)
        return any(each.under_way or each.arrived for each in known)
