"""Routes: on which channels which recipients hear of what."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from safetyd.core.events.notification_events import Announced
from safetyd.core.outbox.delivery_queue import key
from safetyd.core.recipients import ChannelKind, Recipient, TellingConfig

_SUMMARIES: Final[tuple[ChannelKind, ...]] = ("email", "chat", "webhook")


class Routing:
    """Lanes are named by their keys, in the recipients' order of preference."""

    def __init__(self, config: TellingConfig) -> None:
        self._kinds = config.channels
        self._sequential = config.strategy == "sequential"
        self._people = {recipient.name: recipient for recipient in config.recipients}

    def all(self) -> Iterator[tuple[str, str]]:
        """Yield every recipient with every channel of theirs."""
        for name, recipient in self._people.items():
            yield from ((name, channel) for channel in self._channels(recipient))

    def request(
        self, agent: str, shut: Collection[str], *, everywhere: bool = False, backup: bool = False
    ) -> list[str]:
        """Return where to tell of a request.

        One by one, a channel of those that are `shut` is the last choice, unless it is to be told
        `everywhere`.
        """
        people = list(self._hearing(agent))
        lanes = [lane for who in people for lane in self._of(who, shut, everywhere=everywhere)]
        for who in self._backups(people) if backup else ():
            lanes += self._lanes(who, self._channels(who))
        return lanes

    def next(self, recipient: str, shut: Collection[str]) -> str | None:
        """Return the lane that comes instead of those that are shut, if they come one by one."""
        if not self._sequential or recipient not in self._people:
            return None
        who = self._people[recipient]
        lanes = self._lanes(who, self._channels(who))
        return next((lane for lane in lanes if lane not in shut), None)

    def concerned(self, agent: str) -> list[str]:
        """Return every lane on which requests of an agent may be told."""
        people = self._hearing(agent)
        return [lane for who in people for lane in self._lanes(who, self._channels(who))]

    def alert(
        self, agent: str | None, kinds: Collection[ChannelKind], not_on: Collection[str] = ()
    ) -> list[str]:
        """Return where an alert goes: on channels of these kinds, or else on the first there is."""
        lanes = list[str]()
        for who in self._hearing(agent):
            left = [channel for channel in self._channels(who) if channel not in not_on]
            wanted = [channel for channel in left if not kinds or self._kinds[channel] in kinds]
            lanes += self._lanes(who, wanted or left[:1])
        return lanes

    def of_kinds(self, agent: str | None, kinds: Collection[ChannelKind]) -> list[str]:
        """Return where somebody hears of an agent on channels of these kinds and no others."""
        return [
            key(who.name, channel)
            for who in self._hearing(agent)
            for channel in self._channels(who)
            if self._kinds[channel] in kinds
        ]

    def summary(self, agent: str) -> list[str]:
        return self.of_kinds(agent, _SUMMARIES)

    def announced(self, event: Announced) -> list[str]:
        return [
            key(recipient, channel)
            for recipient, channel in self.all()
            if not event.recipients or recipient in event.recipients
            if not event.channels or channel in event.channels
        ]

    def _of(self, who: Recipient, shut: Collection[str], *, everywhere: bool) -> list[str]:
        lanes = self._lanes(who, self._channels(who))
        if everywhere or not self._sequential:
            return lanes
        usable = [lane for lane in lanes if lane not in shut]
        return (usable or lanes)[:1]

    def _hearing(self, agent: str | None) -> Iterator[Recipient]:
        return (who for who in self._people.values() if who.hears_of(agent))

    def _backups(self, people: Collection[Recipient]) -> list[Recipient]:
        names = dict.fromkeys(who.backup for who in people)
        backups = (self._people[name] for name in names if name in self._people)
        return [who for who in backups if who not in people]

    def _channels(self, who: Recipient) -> list[str]:
        return [channel for channel in who.channels if channel in self._kinds]

    def _lanes(self, who: Recipient, channels: Iterable[str]) -> list[str]:
        return [key(who.name, channel) for channel in channels]
