"""The part of the daemon that tells people: links, messages and channels, put together."""

import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio

from safetyd.clock import Clock
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import Unparked
from safetyd.host import secret_directories, session_bus
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from safetyd.notify.address_book import Tables, address_of, persons, privacy_of
from safetyd.notify.channel import Channel, Misconfigured
from safetyd.notify.compose import Composer, Destination
from safetyd.notify.delivery.dispatch import Dispatch
from safetyd.notify.desktop.desktop_buttons import DesktopButtons
from safetyd.notify.desktop.desktop_channel import Desktop, DesktopHelpers
from safetyd.notify.links.link_issuer import LinkIssuer
from safetyd.notify.outbox_control import OutboxControl
from safetyd.notify.preview import Previews
from safetyd.notify.registry import ChannelSurroundings, open_channels, secret
from safetyd.notify.sms.delivery_reports import DeliveryReports
from safetyd.notify.sms.sms_channel import Sms, TwilioSettings
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

log = logging.getLogger("safetyd.notify")


class NotifierSettings(Protocol):
    """What is configured now; a reload changes it."""

    @property
    def tables(self) -> Tables: ...

    @property
    def channels(self) -> Iterable[str]: ...


class Notifier:
    """What the daemon starts, feeds with events and asks."""

    def __init__(  # noqa: PLR0913 - the parts of the daemon that messages meet
        self,
        settings: NotifierSettings,
        mailbox: Mailbox,
        clock: Clock,
        *,
        data_dir: Path,
        public_url: str,
        base_url: Callable[[], str],
        waits: Waits,
        publish: Callable[[dict[str, object]], None],
    ) -> None:
        self._settings = settings
        self._data_dir = data_dir
        self._public_url = public_url.rstrip("/")
        self._mailbox = mailbox
        self._clock = clock
        self._publish = publish
        self.links = LinkIssuer(
            data_dir / "keys" / "links.json",
            clock,
            mailbox,
            base_url=base_url,
            here_only=not public_url,
        )
        self.composer = Composer(self.links, self._destination)
        self.dispatch = Dispatch(mailbox, clock, self.composer, self._open_channels)
        self._own_desktop = DesktopButtons(mailbox, waits, self._desktop)
        self._arrivals = DeliveryReports(mailbox, self._sms)
        self._opened: dict[str, datetime] = {}  # test messages whose link was used
        control = OutboxControl(self.dispatch, self._shown, self._opened.get, self.links.link)
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
        """Deliver, and look after keys and what was accepted, for ever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.dispatch.run)
            tasks.start_soon(self._arrivals.run)
            tasks.start_soon(self._own_desktop.run)
            tasks.start_soon(self.links.run)

    def observe(self, events: Sequence[Event]) -> None:
        """Hand over what is due; an outlet of the journal."""
        self.links.observe(events)
        self.dispatch.observe(events)
        self._own_desktop.observe(events)

    def renew(self, by: str) -> None:
        """Take on changed channels and keys; what waited for a channel to be mended is tried."""
        self.links.renew()

        def made(engine: EngineState, moment: Moment) -> Event | None:
            parked = tuple(delivery.id for delivery in engine.outbox.deliveries("parked"))
            if not parked:
                return None
            return Unparked(at=moment.at, t=moment.t, deliveries=parked, by=by)

        self._mailbox.put(EventEnvelope(made, self.dispatch.renew))

    def link_used(self, delivery: str, at: datetime) -> None:
        """Take note that the link of a test message led back."""
        self._opened[delivery] = at

    def twilio(self) -> TwilioSettings:
        """Return what Twilio's calls are judged by, as it is configured now."""
        tables = self._settings.tables
        sms = tables.notifications.sms
        token = ""
        if sms.enabled:
            try:
                token = secret(sms.auth_token_file, self._directories)
            except Misconfigured:
                token = ""
        recipient_of = partial(_recipient_of, tables)
        return TwilioSettings(token, self._public_url, recipient_of, sms.max_risk, sms.privacy)

    @property
    def _directories(self) -> tuple[Path, ...]:
        return secret_directories(self._data_dir)

    async def _open_channels(self, only: Iterable[str] | None) -> Mapping[str, Channel]:
        """Open these channels, or all that are configured."""
        settings = self._settings
        names = settings.channels if only is None else only
        public = self._public_url
        around = ChannelSurroundings(
            host=socket.gethostname() or "localhost",
            session_bus=session_bus(),
            sms_callback=f"{public}/hooks/sms/status" if public.startswith("https") else "",
            answered=self._own_desktop.answered,
            opened=self._own_desktop.opener,
            publish=self._publish,
            directories=self._directories,
        )
        return await open_channels(names, settings.tables.notifications, around)

    def _sms(self) -> Sms | None:
        channel = self.dispatch.channel("sms")
        return channel if isinstance(channel, Sms) else None

    def _shown(self, delivery: str) -> None:
        channel = self.dispatch.channel("desktop")
        if isinstance(channel, DesktopHelpers):
            channel.shown(delivery)

    def _desktop(self) -> Desktop | None:
        channel = self.dispatch.channel("desktop")
        return channel if isinstance(channel, Desktop) else None

    def _destination(self, recipient: str, channel: str) -> Destination:
        tables = self._settings.tables
        settings = tables.notifications
        return Destination(
            address=address_of(tables, recipient, channel),
            privacy=privacy_of(tables, channel),
            codes=channel != "ntfy" or settings.ntfy.include_code,
            reply_risk=settings.sms.max_risk if channel == "sms" else None,
        )


def _recipient_of(tables: Tables, number: str) -> str:
    """Return whose number it is, empty if it is nobody's."""
    found = (person.name for person in persons(tables) if number and person.sms == number)
    return next(found, "")
