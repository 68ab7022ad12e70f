"""Channels of a rehearsal: they render messages as real ones do, and hand them to the story."""

from collections.abc import Callable, Sequence

import anyio

from safetyd.clock import Clock
from safetyd.notify.channel import Channel, ChannelContext, ChannelTable, Receipt, Unavailable
from safetyd.notify.message import Notice
from safetyd.rehearsal.day_record import Arrival, Mention
from safetyd.rehearsal.story_times import Window, inside

TAKES_S = 1.0  # the time from an attempt to its arrival


class RehearsedChannel(Channel):
    """Accepts messages, with the limits of the real channel, except during its outages."""

    def __init__(
        self,
        name: str,
        table: ChannelTable,
        clock: Clock,
        outages: Sequence[Window],
        arrived: Callable[[Arrival], None],
    ) -> None:
        self.name = name
        self.limits = table.limits()
        self._table = table
        self._clock = clock
        self._outages = list(outages)
        self._arrived = arrived

    async def send(self, notice: Notice) -> Receipt:
        began = self._clock.now().at
        shown, entries = self._table.preview(notice), (*notice.cards, *notice.lines)
        await anyio.sleep(TAKES_S)
        if inside(self._outages, began):
            raise Unavailable("it is down in this story")
        self._arrived(
            Arrival(
                began=began,
                at=self._clock.now().at,
                recipient=notice.recipient,
                channel=self.name,
                delivery=notice.delivery,
                urgency=notice.urgency,
                subject=str(shown.subject),  # a mail has a header object
                text=shown.text,
                size=shown.size,
                mentions=tuple(Mention(ref, one.kind) for one in entries for ref in one.refs),
                entries=tuple(one.refs for one in entries),
                more=notice.more,
                digest=notice.quiet,
            )
        )
        return Receipt("accepted")


class RehearsedChannels:
    """Opens channels for a notifier. `outages` are the times when each channel is down."""

    def __init__(
        self,
        clock: Clock,
        outages: dict[str, list[Window]],
        arrived: Callable[[Arrival], None],
    ) -> None:
        self._clock = clock
        self._outages = outages
        self._arrived = arrived

    async def open(self, name: str, table: ChannelTable, _context: ChannelContext) -> Channel:
        outages = self._outages.get(name, [])
        return RehearsedChannel(name, table, self._clock, outages, self._arrived)
