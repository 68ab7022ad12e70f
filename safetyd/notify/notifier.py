"""The notifier: combines links, messages and channels for the daemon."""

import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import anyio

from safetyd.client.discovery import naming
from safetyd.clock import Clock
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import Announced, Note, Unparked
from safetyd.host import secret_directories
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from safetyd.notify.address_book import Tables, address_of
from safetyd.notify.channel import (
    CarryOut,
    Channel,
    ChannelContext,
    ChannelTable,
    Hook,
    opened,
)
from safetyd.notify.channel_config import CHANNELS
from safetyd.notify.channel_templates import TEMPLATES, ChannelTemplates
from safetyd.notify.compose import Composer, Destination
from safetyd.notify.delivery.dispatch import Dispatch
from safetyd.notify.links.link_issuer import LinkIssuer
from safetyd.notify.outbox_control import OutboxControl
from safetyd.notify.preview import Previews
from safetyd.operators.contract.notification_contract import (
    ChannelsQuestion,
    DropCommand,
    LinkCommand,
    OutboxQuestion,
    PairCommand,
    PreviewQuestion,
    RetryCommand,
    RotateCommand,
    ShownCommand,
    TestCommand,
)
from safetyd.operators.handlers import Handlers, overview, plan, view

Waits = Callable[[Request], bool]
Opens = Callable[[str, ChannelTable, ChannelContext], Awaitable[Channel]]

log = logging.getLogger("safetyd.notify")


class NotifierSettings(Protocol):
    """The current configuration, which a reload may change."""

    @property
    def tables(self) -> Tables: ...

    @property
    def channels(self) -> Iterable[str]: ...

    @property
    def relays(self) -> Collection[str]: ...


class Notifier:
    """Sends notifications for durable events, and handles operators' commands about them.

    `opens` returns an open channel. A rehearsal replaces it, so that nothing is sent.
    """

    def __init__(  # noqa: PLR0913 - parts of the daemon
        self,
        settings: NotifierSettings,
        mailbox: Mailbox,
        clock: Clock,
        *,
        data_dir: Path,
        public_url: str,
        base_url: Callable[[], str],
        waits: Waits,
        publish: Callable[[str, object], None],
        opens: Opens = opened,
    ) -> None:
        self._settings = settings
        self._opens = opens
        self._mailbox = mailbox
        self.links = LinkIssuer(
            data_dir / "keys" / "links.json",
            clock,
            mailbox,
            base_url=base_url,
            here_only=not public_url,
            relays=lambda: settings.relays,
        )
        templates = ChannelTemplates(data_dir / TEMPLATES, self._broken_template)
        self.composer = Composer(
            self.links, self._destination, templates=templates, option=naming(data_dir)
        )
        self.dispatch = Dispatch(mailbox, clock, self.composer, self._open_channels)
        self._context = ChannelContext(
            host=socket.gethostname() or "localhost",
            public_url=public_url.rstrip("/"),
            directories=secret_directories(data_dir),
            publish=publish,
            waits=waits,
            tables=lambda: settings.tables,
            mailbox=mailbox,
            composer=self.composer,
            signer=self.links.signer,
            sent_links=self.links.sent_links,
            wrong_codes=self.links.wrong_codes,
            used=self.link_used,
        )
        self._opened: dict[str, datetime] = {}  # test messages whose link was used
        control = OutboxControl(self.dispatch, self._opened.get, self.links.link)
        samples = Previews(self.composer, lambda: settings.tables.notifications)
        self.handlers: Handlers = dict(
            (
                plan(TestCommand, control.test),
                plan(RetryCommand, control.retry),
                plan(DropCommand, control.drop),
                plan(ShownCommand, control.shown),
                plan(LinkCommand, control.link),
                plan(PairCommand, self.links.pair),
                plan(RotateCommand, self.links.rotate),
                view(OutboxQuestion, control.outbox),
                overview(ChannelsQuestion, control.channels),
                view(PreviewQuestion, samples.previews),
            )
        )

    async def run(self) -> None:
        """Deliver messages and rotate keys, forever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.dispatch.run)
            tasks.start_soon(self.links.run)

    def observe(self, events: Sequence[Event]) -> None:
        """Hand over due messages to their channels; called with durable events."""
        self.links.observe(events)
        self.dispatch.observe(events)

    def renew(self, by: str) -> None:
        """Apply changed channels and keys, and retry parked messages."""
        self.links.renew()

        def made(state: EngineState, moment: Moment) -> Event | None:
            parked = tuple(delivery.id for delivery in state.outbox.deliveries("parked"))
            if not parked:
                return None
            return Unparked(at=moment.at, t=moment.t, deliveries=parked, by=by)

        self._mailbox.put(EventEnvelope(made, self.dispatch.renew))

    def _broken_template(self, name: str, why: str) -> None:
        """Send an alert that an operator's template failed."""
        log.warning("template %s failed, using the shipped one: %s", name, why)

        def made(_state: EngineState, moment: Moment) -> Event:
            note = Note(
                id=f"template_{name}_{moment.at:%Y%m%d%H%M%S}",
                kind="alert",
                urgency="normal",
                title=f"Template {name} failed",
                text=f"safetyd uses the shipped template instead. Error: {why}",
                at=moment.at,
            )
            return Announced(at=moment.at, t=moment.t, note=note)

        self._mailbox.put(EventEnvelope(made, lambda: None))

    def link_used(self, delivery: str, at: datetime) -> None:
        """Record that the link of a test message was opened."""
        self._opened[delivery] = at

    def hooks(self, carry_out: CarryOut) -> Iterator[Hook]:
        """Yield the paths that providers post to, of all channels."""
        for table in CHANNELS.values():
            yield from table.hooks(self._context, carry_out)

    def app_urls(self) -> Iterator[str]:
        """Yield the addresses of web apps in which recipients can press buttons of messages."""
        for _, table in self._settings.tables.notifications.channels():
            if table.usable and table.app_url:
                yield table.app_url

    async def _open_channels(self, only: Iterable[str] | None) -> Mapping[str, Channel]:
        """Open these channels, or all that are configured."""
        names = self._settings.channels if only is None else only
        tables = dict(self._settings.tables.notifications.channels())
        return {name: await self._opens(name, tables[name], self._context) for name in names}

    def _destination(self, recipient: str, channel: str) -> Destination:
        tables = self._settings.tables
        table = dict(tables.notifications.channels())[channel]
        return Destination(
            address=address_of(tables, recipient, channel),
            privacy=table.privacy,
            codes=table.codes,
            reply_risk=table.reply_risk,
        )
