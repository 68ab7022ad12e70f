"""Operators' commands and queries about notifications: test, retry, drop, list.

Like all commands, they are checked when they arrive and carried out in the commit loop.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.notification_events import Announced, Note, NotTold, Unparked
from safetyd.core.outbox.deliveries import Delivery
from safetyd.journal.mailbox import Carried, Plan
from safetyd.notify.delivery.dispatch import Dispatch
from safetyd.operators.contract.notification_contract import (
    ChannelRow,
    ChannelsAnswer,
    ChannelState,
    DeliveryRow,
    DropCommand,
    Dropped,
    LaneRow,
    LaneWaiting,
    LinkCommand,
    Linked,
    OutboxAnswer,
    OutboxQuestion,
    RecipientRow,
    Retried,
    RetryCommand,
    ShownCommand,
    TestBegun,
    TestCommand,
)
from safetyd.operators.replies import DONE, CommandRefused, Done, Refusal, refused
from safetyd.operators.views.paging import fitting

TEST: Final = "This is a test. It is not about a request. Open the link to check that it works."


class OutboxControl:
    """The commands and queries about messages; each method has the name of its command."""

    def __init__(
        self,
        workers: Dispatch,
        opened: Callable[[str], datetime | None],
        link: Callable[[str, str, str], str],
    ) -> None:
        self._workers = workers
        self._opened = opened  # returns the time at which a delivery's link was used
        self._link = link  # takes a delivery, the id of an item, and a recipient

    def test(self, by: str, command: TestCommand) -> Plan[TestBegun | Refusal]:
        def plan(state: EngineState, moment: Moment) -> Carried[TestBegun | Refusal]:
            lanes = tuple(_lanes(state, command))
            if not lanes:
                return Carried((), refused("no_channel", _nobody(state, command)))
            self._workers.recover({lane.channel for lane in lanes})
            id_ = f"note_{secrets.token_hex(6)}"
            note = Note(
                id=id_,
                kind="test",
                urgency="normal",
                title=f"Test by {by}",
                text=TEST,
                at=moment.at,
            )
            announced = Announced(
                at=moment.at,
                t=moment.t,
                note=note,
                recipients=command.recipients,
                channels=command.channels,
            )
            return Carried((announced,), TestBegun(ok=True, note=id_, lanes=lanes))

        return plan

    def retry(self, by: str, command: RetryCommand) -> Plan[Retried | Refusal]:
        if bool(command.id) == bool(command.channel):
            raise CommandRefused("invalid", "give either a message or a channel")

        def plan(state: EngineState, moment: Moment) -> Carried[Retried | Refusal]:
            found = [
                delivery
                for delivery in state.outbox.deliveries()
                if delivery.state in {"open", "parked"}
                and (delivery.id == command.id or delivery.channel == command.channel)
            ]
            if command.id and not found:
                return Carried((), _not_waiting(command.id))
            if not found:
                self._workers.recover({command.channel})
            self._workers.retry(found)
            parked = tuple(delivery.id for delivery in found if delivery.state == "parked")
            unparked = Unparked(at=moment.at, t=moment.t, deliveries=parked, by=by)
            return Carried((unparked,) if parked else (), Retried(ok=True, retried=len(found)))

        return plan

    def drop(self, by: str, command: DropCommand) -> Plan[Dropped | Refusal]:
        def plan(state: EngineState, moment: Moment) -> Carried[Dropped | Refusal]:
            found = state.outbox.find(command.id)
            if found is None or found.state not in {"open", "parked"}:
                return Carried((), _not_waiting(command.id))
            self._workers.drop(found)
            dropped = NotTold(
                at=moment.at,
                t=moment.t,
                delivery=found.id,
                channel=found.channel,
                state="cancelled",
                by=by,
            )
            return Carried((dropped,), Dropped(ok=True, id=found.id))

        return plan

    def shown(self, _by: str, command: ShownCommand) -> Plan[Done]:
        """Record that a desktop helper shows a message."""

        def plan(_state: EngineState, _moment: Moment) -> Carried[Done]:
            self._workers.shown(command.delivery)
            return Carried((), DONE)

        return plan

    def link(self, _by: str, command: LinkCommand) -> Plan[Linked | Refusal]:
        """Return the link to a message's item, or to the list if it has several items."""

        def plan(state: EngineState, _moment: Moment) -> Carried[Linked | Refusal]:
            found = state.outbox.find(command.delivery)
            if found is None:
                return Carried((), refused("not_found", f"there is no message {command.delivery}"))
            ref = found.items[0].ref if len(found.items) == 1 else ""
            link = self._link(found.id, ref, found.recipient)
            return Carried((), Linked(ok=True, link=link))

        return plan

    def outbox(self, state: EngineState, moment: Moment, asked: OutboxQuestion) -> OutboxAnswer:
        """Return messages, and the items that are not in a message yet."""
        stuck = {each.name: each.last_error for each in filter(_stuck, self._workers.states())}
        found = (
            self._row(delivery, stuck)
            for delivery in state.outbox.deliveries(asked.state)
            if not asked.ref or any(item.ref == asked.ref for item in delivery.items)
        )
        rows = fitting(row for row, _ in zip(found, range(asked.limit), strict=False))
        waiting = tuple(
            LaneWaiting(recipient=recipient, channel=channel, items=count, due=due)
            for recipient, channel, count, due in state.outbox.waiting(moment.at)
        )
        unnotified = state.outbox.unnotified(moment.at)
        return OutboxAnswer(ok=True, deliveries=rows, waiting=waiting, unnotified=unnotified)

    def channels(self, state: EngineState, moment: Moment) -> ChannelsAnswer:
        """Return the state of every channel, and the recipients with their channels."""
        people = tuple(
            RecipientRow(
                name=person.name,
                channels=person.channels,
                timezone=person.quiet.timezone,
                quiet=f"{person.quiet.start}-{person.quiet.end}",
                quiet_until=state.outbox.quiet_until(person.name, moment.at),
                agents=person.agents,
                backup=person.backup,
            )
            for person in state.policy.telling.recipients
        )
        kinds = state.policy.telling.channels
        states = tuple(
            ChannelRow(**msgspec.structs.asdict(each), kind=kinds.get(each.name, ""))
            for each in self._workers.states()
        )
        return ChannelsAnswer(ok=True, channels=states, recipients=people)

    def _row(self, delivery: Delivery, stuck: Mapping[str, str]) -> DeliveryRow:
        told_at, tries, error = delivery.told_at, delivery.attempts, delivery.error
        if delivery.state == "open":
            tries, error = self._workers.tried(delivery)
            error = error or stuck.get(delivery.channel, "")
        return DeliveryRow(
            id=delivery.id,
            recipient=delivery.recipient,
            channel=delivery.channel,
            urgency=delivery.urgency,
            state=delivery.state,
            kinds=tuple(sorted({item.kind for item in delivery.items})),
            refs=tuple(item.ref for item in delivery.items[:5]),
            items=len(delivery.items),
            digest=delivery.digest,
            at=delivery.at,
            expires=delivery.expires,
            told_at=told_at,
            took_s=None if told_at is None else (told_at - delivery.at).total_seconds(),
            attempts=tries,
            provider_id=delivery.provider_id,
            error=error,
            opened_at=self._opened(delivery.id),
        )


def _stuck(state: ChannelState) -> bool:
    """Return True if messages wait for a channel because of its last error."""
    waits = state.waiting_high + state.waiting_normal and not state.under_way
    return bool(waits) and (state.next_try_s is None or state.next_try_s > 0)


def _not_waiting(id_: str) -> Refusal:
    return refused("not_found", f"no message {id_} is waiting; see `safetyd notify outbox`")


def _lanes(state: EngineState, command: TestCommand) -> Iterator[LaneRow]:
    for person in state.policy.telling.recipients:
        if not command.recipients or person.name in command.recipients:
            for channel in person.channels:
                if not command.channels or channel in command.channels:
                    yield LaneRow(recipient=person.name, channel=channel)


def _nobody(state: EngineState, command: TestCommand) -> str:
    telling = state.policy.telling
    if not telling.recipients:
        return "no channel is configured: see `safetyd docs notifications`"
    names = ", ".join(person.name for person in telling.recipients)
    wanted = " ".join((*command.channels, *command.recipients))
    known = ", ".join(telling.channels)
    return f"no channel or recipient {wanted}; channels: {known}; recipients: {names}"
