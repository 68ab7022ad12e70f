"""Routing: chooses the recipients and channels of a notification.

Each person gets an item on one channel: the first of their channels that fits. Shared channels, and
every channel with the strategy `all`, get everything.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from safetyd.core.catalogue.entry import Alert
from safetyd.core.events.notification_events import Announced, ChannelMoved
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.delivery_queue import DeliveryQueue, DeliveryQueues, key
from safetyd.core.outbox.duty import Duty
from safetyd.core.outbox.item_facts import rank
from safetyd.core.recipients import ChannelKind, Recipient, TellingConfig, quiet_until

Full = Callable[[DeliveryQueue], bool]  # returns True if an item would have to wait there
_SUMMARIES: Final[tuple[ChannelKind, ...]] = ("email", "chat", "webhook")


def routes(config: TellingConfig) -> Iterator[tuple[str, str]]:
    """Yield each recipient with each configured channel."""
    for name, who in _people(config).items():
        yield from ((name, channel) for channel in who.channels if channel in config.channels)


class Routing:
    """Finds the queues of recipients in order of preference. `down` lists failed channels."""

    def __init__(
        self, config: TellingConfig, queues: DeliveryQueues, down: list[str], duty: Duty
    ) -> None:
        self._kinds = config.channels
        self._sequential = config.strategy == "sequential"
        self._people = _people(config)
        self._queues = queues
        self._down = down
        self._duty = duty

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

    def is_shared(self, queue: DeliveryQueue) -> bool:
        return self._people[queue.recipient].shared

    def find(self, recipient: str) -> Recipient | None:
        return self._people.get(recipient)

    def steps(self, who: Recipient) -> bool:
        """Return True if a recipient gets each item on one channel."""
        return self._sequential and not who.shared

    def people(self, agent: str | None) -> list[Recipient]:
        """Return everybody who gets requests and alerts of an agent."""
        return [who for who in self._people.values() if who.hears_of(agent)]

    def fits(self, who: Recipient, urgency: Urgency, at: datetime) -> bool:
        """Return True if a recipient has a channel for requests of this urgency now."""
        return bool(self._fitting(who, urgency, at))

    def backups(self, people: Sequence[Recipient]) -> list[Recipient]:
        """Return the backups of these people."""
        names = dict.fromkeys(who.backup for who in people)
        found = (self._people[name] for name in names if name in self._people)
        return [who for who in found if who not in people]

    def others(self, people: Sequence[Recipient], agent: str, at: datetime) -> list[Recipient]:
        """Return who else can be notified: backups, the next people on duty, then the others."""
        names = (
            *(who.backup for who in people),
            *self._duty.next_after(at),
            *(who.name for who in self.people(agent)),
        )
        found = (self._people.get(name) for name in dict.fromkeys(names))
        return [who for who in found if who is not None and who not in people]

    def queues(
        self,
        who: Recipient,
        urgency: Urgency,
        at: datetime,
        refused: Collection[str] = (),
        full: Full | None = None,
    ) -> list[DeliveryQueue]:
        """Return the queues of a recipient for a request.

        For a person, that is the first channel that fits, is not `full`, is not down and did not
        refuse the request. If there is none, one that fits less well is used.
        """
        fitting = self._fitting(who, urgency, at)
        if not self.steps(who):
            return fitting or self._of(who, urgency)
        shut = self._shut(refused)
        usable = [queue for queue in fitting if queue.key not in shut]
        free = [queue for queue in usable if full is None or not full(queue)]
        every = self._of(who, urgency)
        spare = [queue for queue in every if queue.key not in shut]
        return (free or usable or spare or fitting or every)[:1]

    def following(
        self, who: Recipient, urgency: Urgency, at: datetime, used: Collection[str]
    ) -> list[DeliveryQueue]:
        """Return the person's next channel that fits and was not used yet, if there is one."""
        if not self.steps(who):
            return []
        shut = self._shut(used)
        return [queue for queue in self._fitting(who, urgency, at) if queue.key not in shut][:1]

    def on(self, channel: str) -> list[DeliveryQueue]:
        """Return all queues of a channel."""
        return [queue for queue in self._queues if queue.channel == channel]

    def untried(
        self, who: Recipient, urgency: Urgency, tried: Collection[str]
    ) -> list[DeliveryQueue]:
        """Return a person's first channel that is not down and was not tried yet."""
        if not self.steps(who):
            return []
        shut = self._shut(tried)
        return [q for q in self._of(who, urgency) if q.key not in shut][:1]

    def concerned(self, agent: str) -> list[DeliveryQueue]:
        """Return every queue that may get requests of an agent."""
        return self._queues.of(each for who in self.people(agent) for each in self._keys(who))

    def unreachable(self, agent: str, refused: Collection[str]) -> bool:
        """Return True if every queue for an agent's requests refused this request or is down."""
        queues, shut = self.concerned(agent), self._shut(refused)
        return bool(queues) and all(queue.key in shut for queue in queues)

    def alert(self, alert: Alert, at: datetime) -> list[DeliveryQueue]:
        """Return the queues for an alert: channels of its kinds, or else the first channel."""
        found = list[DeliveryQueue]()
        people = self.people(alert.agent) if alert.always else self._not_off(alert.agent, at)
        for who in people:
            left = [
                queue
                for queue in self._fitting(who, alert.urgency, at) or self._of(who, alert.urgency)
                if queue.channel not in alert.not_on
            ]
            wanted = [q for q in left if not alert.kinds or self._kinds[q.channel] in alert.kinds]
            chosen = wanted or left[:1]
            if self.steps(who):
                chosen = ([q for q in (*chosen, *left) if not self.is_down(q.channel)] or chosen)[
                    :1
                ]
            found += chosen
        return found

    def later(
        self, alert: Alert, at: datetime, now: Collection[DeliveryQueue]
    ) -> list[DeliveryQueue]:
        """Return the queues that get an alert later: for people, only if they do not get it now."""
        reached = {queue.recipient for queue in now}
        people = (
            who
            for who in self._not_off(alert.agent, at)
            if not (self.steps(who) and who.name in reached)
        )
        return [queue for who in people for queue in self._of_kinds(who, alert.later)]

    def shut(self, queue: DeliveryQueue, refused: Collection[str]) -> bool:
        """Return True if a queue refused a request or its channel is down."""
        return queue.key in self._shut(refused)

    def summary(self, agent: str, at: datetime) -> list[DeliveryQueue]:
        return [q for who in self._not_off(agent, at) for q in self._of_kinds(who, _SUMMARIES)]

    def announced(self, event: Announced) -> list[DeliveryQueue]:
        """Return the queues for a note. Tests and notes for channels use all of the channels."""
        named = [
            queue
            for queue in self._queues
            if not event.recipients or queue.recipient in event.recipients
            if not event.channels or queue.channel in event.channels
        ]
        if event.note.kind == "test" or event.channels:
            return named
        chosen = {
            queue.key
            for name in dict.fromkeys(queue.recipient for queue in named)
            for queue in self.queues(self._people[name], event.note.urgency, event.at)
        }
        return [queue for queue in named if queue.key in chosen]

    def _not_off(self, agent: str | None, at: datetime) -> list[Recipient]:
        """Return who gets notifications about an agent, without people who are off duty."""
        people = self.people(agent)
        return [who for who in people if not self._duty.off(who.name, at)] or people

    def _fitting(self, who: Recipient, urgency: Urgency, at: datetime) -> list[DeliveryQueue]:
        """Return the queues on which a recipient may get an item of this urgency now."""
        return [queue for queue in self._of(who, urgency) if _fits(who, queue, urgency, at)]

    def _of(self, who: Recipient, urgency: Urgency) -> list[DeliveryQueue]:
        """Return all queues of a recipient, the preferred first."""
        names = dict.fromkeys((*who.ordered(urgency), *who.channels))
        return self._queues.of(key(who.name, name) for name in names if name in self._kinds)

    def _of_kinds(self, who: Recipient, kinds: Collection[ChannelKind]) -> list[DeliveryQueue]:
        queues = [q for q in self._of(who, "normal") if self._kinds[q.channel] in kinds]
        return queues[:1] if self.steps(who) else queues

    def _shut(self, refused: Collection[str]) -> frozenset[str]:
        """Return the keys of queues that refused a request or whose channel is down."""
        down = (queue.key for queue in self._queues if queue.channel in self._down)
        return frozenset((*refused, *down))

    def _keys(self, who: Recipient) -> Iterable[str]:
        return (key(who.name, channel) for channel in who.channels if channel in self._kinds)


def _fits(who: Recipient, queue: DeliveryQueue, urgency: Urgency, at: datetime) -> bool:
    use = who.use(queue.channel)
    in_hours = use.hours is None or quiet_until(use.hours, at) is not None
    return in_hours and rank(urgency) >= rank(use.min_urgency)


def _people(config: TellingConfig) -> dict[str, Recipient]:
    return {recipient.name: recipient for recipient in config.recipients}
