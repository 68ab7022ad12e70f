"""A whole notifier over an engine that goes by the same file, with real channels."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from safetyd.daemon.config import parse
from safetyd.daemon.settings import Settings
from safetyd.notify.notifier import Notifier
from tests.notify.compose_rig import ComposeRig
from tests.notify.email.mail_servers import MailServer
from tests.operators.bound_handlers import taken
from tests.operators.views.view_reader import plain

NO_DESKTOP = "[notifications.desktop]\nenabled = false\n"
AWAKE = """[notifications]
strategy = "all"
patience_minutes = []
next_person_minutes = 0
quiet_start = "00:00"
quiet_end = "00:00"
timezone = "UTC"
"""


def mail_table(server: MailServer, *lines: str) -> str:
    """Configure mail to alice by a server without encryption."""
    table = (
        "[notifications.email]",
        "enabled = true",
        'to = "alice@example.com"',
        'from = "safetyd@example.com"',
        'smtp_host = "127.0.0.1"',
        f"smtp_port = {server.port}",
        'security = "none"',
        *lines,
    )
    return "\n".join(table) + "\n"


class NotifierRig:
    """`told` is what helpers on desktops were told."""

    def __init__(
        self,
        data_dir: Path,
        *tables: str,
        wired: ComposeRig | None = None,
        desktop: str = NO_DESKTOP,
    ) -> None:
        config = parse("".join((AWAKE, desktop, *tables)), "test")
        self.settings = Settings(config, None, data_dir)
        self.wired = wired or ComposeRig(policy=self.settings.policy)
        self.told: list[Any] = []
        self.base_url = config.web.public_url or "http://127.0.0.1:8787"
        self.notifier = Notifier(
            self.settings,
            self.wired.mailbox,
            self.wired.clock,
            data_dir=data_dir,
            public_url=config.web.public_url,
            base_url=lambda: self.base_url,
            waits=lambda _request: False,
            publish=lambda _kind, notice: self.told.append(notice),
        )
        self.wired.dispatch = self.notifier.dispatch
        self.wired.observers = [self.notifier.observe]

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.notifier.run)
            tasks.start_soon(self.wired.work)
            await self.wired.opened_all(len(self.settings.policy.telling.channels))
            yield
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Open envelopes, and deliver nothing."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.wired.work)
            yield
            tasks.cancel_scope.cancel()

    def does(self, command: str, **fields: object) -> Mapping[str, Any]:
        """Carry out a command as the service would, and return the answer."""
        return plain(
            self.wired.does(
                taken(self.notifier.handlers, "control", command, "carol", fields)
            ).answer
        )

    def asks(self, question: str, **fields: object) -> Mapping[str, Any]:
        ask = taken(self.notifier.handlers, "query", question, "carol", fields)
        return plain(ask(self.wired.engine, self.wired.clock.now()))
