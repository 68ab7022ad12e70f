"""The audience of a request: who gets it now, and on which channels."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from safetyd.core.anonymous_pool import counted_as
from safetyd.core.approvals.request import Request
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.delivery_queue import DeliveryQueue
from safetyd.core.outbox.routing import Routing
from safetyd.core.outbox.slots import Slots
from safetyd.core.recipients import Recipient, TellingConfig

class NextChannel(NamedTuple):
    """A person's next channel for a request, and how long after the request it follows."""

    who: Recipient
    queue: DeliveryQueue
    wait: timedelta


class Audience:
    """Chooses the queues for a request."""

    def __init__(self, config: TellingConfig, routing: Routing, slots: Slots) -> None:
        self._next_s = config.next_channel_s
        self._urgent_next_s = config.urgent_next_channel_s
        self._routing = routing
        self._slots = slots

    def first(
        self, request: Request, at: datetime, refused: Collection[str] = ()
    ) -> list[DeliveryQueue]:
        """Return the queues for a new request.

        If it is urgent and reaches none of its recipients now, somebody else gets it as well.
        """
        people = self._routing.responsible(request, at)
        if request.urgency == "high" and not self._reaches_any(people, request, at):
            others = self._routing.others(people, request.agent, at)
            found = [who for who in others if self._reaches(who, request, at)]
            people += found[:1] or [
                who
                for who in self._routing.backups(people)
                if self._slots.reaches(who.name, request, at, backup=True)
            ][:1]
        return [queue for who in people for queue in self.queues(who, request, at, refused)]

    def firsts(
        self, request: Request, queues: Sequence[DeliveryQueue], at: datetime
    ) -> frozenset[str]:
        """Return the recipients who get a request before others do, or none if all are equal.

        An urgent request goes first to everybody whom it reaches at once. Any other request goes
        first to one person who is awake and can be reached: by mail rather than on the phone, and
        then to whoever may get the next message first. Shared channels do not wait for people.
        """
        if request.urgency == "high":
            return frozenset(
                queue.recipient
                for queue in queues
                if self._slots.reaches(queue.recipient, request, at)
            )
        usable = [queue for queue in queues if self._usable(queue, at)]
        if not usable:
            return frozenset()
        lead = min(usable, key=lambda queue: self._calm(queue, at))
        shared = (queue.recipient for queue in queues if self._routing.is_shared(queue))
        return frozenset((lead.recipient, *shared))

    def queues(
        self, who: Recipient, request: Request, at: datetime, refused: Collection[str] = ()
    ) -> list[DeliveryQueue]:
        """Return the queues of one recipient for a request."""
        urgency = self._urgency(who, request, at)
        full = None if urgency != "high" else lambda queue: self._full(queue, request, at)
        return self._routing.queues(who, urgency, at, refused, full)

    def reminded(
        self, request: Request, at: datetime, refused: Collection[str], *, backup: bool
    ) -> list[DeliveryQueue]:
        """Return the queues for a reminder or a last call, with those of the backups."""
        people = self._routing.responsible(request, at)
        if backup:
            people += self._routing.backups(people)
        return [queue for who in people for queue in self.queues(who, request, at, refused)]

    def next_channels(
        self, request: Request, at: datetime, used: Collection[str] = ()
    ) -> Iterator[NextChannel]:
        """Yield the next channel of each person who has one."""
        for who in self._routing.responsible(request, at):
            urgency = self._urgency(who, request, at)
            first = self._routing.queues(who, urgency, at)
            known = {*used, *(queue.key for queue in first)}
            following = self._routing.following(who, urgency, at, known)
            if following and (wait := self._wait(who, first[0].channel, urgency)):
                yield NextChannel(who, following[0], timedelta(seconds=wait))

    def _usable(self, queue: DeliveryQueue, at: datetime) -> bool:
        who = self._routing.find(queue.recipient)
        up = who is not None and not who.shared and not self._routing.is_down(queue.channel)
        return up and self._slots.quiet_until(queue.recipient, at) is None

    def _calm(self, queue: DeliveryQueue, at: datetime) -> tuple[bool, datetime]:
        pace = self._slots.pace
        free_at = pace.next_at(queue.recipient, queue.channel, at)
        return pace.is_phone(queue.channel), max(at, free_at or at)

    def _wait(self, who: Recipient, channel: str, urgency: Urgency) -> float:
        own = who.use(channel).wait_s
        usual = self._urgent_next_s if urgency == "high" else self._next_s
        return usual if own is None else min(own, usual)

    def _urgency(self, who: Recipient, request: Request, at: datetime) -> Urgency:
        """Return the urgency of a request for a recipient: normal, if others get it at once."""
        if request.urgency != "high" or self._reaches(who, request, at):
            return request.urgency
        return "normal"

    def _reaches(self, who: Recipient, request: Request, at: datetime) -> bool:
        return self._slots.reaches(who.name, request, at)

    def _reaches_any(self, people: Collection[Recipient], request: Request, at: datetime) -> bool:
        """Return True if any person gets an urgent request immediately."""
        for who in people:
            if not who.shared and self._reaches(who, request, at):
                found = self._routing.queues(who, "high", at)
                up = [queue for queue in found if not self._routing.is_down(queue.channel)]
                if any(not self._full(queue, request, at) for queue in up):
                    return True
        return not any(not who.shared for who in people)

    def _full(self, queue: DeliveryQueue, request: Request, at: datetime) -> bool:
        return self._slots.full(queue, counted_as(request.asked), at)
