"""An embedded server with its own keys, and connections to it."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from safetyd.bus.connections import Connection
from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.subjects import Subjects
from safetyd.daemon.config import Config
from safetyd.daemon.settings import Settings

PATIENCE_S = 15.0


class Embedded(EmbeddedServer):
    def __init__(self, directory: Path) -> None:
        self._settings = Settings(Config(), None, directory)
        self._settings.keyring.make_own()
        super().__init__(directory / "nats", Subjects())
        self.configure(self._settings.users())

    @property
    def seed(self) -> str:
        return self._settings.seed()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def freeze(self) -> None:
        """Stop the process and return after it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@asynccontextmanager
async def singing(server: Embedded, ended: list[str]) -> AsyncIterator[Connection]:
    """Yield a connection that sends canaries. `ended` receives the reasons why it fails."""
    link = Connection("test", ended.append)
    with anyio.fail_after(PATIENCE_S):
        await link.connect(server.url, server.seed, Subjects().canary("test"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.send_canaries)
        await link.first_canary(PATIENCE_S)
        yield link
        tasks.cancel_scope.cancel()
    await link.close()
