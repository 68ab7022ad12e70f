"""The outbox: who is told of requests, when, and again if nobody answers.

It must hear of everything after the queue did.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from safetyd.core.actor import Handler, hearing, on
from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import UNPAUSE, request_id
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Decided, Transcribed
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import AnomalyFound, BudgetMarked, Paused, Resumed, Stopped
from safetyd.core.events.notification_events import (
    Announced,
    ChannelMoved,
    Climbed,
    Due,
    Item,
    LinkRevoked,
    NotTold,
    Told,
    Unparked,
)
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Deferred,
    Expired,
    Released,
    Superseded,
)
from safetyd.core.messages.verdict import ALLOW
from safetyd.core.outbox.alert_rules import HEARD
from safetyd.core.outbox.deliveries import Delivery, Keyless
from safetyd.core.outbox.delivery_queue import DeliveryQueue, Slot
from safetyd.core.outbox.escalation import EscalationStep
from safetyd.core.outbox.reminders import Reminders
from safetyd.core.recipients import TellingConfig

MAX_LATE: Final = 1_000  # things in a lane, beyond which what expired is not told


class Outbox(Reminders):
    name = "outbox"

    def __init__(self, config: TellingConfig, approvals: Approvals, keyless: Keyless) -> None:
        super().__init__(config, approvals, keyless)
        hears = dict(
            hearing(
                on(Decided, self._decided),
                on(Paused, self._paused),
                on(Deferred, self._deferred),
                on(Answered, self._answered),
                on(Released, self._answered),
                on(Cancelled, self._answered),
                on(Superseded, self._answered),
                on(Expired, self._expired),
                on(Stopped, self._stopped),
                on(AnomalyFound, self._found),
                on(Resumed, self._resumed),
                on(BudgetMarked, self._marked),
                on(Transcribed, self._transcribed),
                on(Announced, self._announced),
                on(Due, self._was_due),
                on(Told, self._was_told),
                on(NotTold, self._was_not_told),
                on(Unparked, self._unparked),
                on(ChannelMoved, self._channel_moved),
                on(Climbed, self._climbed),
                on(LinkRevoked, self._link_revoked),
                on(ClockStepped, self._stepped),
                on(Ticked, self._ticked),
            )
        )
        for kind in (kind for kind in HEARD if kind is not Decided):
            hears[kind] = self._and_alerted(hears.get(kind))
        self.hears = hears

    @property
    def down(self) -> tuple[str, ...]:
        """The channels that take nothing now."""
        return tuple(self._state.down)

    def _and_alerted(self, act: Handler | None) -> Handler:
        """Let an event also be an alert, besides what else it is."""
        if act is None:
            return self._alerted
        return lambda event: [*(act(event) or ()), *self._alerted(event)]

    def _decided(self, event: Decided) -> Sequence[Event]:
        if event.decision is ALLOW:
            return ()  # before anything else, because most are
        asks = event.asks
        if asks is None:
            return self._alerted(event)
        if asks.joins or self.idle:
            return ()
        self._state.demands.asked(event.agent, event.t)
        return self._ask(event, asks.request_id)

    def _paused(self, event: Paused) -> Sequence[Event]:
        if event.source != "anomaly" or self.idle:
            return ()
        return self._ask(event, request_id(event.agent, UNPAUSE, event.seq))

    def _ask(self, event: Event, id_: str) -> Sequence[Event]:
        request = self._approvals.find(id_)
        if request is None or not request.pending or id_ in self._state.cases:
            return ()
        lanes = self._lanes(self._routes.request(request.agent, self._shut(None)))
        if self._too_calm(request.urgency):
            self._hold_back(lanes)
            return ()
        self._open_case(request)
        for lane in lanes:
            lane.put(Item("request", id_), self._place(lane, request, event), event.at)
        return self._due(event, lanes)

    def _deferred(self, event: Deferred) -> None:
        found = self._pending(event.request_id)
        if found is None:
            return
        case, _ = found
        case.tell_by = None
        self._drop(event.request_id)
        self._plan(event.request_id, case, EscalationStep(event.until))

    def _answered(self, event: Answered | Released | Cancelled | Superseded) -> None:
        self._end(event.request_id)

    def _expired(self, event: Expired) -> None:
        for id_ in event.request_ids:
            slept = self._slept_over(id_, event.at)
            self._end(id_)
            for lane in slept:
                lane.put(Item("expired", id_), Slot("batch", "batch", event.at), event.at)

    def _slept_over(self, id_: str, at: datetime) -> list[DeliveryQueue]:
        """Return where people sleep who never heard of a request that its agent waited for."""
        case, request = self._state.cases.get(id_), self._approvals.find(id_)
        if case is None or case.last_at is not None or request is None:
            return []
        if not request.asked.proposal.wait:
            return []
        lanes = (lane for lane in self._state.lanes.values() if lane.holds(id_))
        asleep = (lane for lane in lanes if self.quiet_until(lane.recipient, at) is not None)
        return [lane for lane in asleep if lane.count() <= MAX_LATE]

    def _end(self, id_: str) -> None:
        # An answer may come second, and then ends nothing.
        if id_ in self._state.cases and self._pending(id_) is None:
            del self._state.cases[id_]
            self._drop(id_)

    def _was_due(self, event: Due) -> Sequence[Event]:
        delivery = self._sent(event)
        if delivery is None:
            return ()
        lane = self._state.lanes[delivery.lane]
        for case, request in self._cases(delivery):
            case.last_at = event.at
            lane.told_about(request.agent, event.at)
        return self._due(event, (lane,))

    def _was_told(self, event: Told) -> Sequence[Event]:
        delivery = self._take_told(event)
        if delivery is None:
            return ()
        for case, _ in self._cases(delivery):
            case.told = True
            if delivery.lane in case.refused:
                case.refused.remove(delivery.lane)
        return self._closed(event, delivery)

    def _was_not_told(self, event: NotTold) -> Sequence[Event]:
        delivery = self.find(event.delivery)
        late = event.state in {"dead", "undelivered"}
        if delivery is None or not (delivery.under_way or (late and delivery.state == "accepted")):
            return ()
        self._deliveries.not_told(delivery, event)
        touched = list[DeliveryQueue]()
        if event.state == "quiet":
            self._put_back(event, delivery)
        elif late or event.state == "parked":
            touched = self._refuse(event, delivery)
        freed = () if delivery.under_way else self._closed(event, delivery)
        return [*freed, *self._due(event, touched)]

    def _put_back(self, event: NotTold, delivery: Delivery) -> None:
        """Let a message's things wait for the morning; a test is of no use then."""
        lane = self._state.lanes[delivery.lane]
        for item in (item for item in self.pending(delivery) if item.kind != "test"):
            lane.put(item, Slot("batch", "batch", event.at), event.at)
        for case, request in self._cases(delivery):
            case.tell_by = self._tell_by(request, event.at, event.t)

    def _refuse(self, event: Event, delivery: Delivery) -> list[DeliveryQueue]:
        """Take note that a channel does not take it; return the lanes that come instead."""
        touched = list[DeliveryQueue]()
        for item in delivery.items:
            if (found := self._pending(item.ref)) is None:
                continue
            case, _ = found
            if delivery.lane not in case.refused:
                case.refused.append(delivery.lane)
            touched += self._move_on(event, delivery.recipient, item)
        return touched

    def _channel_moved(self, event: ChannelMoved) -> Sequence[Event]:
        down = self._state.down
        if event.channel in down:
            down.remove(event.channel)
        if event.up:
            return self._mended(event)
        self._broken(event.channel)
        down.append(event.channel)
        touched = list[DeliveryQueue]()
        for lane in self._state.lanes.values():
            if lane.channel == event.channel:
                touched += self._leave(event, lane)
        return self._due(event, touched)

    def _leave(self, event: Event, lane: DeliveryQueue) -> list[DeliveryQueue]:
        """Let the requests of a lane go on to the next, if there is one."""
        touched = list[DeliveryQueue]()
        waiting = [item for row in lane.rows.values() for item in row.items.values()]
        for item in waiting:
            if moved := self._move_on(event, lane.recipient, item):
                lane.drop(item.ref)
                touched += moved
        for delivery in self._deliveries.under_way():
            if delivery.lane == lane.key:
                for item in delivery.items:
                    touched += self._move_on(event, lane.recipient, item)
        return touched

    def _move_on(self, event: Event, recipient: str, item: Item) -> list[DeliveryQueue]:
        """Let the next channel have it, unless it had it before."""
        found = self._pending(item.ref)
        if found is None:
            return []
        case, request = found
        name = self._routes.next(recipient, self._shut(case))
        if name is None or self._has(name, item.ref):
            return []
        lane = self._state.lanes[name]
        lane.put(item, self._place(lane, request, event, soon=True), event.at)
        return [lane]

    def _has(self, lane: str, ref: str) -> bool:
        """Say whether something is told in a lane, or is about to be."""
        if self._state.lanes[lane].holds(ref):
            return True
        known = (delivery for delivery in self.told(ref) if delivery.lane == lane)
        return any(each.under_way or each.arrived for each in known)

    def _ticked(self, tick: Ticked) -> Sequence[Event]:
        # The journal of a version that held back more leaves promises that nobody keeps.
        self._promised.clear()
        dues = self._due(tick, self._state.lanes.values())
        steps = tuple(self._steps_due(tick.at))
        return [*dues, Climbed(at=tick.at, t=tick.t, steps=steps)] if steps else dues

    def _climbed(self, event: Climbed) -> Sequence[Event]:
        touched = list[DeliveryQueue]()
        for item in event.steps:
            if (found := self._pending(item.ref)) is None:
                continue
            case, request = found
            backup = case.next is not None and case.next.backup
            case.step = item.step
            self._climb(request, case, event.at)
            touched += self._remind(event, request, case, item, backup=backup)
        return self._due(event, touched)
