"""A queue of rollbacks that changed files of this agent's projects."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.messages.rollback import Rollback

MAX_HEARD: Final = 64  # with more, the oldest is dropped; the agent rereads its files anyway


class _Told(msgspec.Struct, frozen=True):
    rollbacks: tuple[Rollback, ...]


_read = msgspec.json.Decoder(Rollback).decode
_read_told = msgspec.json.Decoder(_Told).decode

Ask = Callable[[], Awaitable[tuple[Rollback, ...]]]


def read_rollbacks(data: bytes) -> tuple[Rollback, ...] | None:
    try:
        return _read_told(data).rollbacks
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class RollbackInbox:
    """Rollbacks from notices, and those missed while the connection was broken.

    After each reconnection, `next` queries the last rollback of each project. The first call of
    `next` records the state to compare with.
    """

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._heard: deque[Rollback] = deque(maxlen=MAX_HEARD)
        self._last: dict[str, datetime] = {}  # time of the last known rollback, by project
        self._known = False  # True after the first query
        self._stale = True  # a rollback may have been missed
        self._changed = asyncio.Event()

    def hear(self, data: bytes) -> None:
        """Queue the rollback from a `state.rollback` message."""
        try:
            self._take(_read(data))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return

    def reconnected(self) -> None:
        self._stale = True
        self._wake()

    async def next(self, ask: Ask) -> Rollback:
        """Wait for a rollback that was not returned before, and return it."""
        while True:
            changed = self._changed
            if self._heard:
                return self._heard.popleft()
            if self._stale:
                await self._catch_up(ask)
            else:
                await changed.wait()

    async def _catch_up(self, ask: Ask) -> None:
        self._stale = False
        try:
            told = await ask()
        except BaseException:
            self._stale = True
            raise
        for rollback in told:
            if self._known or rollback.project in self._last:
                self._take(rollback)
            else:
                self._last[rollback.project] = rollback.at
        self._known = True

    def _take(self, rollback: Rollback) -> None:
        known = self._last.get(rollback.project) == rollback.at
        if self._agent in rollback.agents and not known:
            self._last[rollback.project] = rollback.at
            self._heard.append(rollback)
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
