"""The audience of a request: who gets it, on which channels, and who gets it first.

An urgent request is sent at once to the people on duty. If none of them can be reached, the next
person or a backup gets it too. Any other request goes to one person first, to others later.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from safetyd.core.anonymous_pool import counted_as
from safetyd.core.approvals.request import Request
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.delivery_queue import Addressed, DeliveryQueue
from safetyd.core.outbox.duty import Duty
from safetyd.core.outbox.routing import Routing
from safetyd.core.outbox.slots import Slots
from safetyd.core.recipients import Recipient, TellingConfig

UNRECEIVED_S: Final = 300.0


class NextChannel(NamedTuple):
    """A person's next channel for a request, and how long after the first message it follows."""

    who: Recipient
    addressed: Addressed
    wait: timedelta


class Audience:
    """Chooses the queues for a request."""

    def __init__(self, config: TellingConfig, routing: Routing, slots: Slots, duty: Duty) -> None:
        calm = config.calmness
        self._next_s = calm.next_channel_s
        self._urgent_next_s = calm.urgent_next_channel_s
        # Until a backup gets a request that nobody has received.
        self.urgent_wait = timedelta(seconds=calm.urgent_next_channel_s or UNRECEIVED_S)
        self._routing = routing
        self._slots = slots
        self._duty = duty

    def people(self, agent: str) -> list[Recipient]:
        """Return everybody who can get requests of an agent."""
        return self._routing.people(agent)

    def of(self, request: Request, at: datetime, refused: Collection[str] = ()) -> list[Addressed]:
        """Return the queues for a new request."""
        people = self._people(request, at)
        found = [each for who in people for each in self.one(who, request, at, refused)]
        if request.urgency != "high":
            return self._one_first(found, at)
        if not any(self._at_once(each, request, at) for each in found):
            found = _instead(found, self._replacement(people, request, at))
        if not any(each.urgent for each in found):
            return found
        return [each._replace(first=each.urgent) for each in found]

    def one(
        self,
        who: Recipient,
        request: Request,
        at: datetime,
        refused: Collection[str] = (),
        *,
        backup: bool = False,
    ) -> list[Addressed]:
        """Return the queues of one recipient for a request."""
        urgent = self._wakes(who, request, at, backup=backup)
        urgency: Urgency = "high" if urgent else "normal"
        full = self._full(request, at) if urgent else None
        queues = self._routing.queues(who, urgency, at, refused, full)
        return [Addressed(queue, urgent) for queue in queues]

    def reminded(
        self, request: Request, at: datetime, refused: Collection[str], *, backup: bool
    ) -> list[Addressed]:
        """Return the queues for a reminder or a last call, with those of the backups."""
        people = self._people(request, at)
        found = [each for who in people for each in self.one(who, request, at, refused)]
        backups = self._backups(people, at) if backup else ()
        extra = (self.one(who, request, at, refused, backup=True) for who in backups)
        return _instead(found, [each for queues in extra for each in queues])

    def next_channels(
        self, request: Request, at: datetime, used: Collection[str] = ()
    ) -> Iterator[NextChannel]:
        """Yield the next channel of each person who has one."""
        for who in self._people(request, at):
            urgent = self._wakes(who, request, at)
            urgency: Urgency = "high" if urgent else "normal"
            first = self._routing.queues(who, urgency, at)
            known = {*used, *(queue.key for queue in first)}
            following = self._routing.following(who, urgency, at, known)
            if following and (wait := self._wait(who, first[0].channel, urgency)):
                yield NextChannel(who, Addressed(following[0], urgent), timedelta(seconds=wait))

    def _people(self, request: Request, at: datetime) -> list[Recipient]:
        """Return the recipients of a request, without those who are off duty."""
        hearing = self._routing.people(request.agent)
        on = [who for who in hearing if not self._duty.off(who.name, at)]
        if request.urgency == "high" or not on:
            return on or hearing
        fitting = [who for who in on if self._routing.fits(who, "normal", at)]
        if any(self._awake(who, at) for who in fitting):
            # Somebody waits for the answer, so that it may have to go to the phone in time.
            return on if request.asked.proposal.wait else fitting
        spare = [who for who in hearing if who not in fitting and self._awake(who, at)]
        # People on duty come before people who are off duty.
        spare.sort(key=on.__contains__, reverse=True)
        return fitting + spare[:1] or on

    def _one_first(self, found: Sequence[Addressed], at: datetime) -> list[Addressed]:
        """Choose who gets a request before others do. Shared channels do not wait for people.

        That is one person who is awake and can be reached: by mail rather than on the phone, and
        then whoever may get the next message first.
        """
        usable = [each.queue for each in found if self._usable(each.queue, at)]
        if not usable:
            return list(found)
        lead = min(usable, key=lambda queue: self._calm(queue, at)).recipient
        return [
            each._replace(first=each.queue.recipient == lead or self._routing.is_shared(each.queue))
            for each in found
        ]

    def _replacement(
        self, people: Sequence[Recipient], request: Request, at: datetime
    ) -> list[Addressed]:
        """Return the queues of somebody else who gets an urgent request at once."""
        for who in self._routing.others(people, request.agent, at):
            found = self.one(who, request, at)
            if any(self._at_once(each, request, at) for each in found):
                return found
        for who in self._backups(people, at):
            found = self.one(who, request, at, backup=True)
            if any(self._at_once(each, request, at) for each in found):
                return found
        return []

    def _backups(self, people: Sequence[Recipient], at: datetime) -> list[Recipient]:
        """Return the backups of the people who are on duty."""
        return self._routing.backups([w for w in people if self._duty.covers(w.name, at)])

    def _at_once(self, addressed: Addressed, request: Request, at: datetime) -> bool:
        """Return True if an urgent request can reach a person without delay."""
        queue, full = addressed.queue, self._full(request, at)
        up = not self._routing.is_down(queue.channel) and not self._routing.is_shared(queue)
        return addressed.urgent and up and not full(queue)

    def _usable(self, queue: DeliveryQueue, at: datetime) -> bool:
        up = not self._routing.is_down(queue.channel) and not self._routing.is_shared(queue)
        return up and self._slots.quiet_until(queue.recipient, at) is None

    def _awake(self, who: Recipient, at: datetime) -> bool:
        return not who.shared and self._slots.quiet_until(who.name, at) is None

    def _calm(self, queue: DeliveryQueue, at: datetime) -> tuple[bool, datetime]:
        pace = self._slots.pace
        free_at = pace.next_at(queue.recipient, queue.channel, at)
        return pace.is_phone(queue.channel), max(at, free_at or at)

    def _wait(self, who: Recipient, channel: str, urgency: Urgency) -> float:
        own = who.use(channel).wait_s
        usual = self._urgent_next_s if urgency == "high" else self._next_s
        return usual if own is None else min(own, usual)

    def _wakes(
        self, who: Recipient, request: Request, at: datetime, *, backup: bool = False
    ) -> bool:
        urgent = request.urgency == "high"
        return urgent and self._slots.reaches(who.name, request, at, backup=backup)

    def _full(self, request: Request, at: datetime) -> Callable[[DeliveryQueue], bool]:
        """Return a function that says whether an urgent request would wait in a queue."""
        party = counted_as(request.asked)
        return lambda queue: self._slots.full(queue, party, at)


def _instead(found: Sequence[Addressed], better: Sequence[Addressed]) -> list[Addressed]:
    """Return both lists, without recipients of the first that are in the second."""
    names = {each.queue.recipient for each in better}
    return [*(each for each in found if each.queue.recipient not in names), *better]
