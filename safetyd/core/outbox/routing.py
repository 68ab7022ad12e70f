"""Routing: chooses the recipients and channels of a notification."""

from collections.abc import Collection, Iterator
from typing import Final

from safetyd.core.events.notification_events import Announced, ChannelMoved
from safetyd.core.outbox.delivery_queue import DeliveryQueue, DeliveryQueues, key
from safetyd.core.recipients import ChannelKind, Recipient, TellingConfig

_SUMMARIES: Final[tuple[ChannelKind, ...]] = ("email", "chat", "webhook")


def routes(config: TellingConfig) -> Iterator[tuple[str, str]]:
    """Yield each recipient with each configured channel."""
    for name, who in _people(config).items():
        yield from ((name, channel) for channel in who.channels if channel in config.channels)


class Routing:
    """Finds the queues of recipients in order of preference. `down` lists failed channels."""

    def __init__(self, config: TellingConfig, queues: DeliveryQueues, down: list[str]) -> None:
        self._kinds = config.channels
        self._sequential = config.strategy == "sequential"
        self._people = _people(config)
        self._queues = queues
        self._down = down

    @property
    def idle(self) -> bool:
        """True if there are no recipients."""
        return not self._queues

    def moved(self, event: ChannelMoved) -> None:
        """Record that a channel is down or up."""
        if event.channel in self._down:
            self._down.remove(event.channel)
        if not event.up:
            self._down.append(event.channel)

    def is_down(self, channel: str) -> bool:
        return channel in self._down

    def request(
        self,
        agent: str,
        refused: Collection[str] = (),
        *,
        everywhere: bool = False,
        backup: bool = False,
    ) -> list[DeliveryQueue]:
        """Return the queues for a request.

        With the sequential strategy, that is one queue per recipient, unless `everywhere` is set:
        the first one that did not refuse the request and is not down, or else the first of all.
        """
        people, shut = list(self._hearing(agent)), self._shut(refused)
        keys = [each for who in people for each in self._of(who, shut, everywhere=everywhere)]
        for who in self._backups(people) if backup else ():
            keys += self._keys(who)
        return self._queues.of(keys)

    def next(self, recipient: str, refused: Collection[str]) -> DeliveryQueue | None:
        """Return the recipient's first usable queue. None if the strategy is not sequential."""
        if not self._sequential or recipient not in self._people:
            return None
        shut = self._shut(refused)
        keys = [each for each in self._keys(self._people[recipient]) if each not in shut]
        return next(iter(self._queues.of(keys[:1])), None)

    def concerned(self, agent: str) -> list[DeliveryQueue]:
        """Return every queue that may get requests of an agent."""
        return self._queues.of(each for who in self._hearing(agent) for each in self._keys(who))

    def unreachable(self, agent: str, refused: Collection[str]) -> bool:
        """Return True if every queue for an agent's requests refused this request or is down."""
        queues, shut = self.concerned(agent), self._shut(refused)
        return bool(queues) and all(queue.key in shut for queue in queues)

    def alert(
        self, agent: str | None, kinds: Collection[ChannelKind], not_on: Collection[str] = ()
    ) -> list[DeliveryQueue]:
        """Return the queues for an alert: channels of these kinds, or else the first channel."""
        keys = list[str]()
        for who in self._hearing(agent):
            left = [channel for channel in self._channels(who) if channel not in not_on]
            wanted = [channel for channel in left if not kinds or self._kinds[channel] in kinds]
            keys += (key(who.name, channel) for channel in wanted or left[:1])
        return self._queues.of(keys)

    def of_kinds(self, agent: str | None, kinds: Collection[ChannelKind]) -> list[DeliveryQueue]:
        """Return the queues for an agent on channels of these kinds only."""
        return self._queues.of(
            key(who.name, channel)
            for who in self._hearing(agent)
            for channel in self._channels(who)
            if self._kinds[channel] in kinds
        )

    def summary(self, agent: str) -> list[DeliveryQueue]:
        return self.of_kinds(agent, _SUMMARIES)

    def announced(self, event: Announced) -> list[DeliveryQueue]:
        return [
            queue
            for queue in self._queues
            if not event.recipients or queue.recipient in event.recipients
            if not event.channels or queue.channel in event.channels
        ]

    def _of(self, who: Recipient, shut: Collection[str], *, everywhere: bool) -> list[str]:
        keys = self._keys(who)
        if everywhere or not self._sequential:
            return keys
        usable = [each for each in keys if each not in shut]
        return (usable or keys)[:1]

    def _shut(self, refused: Collection[str]) -> frozenset[str]:
        """Return the keys of queues that refused a request or whose channel is down."""
        down = (queue.key for queue in self._queues if queue.channel in self._down)
        return frozenset((*refused, *down))

    def _hearing(self, agent: str | None) -> Iterator[Recipient]:
        return (who for who in self._people.values() if who.hears_of(agent))

    def _backups(self, people: Collection[Recipient]) -> list[Recipient]:
        names = dict.fromkeys(who.backup for who in people)
        backups = (self._people[name] for name in names if name in self._people)
        return [who for who in backups if who not in people]

    def _channels(self, who: Recipient) -> list[str]:
        return [channel for channel in who.channels if channel in self._kinds]

    def _keys(self, who: Recipient) -> list[str]:
        return [key(who.name, channel) for channel in self._channels(who)]


def _people(config: TellingConfig) -> dict[str, Recipient]:
    return {recipient.name: recipient for recipient in config.recipients}
