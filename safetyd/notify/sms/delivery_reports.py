"""Poll a provider a few times to learn whether messages that it accepted were delivered."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Literal

import anyio

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import NotTold, Told
from safetyd.core.outbox.deliveries import Delivery
from safetyd.journal.mailbox import Carried, CommandEnvelope, Mailbox, Plan

Arrival = Literal["delivered", "undelivered"]
POLLS_S: Final = (60.0, 300.0, 1800.0)  # seconds from sending to each poll
LOOK_S: Final = 15.0
LET_BE_S: Final = 86_400.0  # older messages are not polled, even after a restart


class DeliveryReports:
    """Polls for messages without a report; `state_of` takes the provider's id of a message."""

    def __init__(
        self, mailbox: Mailbox, state_of: Callable[[str], Awaitable[Arrival | None]]
    ) -> None:
        self._mailbox = mailbox
        self._state_of = state_of
        self._asked: dict[str, int] = {}  # number of polls by delivery

    async def run(self) -> None:
        while True:
            await anyio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Poll for every message that is due."""
        for id_, provider_id in await self._mailbox.ask(self._due):
            self._asked[id_] = self._asked.get(id_, 0) + 1
            arrival = await self._state_of(provider_id)
            if arrival is not None:
                plan = arrived(provider_id, arrival)
                self._mailbox.put(CommandEnvelope(plan, lambda _answer: None, lambda: None))

    def _due(self, state: EngineState, moment: Moment) -> Sequence[tuple[str, str]]:
        """Return the delivery id and the provider's id of each message that is due."""
        accepted = [d for d in state.outbox.deliveries("accepted") if d.channel == "sms"]
        known = {delivery.id for delivery in accepted}
        self._asked = {id_: times for id_, times in self._asked.items() if id_ in known}
        return [(d.id, d.provider_id) for d in accepted if self._is_due(d, moment)]

    def _is_due(self, delivery: Delivery, moment: Moment) -> bool:
        times = self._asked.get(delivery.id, 0)
        if delivery.told_at is None or times >= len(POLLS_S) or not delivery.provider_id:
            return False
        age_s = (moment.at - delivery.told_at).total_seconds()
        return POLLS_S[times] <= age_s < LET_BE_S


def arrived(provider_id: str, arrival: Arrival | None) -> Plan[None]:
    """Record the provider's report on a message that it had accepted."""

    def plan(state: EngineState, moment: Moment) -> Carried[None]:
        found = (
            delivery
            for delivery in state.outbox.deliveries("accepted")
            if provider_id and delivery.provider_id == provider_id
        )
        return Carried([event for one in found for event in _became(one, moment, arrival)], None)

    return plan


def _became(delivery: Delivery, moment: Moment, arrival: Arrival | None) -> Iterator[Event]:
    if arrival == "delivered":
        yield Told(
            at=moment.at,
            t=moment.t,
            delivery=delivery.id,
            channel=delivery.channel,
            state="delivered",
            provider_id=delivery.provider_id,
            attempts=delivery.attempts,
        )
    elif arrival == "undelivered":
        yield NotTold(
            at=moment.at,
            t=moment.t,
            delivery=delivery.id,
            channel=delivery.channel,
            state="undelivered",
            error="the provider could not deliver it",
            attempts=delivery.attempts,
        )
