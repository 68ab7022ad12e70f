"""Cases: how people are told of requests that are pending, and told again."""

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from safetyd.core.approvals.request import Request
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Climbed, Item
from safetyd.core.outbox.alerts import AllClear
from safetyd.core.outbox.bundling import MAX_PER_TICK, OutboxState, ReminderState
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.outbox.delivery_queue import (
    MAX_WOKEN,
    MAX_WOKEN_IN_ALL,
    STORM_GAP,
    DeliveryQueue,
    Slot,
    shifted,
    storm_row,
)
from safetyd.core.outbox.escalation import APART, EscalationStep, next_step
from safetyd.core.party import party

SOONEST: Final = timedelta(minutes=2)  # before a deadline that people are told, at least
UNNOTIFIED: Final = timedelta(minutes=1)  # at least, before nobody's being told is a failure


class Reminders(AllClear):
    def undeliverable(self, request_id: str) -> bool:
        """Say whether every channel on which it could be told refused it or is down."""
        found = self._pending(request_id)
        if found is None or any(each.arrived for each in self.told(request_id)):
            return False
        case, request = found
        lanes, shut = self._routes.concerned(request.agent), self._shut(case)
        return bool(lanes) and all(lane in shut for lane in lanes)

    def unnotified(self, at: datetime) -> int:
        """Return of how many requests somebody should know by now, and nobody does."""
        cases = self._state.cases.values()
        return sum(not c.told and c.tell_by is not None and c.tell_by < at for c in cases)

    def _take_on(self, state: OutboxState) -> None:
        before = state.lanes.keys()
        super()._take_on(state)
        self._order_steps()
        # Not whenever a state is loaded: that must not change it.
        if before != state.lanes.keys():
            self._adopt()

    def _by_number(self, item: Item) -> bool:
        """Say the same of a reminder if somebody knows of its request."""
        case = self._state.cases.get(item.ref)
        reminds = item.kind in {"reminder", "last_call"} and case is not None and case.told
        return reminds or super()._by_number(item)

    def _order_steps(self) -> None:
        cases = self._state.cases.items()
        self._steps = [(case.next.at, id_) for id_, case in cases if case.next is not None]
        heapq.heapify(self._steps)

    def _stepped(self, event: ClockStepped) -> None:
        super()._stepped(event)
        by = timedelta(seconds=event.seconds)
        for case in self._state.cases.values():
            case.stepped_s += event.seconds
            case.tell_by, case.last_at = shifted(case.tell_by, by), shifted(case.last_at, by)
            if case.next is not None:
                case.next = msgspec.structs.replace(case.next, at=case.next.at + by)
        self._order_steps()

    def _adopt(self) -> None:
        """Let those who can be told now know what nobody else knows, with the next batch."""
        for request in self._approvals.pending():
            case = self._state.cases.get(request.id)
            if self._too_calm(request.urgency) or (case and not self._forlorn(request.id, case)):
                continue
            case = case or self._open_case(request)
            for lane in self._lanes(self._routes.request(request.agent, self._shut(case))):
                at = request.asked.at
                lane.put(Item("request", request.id), Slot("batch", "batch", at), at)

    def _forlorn(self, id_: str, case: ReminderState) -> bool:
        """Say whether nobody knows of a request, and nothing is done about that."""
        if case.told or case.tell_by is None or self._holds(id_):
            return False
        return not any(delivery.under_way for delivery in self.told(id_))

    def _open_case(self, request: Request) -> ReminderState:
        asked = request.asked
        case = ReminderState(self._tell_by(request, asked.at, asked.t))
        self._state.cases[request.id] = case
        self._climb(request, case, asked.at)
        return case

    def _tell_by(self, request: Request, at: datetime, t: float) -> datetime | None:
        """Return when somebody should know; quiet hours do not count."""
        patience = max(3 * self._interval, UNNOTIFIED)
        if self._storms(request, t):
            patience += STORM_GAP
        lanes = self._lanes(self._routes.concerned(request.agent))
        people = dict.fromkeys(lane.recipient for lane in lanes)
        begins = (self.quiet_until(name, at + self._interval) or at for name in people)
        # If nobody hears of its agent, somebody should all the same.
        return min((begin + patience for begin in begins), default=at + patience)

    def _place(
        self, lane: DeliveryQueue, request: Request, event: Event, *, soon: bool = False
    ) -> Slot:
        """Return where something about a request waits; `soon`: for no batch."""
        urgent = request.urgency == "high" and self._wakes(lane.recipient, request, event.at)
        place = self._usual("high" if urgent else "normal", event.at, party(request.asked))
        flush_at = event.at if soon else self._flush_at(place, request, event.at)
        if not (self._storms(request, event.t) and lane.told_lately(request.agent, event.at)):
            return place._replace(flush_at=flush_at)
        row = storm_row(place.sort, request.agent)
        return place._replace(row=row, flush_at=flush_at, agent=request.agent)

    def _flush_at(self, place: Slot, request: Request, at: datetime) -> datetime:
        """Return when it goes out: early enough for an answer."""
        if request.deadline is None:
            return place.flush_at
        needed = max(SOONEST, (request.deadline - request.asked.at) / 4)
        return max(at, min(place.flush_at, request.deadline - needed))

    def _wakes(self, recipient: str, request: Request, at: datetime) -> bool:
        """Say whether somebody may be told now: at night of what its agent calls urgent."""
        until = self.quiet_until(recipient, at)
        if until is None:
            return True
        if self._config.quiet_bypass == "none" or request.asked.proposal.urgency != "high":
            return False
        wakes = self._state.demands.wakes
        # What is one too many of a party must not count against the others.
        few = wakes(f"{recipient}/{party(request.asked)}", request.id, at, until, MAX_WOKEN)
        return few and wakes(recipient, request.id, at, until, MAX_WOKEN_IN_ALL)

    def _storms(self, request: Request, t: float) -> bool:
        # That an agent was paused is not the agent's own question.
        return not request.own and self._state.demands.storms(request.agent, t)

    def _steps_due(self, at: datetime) -> Iterator[Item]:
        """Yield the steps whose time has come, the earliest first."""
        due = dict[str, EscalationStep]()
        while self._steps and self._steps[0][0] <= at and len(due) < MAX_PER_TICK:
            planned, id_ = heapq.heappop(self._steps)
            if (step := self._planned(id_, planned, at)) is not None:
                due[id_] = step
        for id_, step in due.items():
            yield Item(step.kind, id_, self._state.cases[id_].step + 1)

    def _planned(self, id_: str, planned: datetime, at: datetime) -> EscalationStep | None:
        """Return the step that is due unless the request is over or it was planned anew."""
        found = self._pending(id_)
        if found is None:
            return None
        case, request = found
        if case.next is None or case.next.at != planned:
            return None
        return case.next if request.deadline is None or request.deadline > at else None

    def _climb(self, request: Request, case: ReminderState, after: datetime) -> None:
        asked = request.asked.at + timedelta(seconds=case.stepped_s)
        self._plan(request.id, case, next_step(request.urgency, asked, request.deadline, after))

    def _plan(self, id_: str, case: ReminderState, step: EscalationStep | None) -> None:
        case.next = step
        if step is not None:
            heapq.heappush(self._steps, (step.at, id_))

    def _remind(
        self, event: Climbed, request: Request, case: ReminderState, item: Item, *, backup: bool
    ) -> list[DeliveryQueue]:
        shut, urgent = self._shut(case), request.urgency == "high"
        usual = self._routes.request(request.agent, shut, everywhere=urgent)
        all_ = self._routes.request(request.agent, shut, everywhere=urgent, backup=backup)
        just_told = case.last_at is not None and case.last_at <= event.at < case.last_at + APART
        lanes = [lane for lane in self._lanes(all_) if not just_told or lane.key not in usual]
        return [lane for lane in lanes if self._reminds(event, request, lane, item)]

    def _reminds(self, event: Climbed, request: Request, lane: DeliveryQueue, item: Item) -> bool:
        """Let a reminder wait, unless a message about the request waits or is under way."""
        if lane.holds(request.id):
            if item.kind == "last_call":
                lane.change(item)
            return False
        if any(each.under_way and each.lane == lane.key for each in self.told(request.id)):
            return False
        lane.put(item, self._place(lane, request, event), event.at)
        return True

    def _pending(self, id_: str) -> tuple[ReminderState, Request] | None:
        """Return what is known of a request that is pending, if people are told of it."""
        case, request = self._state.cases.get(id_), self._approvals.find(id_)
        if case is None or request is None or not request.pending:
            return None
        return case, request

    def _cases(self, delivery: Delivery) -> Iterator[tuple[ReminderState, Request]]:
        """Yield what a message tells of and is still pending."""
        found = (self._pending(item.ref) for item in delivery.items)
        return (pair for pair in found if pair is not None)

    def _shut(self, case: ReminderState | None) -> frozenset[str]:
        """Return the lanes that refused it, or whose channel is down."""
        down = self._state.down
        shut = [lane.key for lane in self._state.lanes.values() if lane.channel in down]
        return frozenset(shut if case is None else (*shut, *case.refused))

    def _lanes(self, names: Iterable[str]) -> list[DeliveryQueue]:
        return [self._state.lanes[name] for name in names]
