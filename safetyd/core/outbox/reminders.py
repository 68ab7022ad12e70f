"""Queues notifications about pending requests, and escalates them until they are answered."""

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import Request
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Climbed, Item, LinkOpened, NotTold
from safetyd.core.events.request_events import Deferred, Expired
from safetyd.core.outbox.audience import Audience, NextChannel
from safetyd.core.outbox.deliveries import Deliveries, Delivery
from safetyd.core.outbox.delivery_queue import (
    STORM_GAP,
    Addressed,
    DeliveryQueue,
    DeliveryQueues,
    Slot,
    hold_back,
    key,
    news,
    shifted,
)
from safetyd.core.outbox.escalation import (
    APART,
    REPEATED,
    TOGETHER,
    TOGETHER_URGENT,
    EscalationStep,
    Unanswered,
    next_step,
)
from safetyd.core.outbox.slots import Slots
from safetyd.core.recipients import Recipient

MAX_LATE: Final = 1_000  # in a queue with more items, expired requests are not reported
MAX_STEPS: Final = 64  # per tick
# Minimum delay after which a request counts as undelivered.
NEVER: Final = datetime.min.replace(tzinfo=UTC)
AGAIN: Final = timedelta(minutes=15)  # until a request that nobody received is sent again
UNNOTIFIED: Final = timedelta(minutes=1)


class ReminderState(msgspec.Struct, array_like=True):
    """The state of the notifications about a pending request."""

    tell_by: datetime | None  # someone must be notified by then; None if the request is deferred
    next: EscalationStep | None = None
    step: int = 0
    last_at: datetime | None = None  # time of the last message about it
    told: bool = False
    refused: list[str] = []  # queues whose channel failed to deliver it
    stepped_s: float = 0.0  # by how many seconds the wall clock was stepped since the request
    opened: list[str] = []  # recipients who opened a link to it
    first_at: datetime | None = None  # time of the first delivered message about it
    sent_at: dict[str, datetime] = {}  # time of the last message about it, by queue


class Reminded(NamedTuple):
    """A pending request and the state of its notifications."""

    state: ReminderState
    request: Request


class Reminders:
    """Queues requests. `states` maps request ids to states, oldest first.

    Methods that queue requests return the queues that they changed.
    """

    def __init__(
        self,
        states: dict[str, ReminderState],
        approvals: Approvals,
        queues: DeliveryQueues,
        deliveries: Deliveries,
        audience: Audience,
        slots: Slots,
    ) -> None:
        self._states = states
        self._approvals = approvals
        self._queues = queues
        self._deliveries = deliveries
        self._audience = audience
        self._slots = slots
        self._order_steps()

    def find(self, id_: str) -> Reminded | None:
        """Return a pending request with its state, or None if there is no such request."""
        state, request = self._states.get(id_), self._approvals.find(id_)
        if state is None or request is None or not request.pending:
            return None
        return Reminded(state, request)

    def all(self) -> Iterator[Reminded]:
        """Yield the pending requests, the oldest first."""
        return (found for found in map(self.find, self._states) if found is not None)

    @staticmethod
    def received_by(state: ReminderState, who: Recipient) -> datetime:
        """Return when the last message about a request was sent to a recipient."""
        queues = {key(who.name, channel) for channel in who.channels}
        sent_at = (sent for queue, sent in state.sent_at.items() if queue in queues)
        return max(sent_at, default=NEVER)

    def known(self, id_: str) -> bool:
        """Return True if a message about a request was delivered."""
        state = self._states.get(id_)
        return state is not None and state.told

    def unnotified(self, at: datetime) -> int:
        """Return the number of requests that reached nobody in time."""
        states = self._states.values()
        return sum(not s.told and s.tell_by is not None and s.tell_by < at for s in states)

    def ask(self, event: Event, id_: str) -> list[DeliveryQueue]:
        """Queue a new request."""
        request = self._approvals.find(id_)
        if request is None or not request.pending or id_ in self._states:
            return []
        audience = self._audience.of(request, event.at)
        if self._slots.too_calm(request.urgency):
            hold_back(each.queue for each in audience)
            return []
        self._begin(request)
        for each in audience:
            each.queue.put(
                Item("request", id_), self._slots.request(each, request, event), event.at
            )
        return [each.queue for each in audience]

    def hand_over(self, event: Event, who: Recipient) -> list[DeliveryQueue]:
        """Queue the pending requests for a recipient who did not get them yet."""
        touched = list[DeliveryQueue]()
        for state, request in self.all():
            known = any(each.recipient == who.name for each in self._deliveries.about(request.id))
            if known or not who.hears_of(request.agent):
                continue
            for each in self._audience.one(who, request, event.at, state.refused):
                slot = self._slots.request(each, request, event, soon=True)
                each.queue.put(Item("request", request.id), slot, event.at)
                touched.append(each.queue)
        return touched

    def adopt(self) -> list[DeliveryQueue]:
        """Queue pending requests that nobody received. Call it after routes have changed."""
        touched = list[DeliveryQueue]()
        for request in self._approvals.pending():
            state = self._states.get(request.id)
            calm = self._slots.too_calm(request.urgency)
            if calm or (state and not self._forlorn(request.id, state)):
                continue
            state = state or self._begin(request)
            at = request.asked.at
            for each in self._audience.of(request, at, state.refused):
                each.queue.put(Item("request", request.id), Slot("batch", "batch", at), at)
                touched.append(each.queue)
        return touched

    def deferred(self, event: Deferred) -> None:
        found = self.find(event.request_id)
        if found is None:
            return
        found.state.tell_by = None
        self._queues.drop(event.request_id)
        self._plan(event.request_id, found.state, EscalationStep(event.until))

    def end(self, id_: str) -> None:
        """Remove a request that is no longer pending."""
        # The event may not have closed the request, so check whether it is still pending.
        if id_ in self._states and self.find(id_) is None:
            del self._states[id_]
            self._queues.drop(id_)

    def expired(self, event: Expired) -> None:
        for id_ in event.request_ids:
            slept, informed = self._slept_over(id_, event.at), self._informed(id_, event.at)
            self.end(id_)
            for queue in informed:
                queue.put(Item("expired", id_), news(event.at), event.at)
            for queue in slept:
                queue.put(Item("expired", id_), Slot("batch", "batch", event.at), event.at)

    def sent(self, delivery: Delivery, queue: DeliveryQueue) -> None:
        """Record that a message is sent."""
        for state, request in self._of(delivery):
            state.last_at = state.sent_at[queue.key] = delivery.at
            queue.told_about(request.agent, delivery.at)

    def told(self, delivery: Delivery) -> None:
        """Record that a message was delivered. Other recipients can then wait longer."""
        for state, request in self._of(delivery):
            if not state.told:
                state.told, state.first_at = True, delivery.at
                self._plan_next(Reminded(state, request), delivery.at)
                for queue in self._queues:
                    latest = self._slots.latest(queue, request, delivery.at, first=False)
                    queue.relax(request.id, latest)
            if delivery.queue in state.refused:
                state.refused.remove(delivery.queue)

    def opened(self, event: LinkOpened) -> None:
        """Record that a recipient has seen requests."""
        for found in filter(None, map(self.find, event.request_ids)):
            if event.recipient not in found.state.opened:
                found.state.opened.append(event.recipient)

    def refused(self, event: NotTold, delivery: Delivery) -> None:
        """Record that a channel failed to deliver a message.

        If nobody has received a request, it is sent again later.
        """
        again = EscalationStep(event.at + AGAIN)
        for state, request in self._of(delivery):
            if delivery.queue not in state.refused:
                state.refused.append(delivery.queue)
            if not state.told and (state.next is None or state.next.at > again.at):
                self._plan(request.id, state, again)

    def wait(self, event: Event, delivery: Delivery) -> None:
        """Record that a message waits for the end of quiet hours."""
        for state, request in self._of(delivery):
            state.tell_by = self._tell_by(request, event.at, event.t)

    def due(self, at: datetime) -> tuple[Item, ...]:
        """Return the escalation steps that are due, the earliest first.

        Steps of the same kind that are planned soon afterwards take place at the same time.
        """
        due = dict[str, EscalationStep]()
        while self._steps and self._steps[0][0] <= at and len(due) < MAX_STEPS:
            planned, id_ = heapq.heappop(self._steps)
            if (step := self._planned(id_, planned, at)) is not None:
                due[id_] = step
        if due:
            due |= islice(self._soon(due, at), MAX_STEPS - len(due))
        return tuple(Item(due[id_].kind, id_, self._states[id_].step + 1) for id_ in due)

    def escalate(self, event: Climbed) -> list[DeliveryQueue]:
        """Queue the messages of the steps that are due, and plan the next steps."""
        touched = list[DeliveryQueue]()
        for item in event.steps:
            if (found := self.find(item.ref)) is None:
                continue
            step = found.state.next or EscalationStep(event.at)
            found.state.step = item.step
            self._plan_next(found, max(event.at, step.at))
            audience = self._escalated(found, event.at, step)
            touched += [a.queue for a in audience if self._reminds(event, found, a, item)]
        return touched

    def remind(self, event: Event, who: Recipient, found: Reminded) -> list[DeliveryQueue]:
        """Queue a reminder for one recipient, which is sent with all others of the recipient."""
        state, request = found
        state.step += 1
        audience = self._audience.one(who, request, event.at, state.refused)
        queues = [queue for queue, *_ in audience if not queue.holds(request.id)]
        for queue in queues:
            item = Item("reminder", request.id, state.step)
            queue.put(item, self._slots.reminder(request, event), event.at)
        return queues

    def shift(self, event: ClockStepped) -> None:
        """Shift all times after a step of the wall clock."""
        by = timedelta(seconds=event.seconds)
        for state in self._states.values():
            state.stepped_s += event.seconds
            state.tell_by, state.last_at = shifted(state.tell_by, by), shifted(state.last_at, by)
            state.first_at = shifted(state.first_at, by)
            state.sent_at = {key: at + by for key, at in state.sent_at.items()}
            if state.next is not None:
                state.next = msgspec.structs.replace(state.next, at=state.next.at + by)
        self._order_steps()

    def _begin(self, request: Request) -> ReminderState:
        asked = request.asked
        state = ReminderState(self._tell_by(request, asked.at, asked.t))
        self._states[request.id] = state
        self._plan_next(Reminded(state, request), asked.at)
        return state

    def _forlorn(self, id_: str, state: ReminderState) -> bool:
        """Return True if a request was not delivered, and is neither queued nor under way."""
        if state.told or state.tell_by is None or self._queues.hold(id_):
            return False
        return not self._deliveries.telling(id_)

    def _tell_by(self, request: Request, at: datetime, t: float) -> datetime | None:
        """Return the time by which someone must be notified. Quiet hours do not count."""
        interval, pace = self._slots.interval, self._slots.pace
        people = [who.name for who in self._audience.people(request.agent)]
        first = max(map(pace.first_within, people), default=interval)
        patience = max(first + 2 * interval, UNNOTIFIED)
        if self._slots.storms(request, t):
            patience += STORM_GAP
        begins = (self._slots.quiet_until(name, at + interval) or at for name in people)
        # A request without recipients also counts as undelivered.
        return min((begin + patience for begin in begins), default=at + patience)

    def _slept_over(self, id_: str, at: datetime) -> list[DeliveryQueue]:
        """Return the queues in which an expired request waited for the end of quiet hours.

        Return none if the request was sent before, or if its agent did not wait for the answer.
        """
        state, request = self._states.get(id_), self._approvals.find(id_)
        if state is None or state.last_at is not None or request is None:
            return []
        if not request.asked.proposal.wait:
            return []
        queues = (queue for queue in self._queues if queue.holds(id_))
        asleep = (q for q in queues if self._slots.quiet_until(q.recipient, at) is not None)
        return [queue for queue in asleep if queue.count() <= MAX_LATE]

    def _informed(self, id_: str, at: datetime) -> list[DeliveryQueue]:
        """Return the queues in which recipients learn that a request has expired.

        They received it some hours ago. One queue is enough for each recipient.
        """
        state = self._states.get(id_)
        sent_at = {} if state is None else state.sent_at
        found = [self._queues.find(name) for name, sent in sent_at.items() if sent <= at - REPEATED]
        queues = {queue.recipient: queue for queue in found if queue is not None}
        return [queue for queue in queues.values() if queue.count() <= MAX_LATE]

    def _of(self, delivery: Delivery) -> Iterator[Reminded]:
        """Yield the pending requests in a message."""
        found = (self.find(item.ref) for item in delivery.items)
        return (reminded for reminded in found if reminded is not None)

    def _order_steps(self) -> None:
        states = self._states.items()
        self._steps = [(state.next.at, id_) for id_, state in states if state.next is not None]
        heapq.heapify(self._steps)

    def _planned(self, id_: str, planned: datetime, at: datetime) -> EscalationStep | None:
        """Return the planned step, or None if the request has ended or the step was rescheduled."""
        found = self.find(id_)
        if found is None:
            return None
        step, deadline = found.state.next, found.request.deadline
        if step is None or step.at != planned:
            return None
        return step if deadline is None or deadline > at else None

    def _soon(
        self, due: dict[str, EscalationStep], at: datetime
    ) -> Iterator[tuple[str, EscalationStep]]:
        """Yield the steps that can take place together with those that are due."""
        sorts = {self._sort(id_, step) for id_, step in due.items()}
        for state, request in self.all():
            step = state.next
            if step is None or request.id in due or self._sort(request.id, step) not in sorts:
                continue
            within = TOGETHER_URGENT if request.urgency == "high" else TOGETHER
            if step.next_channel:
                within = min(within, (step.at - (state.first_at or request.asked.at)) / 2)
            if step.at <= at + within:
                yield request.id, step

    def _sort(self, id_: str, step: EscalationStep) -> tuple[bool, str, bool]:
        found = self.find(id_)
        urgent = found is not None and found.request.urgency == "high"
        return urgent, step.kind, step.next_channel

    def _plan_next(self, reminded: Reminded, after: datetime) -> None:
        state, request = reminded
        asked = request.asked.at + timedelta(seconds=state.stepped_s)
        urgent, waits = request.urgency == "high", set[timedelta]()
        if urgent or state.first_at is not None:
            waits = {each.wait for each in self._audience.next_channels(request, after)}
        if urgent:
            waits.add(self._audience.urgent_wait)
        unanswered = Unanswered(
            request.urgency,
            asked if urgent else state.first_at or asked,
            request.deadline,
            sorted(waits),
            pressing=request.asked.proposal.wait or request.asked.proposal.urgency == "high",
        )
        self._plan(request.id, state, next_step(unanswered, after))

    def _plan(self, id_: str, state: ReminderState, step: EscalationStep | None) -> None:
        state.next = step
        if step is not None:
            heapq.heappush(self._steps, (step.at, id_))

    def _escalated(self, reminded: Reminded, at: datetime, step: EscalationStep) -> list[Addressed]:
        """Return the queues for a step.

        People who have not opened the request get it on their next channel. Reminders, last calls
        and requests that nobody has received also go to everybody else, on the same channel as
        before.
        """
        state, request = reminded
        urgent, found = request.urgency == "high", list[Addressed]()
        if not step.next_channel or (urgent and not state.told):
            refused, backup = state.refused, step.backup or not state.told
            found = self._audience.reminded(request, at, refused, backup=backup)
        if urgent or step.next_channel:
            used = [each.queue for each in self._deliveries.about(request.id)]
            following = {
                each.who.name: each.addressed
                for each in self._audience.next_channels(request, at, used)
                # A program that checks mails could open the link of an urgent request.
                if urgent or self._follows(state, each, at)
            }
            found = [each for each in found if each.queue.recipient not in following]
            found += following.values()
        return found

    def _follows(self, state: ReminderState, following: NextChannel, at: datetime) -> bool:
        """Return True if a person has not opened a request, and received it long enough ago."""
        who, wait = following.who, following.wait
        new = who.name not in state.opened
        return new and self.received_by(state, who) <= at - _apart(wait)

    def _reminds(
        self, event: Climbed, reminded: Reminded, addressed: Addressed, item: Item
    ) -> bool:
        """Queue a reminder, unless the queue has the request, or has just sent it.

        Nobody is woken twice by the same request on the same channel.
        """
        request, queue = reminded.request, addressed.queue
        if (held := queue.find(request.id)) is not None:
            return self._hastens(event, reminded, addressed, item, *held)
        mine = [each for each in self._deliveries.about(request.id) if each.queue == queue.key]
        sent_at = reminded.state.sent_at.get(queue.key)
        lately = sent_at is not None and sent_at <= event.at < sent_at + APART
        if lately or any(each.under_way for each in mine):
            return False
        asleep = self._slots.quiet_until(queue.recipient, event.at) is not None
        if addressed.urgent and asleep and any(each.arrived for each in mine):
            return False
        if not reminded.state.told and queue.key in reminded.state.refused:
            slot = self._slots.alone(queue, request, event.at)
        elif item.kind == "last_call":
            slot = self._slots.reminder(request, event)
        else:
            slot = self._slots.request(addressed, request, event, item.kind)
        queue.put(item, slot, event.at)
        return True

    def _hastens(
        self,
        event: Climbed,
        reminded: Reminded,
        addressed: Addressed,
        step: Item,
        batch: str,
        held: Item,
    ) -> bool:
        """Change a queued item for a step. Return True if it is due earlier."""
        queue = addressed.queue
        if step.kind == "last_call":
            queue.change(step)
        elif addressed.urgent and queue.rows[batch].sort != "high":
            slot = self._slots.request(addressed, reminded.request, event, held.kind)
            queue.put(held, slot, event.at)
            return True
        return False


def _apart(wait: timedelta) -> timedelta:
    """Return how long ago a person must have received a request before the next channel follows."""
    return min(wait - min(TOGETHER, wait / 2), REPEATED)
