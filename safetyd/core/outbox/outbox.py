"""The outbox: chooses recipients and times for notifications and reminders.

It must observe each event after the approval queue does. Its parts put items into delivery queues,
and the outbox bundles the items into messages.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from safetyd.core.actor import Actor, Handler, hearing, on
from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import UNPAUSE, request_id
from safetyd.core.catalogue.catalogue import CATALOGUE
from safetyd.core.catalogue.daemon_entries import disk_key
from safetyd.core.events.daemon_events import ClockStepped, DiskLevel
from safetyd.core.events.decision_events import Decided, Transcribed
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import AnomalyFound, Paused, Resumed, Stopped
from safetyd.core.events.notification_events import (
    Announced,
    ChannelMoved,
    Climbed,
    Due,
    Item,
    LinkOpened,
    LinkRevoked,
    Note,
    NotTold,
    RoundDue,
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
from safetyd.core.events.rota_events import DutyChanged
from safetyd.core.messages.verdict import ALLOW
from safetyd.core.on_call import OnCall
from safetyd.core.outbox.alerts import Alerts
from safetyd.core.outbox.all_clear import AllClears, Standstill
from safetyd.core.outbox.ask_limits import AskLimits
from safetyd.core.outbox.audience import Audience
from safetyd.core.outbox.bundling import Bundling
from safetyd.core.outbox.deliveries import LOST, Deliveries, Delivery, Kept, Notes
from safetyd.core.outbox.delivery_queue import DeliveryQueue, DeliveryQueues, Slot, key
from safetyd.core.outbox.duty import Duty
from safetyd.core.outbox.duty_handover import Handover
from safetyd.core.outbox.failover import Failover
from safetyd.core.outbox.item_facts import ItemFacts, Keyless
from safetyd.core.outbox.pace import Pace, PersonPace
from safetyd.core.outbox.reminders import Reminders, ReminderState
from safetyd.core.outbox.rounds import Rounds
from safetyd.core.outbox.routing import Routing, routes
from safetyd.core.outbox.slots import Slots
from safetyd.core.recipients import Recipient, TellingConfig
from safetyd.core.rota import RotaPolicy


class OutboxState(msgspec.Struct):
    """The saved state. Each part has its own field and changes it in place."""

    lanes: dict[str, DeliveryQueue] = {}  # queues by key
    cases: dict[str, ReminderState] = {}  # by request, oldest first
    kept: Kept = msgspec.field(default_factory=Kept)
    alerts: dict[str, str] = {}  # the last note of each alert key
    demands: AskLimits = msgspec.field(default_factory=AskLimits)
    stops: dict[str, Standstill] = {}  # by agent; "*" for all agents
    down: list[str] = []  # channels that are down
    count: int = 0  # messages so far
    pace: dict[str, PersonPace] = {}  # by recipient
    rounds: dict[str, datetime] = {}  # the last round of each recipient
    on_duty: list[str] = []


class Outbox(Actor):
    """Passes events on to its parts.

    Queues contain waiting items, and deliveries are messages that were sent. Reminders, rounds and
    failover queue requests. Alerts, all-clears and handovers queue notes. Routing and the audience
    choose the queues, slots choose the time, and bundling turns waiting items into messages.
    """

    name = "outbox"
    _state: OutboxState

    def __init__(
        self,
        config: TellingConfig,
        approvals: Approvals,
        keyless: Keyless,
        on_call: OnCall | None = None,
    ) -> None:
        self._config = config
        self._approvals = approvals
        self._duty = Duty(on_call or OnCall(RotaPolicy()))
        self._keyless = keyless
        self._take_on(OutboxState())
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
                on(Transcribed, self._transcribed),
                on(Announced, self._announced),
                on(Due, self._was_due),
                on(Told, self._was_told),
                on(NotTold, self._was_not_told),
                on(Unparked, self._unparked),
                on(ChannelMoved, self._channel_moved),
                on(Climbed, self._climbed),
                on(RoundDue, self._round_due),
                on(DutyChanged, self._duty_changed),
                on(LinkOpened, self._link_opened),
                on(LinkRevoked, self._link_revoked),
                on(ClockStepped, self._stepped),
                on(Ticked, self._ticked),
            )
        )
        for kind, entry in CATALOGUE.items():
            if entry.alert and kind is not Decided:
                hears[kind] = self._and_alerted(hears.get(kind))
        self.hears = hears

    @property
    def idle(self) -> bool:
        """True if there are no recipients."""
        return self._routing.idle

    @property
    def down(self) -> tuple[str, ...]:
        """The channels that are down."""
        return tuple(self._state.down)

    @property
    def disk_level(self) -> DiskLevel:
        """The disk level that operators were last notified about."""
        levels: tuple[DiskLevel, ...] = ("critical", "warn")
        return next((level for level in levels if self._alerts.remembers(disk_key(level))), "good")

    def open(self) -> Iterator[Delivery]:
        """Yield open deliveries, oldest first."""
        return (delivery for delivery in self._deliveries.under_way() if delivery.state == "open")

    def deliveries(self, state: str | None = None) -> Iterator[Delivery]:
        """Yield stored deliveries, optionally in one state, newest first."""
        return (each for each in self._deliveries.all() if state is None or each.state == state)

    def find(self, delivery: str) -> Delivery | None:
        return self._deliveries.find(delivery)

    def note(self, ref: str) -> Note | None:
        return self._notes.find(ref)

    def pending(self, delivery: Delivery) -> tuple[Item, ...]:
        """Return the items of a message that are still relevant."""
        items = (item for item in delivery.items if not self._notes.ended(item.ref))
        return tuple(item for item in items if self._facts.find(item).of_use)

    def waiting(self, at: datetime) -> Iterator[tuple[str, str, int, datetime]]:
        """Yield recipient, channel, number of waiting items, and when they are due."""
        for queue in self._queues:
            if (due := self._bundling.next_at(queue, at)) is not None:
                yield queue.recipient, queue.channel, queue.count(), due

    def quiet_until(self, recipient: str, at: datetime) -> datetime | None:
        """Return when the recipient's current quiet hours end, or None."""
        return self._slots.quiet_until(recipient, at)

    def busy_until(self, who: Recipient, at: datetime) -> datetime | None:
        """Return when a recipient with unanswered messages gets a new request, or None if now."""
        queues = self._routing.queues(who, "normal", at)
        busy = [self._pace.busy_until(who.name, queue.channel, at) for queue in queues]
        return None if None in busy else min(filter(None, busy), default=None)

    def told(self, request_id: str) -> tuple[Delivery, ...]:
        """Return the stored messages about a request, oldest first."""
        return tuple(self._deliveries.about(request_id))

    def revoked(self, delivery: str, request_id: str) -> bool:
        """Return True if a message's link is revoked, or the message is no longer stored."""
        found = self.find(delivery)
        return found is None or request_id in found.revoked

    def undeliverable(self, request_id: str) -> bool:
        """Return True if every channel for a request refused it or is down."""
        return self._failover.undeliverable(request_id)

    def unnotified(self, at: datetime) -> int:
        """Return the number of requests that reached nobody in time."""
        return self._reminders.unnotified(at)

    def load(self, saved: bytes) -> None:
        super().load(saved)
        self._take_on(self._state)

    def _take_on(self, state: OutboxState) -> None:
        """Continue from a saved state. Drop the queues of removed recipients and channels."""
        before = state.lanes
        known = {key(*route): route for route in routes(self._config)}
        state.lanes = {name: before.get(name) or DeliveryQueue(*known[name]) for name in known}
        self._state = state
        self._build(state)
        self._let_go(queue for name, queue in before.items() if name not in known)
        # If the routes are the same, loading a state must not change it.
        if before.keys() != known.keys():
            self._reminders.adopt()

    def _build(self, state: OutboxState) -> None:
        config, approvals = self._config, self._approvals
        self._queues = queues = DeliveryQueues(state.lanes)
        self._deliveries = deliveries = Deliveries(state.kept.deliveries)
        self._notes = notes = Notes(state.kept, queues, deliveries.telling)
        self._facts = ItemFacts(approvals.find, notes.find, self._keyless)
        self._pace = pace = Pace(config, state.pace)
        self._routing = routing = Routing(config, queues, state.down, self._duty)
        self._slots = slots = Slots(config, state.demands, pace, self._duty, self._keyless)
        audience = Audience(config, routing, slots, self._duty)
        self._alerts = alerts = Alerts(config, state.alerts, notes, deliveries, routing, slots)
        self._all_clears = AllClears(state.stops, alerts.tell, alerts.withdraw)
        self._reminders = reminders = Reminders(
            state.cases, approvals, queues, deliveries, audience, slots
        )
        self._rounds = Rounds(config, state.rounds, state.stops, reminders, deliveries, slots)
        self._handover = Handover(state.on_duty, alerts, reminders, routing, slots, self._duty)
        self._failover = Failover(reminders, alerts, deliveries, routing, audience, slots)
        self._bundling = Bundling(state, self._facts, slots, approvals, reminders.known)

    def _let_go(self, gone: Iterable[DeliveryQueue]) -> None:
        for queue in gone:
            self._notes.release(queue.where)
        for delivery in tuple(self._deliveries.under_way()):
            if self._queues.find(delivery.queue) is None:
                self._deliveries.cancel(delivery, "nobody is told on this channel any more")
                self._notes.release(item.ref for item in delivery.items)

    def _and_alerted(self, act: Handler | None) -> Handler:
        """Wrap a handler so that the event also ends and sends alerts."""

        def heard(event: Event) -> Sequence[Event]:
            over = self._alerts.over(event)
            acted = (act(event) if act else None) or ()
            return [*acted, *self._bundling.due(event, self._alerts.heard(event, over))]

        return heard

    def _decided(self, event: Decided) -> Sequence[Event]:
        if event.decision is ALLOW:
            return ()  # checked first, because most actions are allowed
        asks = event.asks
        if asks is None:
            return self._bundling.due(event, self._alerts.heard(event))
        if asks.joins or self.idle:
            return ()
        self._slots.asked(event.agent, event.t)
        return self._bundling.due(event, self._reminders.ask(event, asks.request_id))

    def _paused(self, event: Paused) -> Sequence[Event]:
        if event.source != "anomaly" or self.idle:
            return ()
        id_ = request_id(event.agent, UNPAUSE, event.seq)
        return self._bundling.due(event, self._reminders.ask(event, id_))

    def _deferred(self, event: Deferred) -> None:
        self._reminders.deferred(event)

    def _answered(self, event: Answered | Released | Cancelled | Superseded) -> None:
        if isinstance(event, Answered):
            for delivery in self._deliveries.about(event.request_id):
                self._pace.attended(delivery.recipient)
        self._reminders.end(event.request_id)

    def _expired(self, event: Expired) -> None:
        self._reminders.expired(event)

    def _stopped(self, event: Stopped) -> None:
        self._all_clears.stopped(event)

    def _found(self, event: AnomalyFound) -> None:
        self._all_clears.found(event)

    def _resumed(self, event: Resumed) -> Sequence[Event]:
        return self._bundling.due(event, self._all_clears.resumed(event))

    def _transcribed(self, event: Transcribed) -> Sequence[Event]:
        return self._bundling.due(event, self._alerts.transcribed(event))

    def _announced(self, event: Announced) -> Sequence[Event]:
        return self._bundling.due(event, self._alerts.announced(event))

    def _was_due(self, event: Due) -> Sequence[Event]:
        queue = self._queues.find(key(event.recipient, event.channel))
        if queue is None:
            return ()
        delivery = self._deliveries.add(event, self._bundling.take(queue, event))
        self._reminders.sent(delivery, queue)
        return self._bundling.due(event, (queue,))

    def _was_told(self, event: Told) -> Sequence[Event]:
        delivery = self._deliveries.told(event)
        if delivery is None:
            return ()
        self._reminders.told(delivery)
        return self._closed(event, delivery)

    def _was_not_told(self, event: NotTold) -> Sequence[Event]:
        delivery = self._deliveries.not_told(event)
        if delivery is None:
            return ()
        touched = list[DeliveryQueue]()
        if event.state == "quiet":
            self._put_back(event, delivery)
        elif event.state in LOST or event.state == "parked":
            self._reminders.refused(event, delivery)
            touched = self._failover.refused(event, delivery)
        freed = () if delivery.under_way else self._closed(event, delivery)
        return [*freed, *self._bundling.due(event, touched)]

    def _put_back(self, event: NotTold, delivery: Delivery) -> None:
        """Return the items of a message to their queue until quiet hours end. Drop tests."""
        (queue,) = self._queues.of((delivery.queue,))
        for item in (item for item in self.pending(delivery) if item.kind != "test"):
            queue.put(item, Slot("batch", "batch", event.at), event.at)
        self._reminders.wait(event, delivery)

    def _closed(self, event: Event, delivery: Delivery) -> Sequence[Event]:
        """Record that a message is closed, so that its queue can send the next one."""
        refs = [item.ref for item in delivery.items]
        self._deliveries.shorten(delivery)
        queue = self._queues.find(delivery.queue)
        if queue is None:
            return ()
        queue.closed(delivery.id)
        self._notes.release(refs)
        return self._bundling.due(event, (queue,))

    def _unparked(self, event: Unparked) -> None:
        self._deliveries.unparked(event)

    def _round_due(self, event: RoundDue) -> Sequence[Event]:
        return self._bundling.due(event, self._rounds.started(event))

    def _duty_changed(self, event: DutyChanged) -> Sequence[Event]:
        return self._bundling.due(event, self._handover.changed(event))

    def _link_opened(self, event: LinkOpened) -> None:
        self._pace.attended(event.recipient)
        self._deliveries.opened(event)
        self._reminders.opened(event)

    def _link_revoked(self, event: LinkRevoked) -> None:
        self._deliveries.link_revoked(event)

    def _channel_moved(self, event: ChannelMoved) -> Sequence[Event]:
        self._routing.moved(event)
        if event.up:
            return self._bundling.due(event, self._reminders.adopt())
        return self._bundling.due(event, self._failover.down(event, event.channel))

    def _climbed(self, event: Climbed) -> Sequence[Event]:
        return self._bundling.due(event, self._reminders.escalate(event))

    def _stepped(self, event: ClockStepped) -> None:
        self._queues.shift(timedelta(seconds=event.seconds))
        self._pace.shift(timedelta(seconds=event.seconds))
        self._reminders.shift(event)

    def _ticked(self, tick: Ticked) -> Sequence[Event]:
        # The journal of an older version may lack messages that `due` has returned.
        self._bundling.forget_promises()
        dues = self._bundling.due(tick, self._queues)
        if steps := self._reminders.due(tick.at):
            dues.append(Climbed(at=tick.at, t=tick.t, steps=steps))
        if rounds := self._rounds.due(tick.at):
            dues.append(RoundDue(at=tick.at, t=tick.t, rounds=rounds))
        return dues
