"""Follows the pending requests, over a connection that reconnects when it breaks."""

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

import anyio
import msgspec

from safetyd.cards.request_details import RequestDetails, RequestEnded, RequestRow
from safetyd.clock import Clock, uptime
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.file_history.list_history import change_of
from safetyd.console.locations import Location
from safetyd.console.operator_connection import OperatorConnection, connected
from safetyd.console.render.terminal_card import Change
from safetyd.operators.contract.grant_contract import GrantsQuestion
from safetyd.operators.contract.hold_contract import AckCommand
from safetyd.operators.contract.question import Call, Review
from safetyd.operators.contract.request_contract import (
    HistoryQuestion,
    PendingQuestion,
    RequestQuestion,
    ReviewDone,
    ReviewResult,
)
from safetyd.operators.contract.status_contract import StatusAnswer, StatusQuestion
from safetyd.operators.replies import Done

POLL_S: Final = 2.0
RETRY_S: Final = 0.5
BURST_S: Final = 0.05  # events within this time cause one query
MOST: Final = 1000  # maximum number of requests in the list
CHANGES: Final = 10  # maximum number of diffs on the page of changes
ENDED: Final = 200

Answer = TypeVar("Answer", bound=Done)

_NEWS: Final = (b'"PERMISSION_', b'"AGENT_PAUSED"', b'"AGENT_RESUMED"')
_STANDING: Final = (b'"EMERGENCY_', b'"SAFE_MODE_', b'"AGENT_PAUSED"', b'"AGENT_RESUMED"')


def _silent(_line: str) -> None:
    """Print nothing: the screen is in use."""


class WaitingRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The pending requests at time `at`. `trouble` says why they may be outdated."""

    rows: tuple[RequestRow, ...] = ()
    count: int = 0
    at: float = 0.0  # by `uptime`
    trouble: str = ""
    status: StatusAnswer | None = None


class RequestFeed:
    """The connection of the review screen. It sends one query at a time."""

    def __init__(self, location: Location, told: Callable[[WaitingRequests], None]) -> None:
        self.observes = location.observes
        self.waiting = WaitingRequests()
        self.grants = False  # True if this operator can create grants
        self._location = location
        self._told = told
        self._operator: OperatorConnection | None = None
        # One query at a time, because a refusal by the bus does not name its query.
        self._turn = anyio.Lock()
        self._stale = anyio.Event()
        self._status: StatusAnswer | None = None
        self._status_at = 0.0  # in seconds of `uptime`; 0.0 if the status may be outdated

    async def run(self) -> None:
        """Report the pending requests whenever they change, forever."""
        while True:
            try:
                async with connected(self._location, _silent) as self._operator:
                    await self._greet()
                    await self._follow(self._operator)
            except Failure as exc:
                self._tell(msgspec.structs.replace(self.waiting, trouble=exc.message))
            self._operator = None
            await anyio.sleep(RETRY_S)

    def look_again(self) -> None:
        """Query the pending requests now."""
        self._stale.set()

    async def card(self, id_: str) -> RequestDetails:
        return (await self._ask(RequestQuestion(id=id_))).request

    async def changes(self) -> list[tuple[RequestEnded, Change]]:
        """Return the newest requests whose actions changed files, each with its diff."""
        rows = (await self._ask(HistoryQuestion(limit=ENDED))).history
        found: list[tuple[RequestEnded, Change]] = []
        for row in [row for row in rows if row.change][:CHANGES]:
            async with self._turn:
                change = await change_of(self._reached, row.change)
            if change is not None:
                found.append((row, change))
        return found

    async def answer(self, command: Review[ReviewDone]) -> ReviewResult:
        """Answer one request and return the result."""
        return (await self._ask(command)).results[0]

    async def _greet(self) -> None:
        """Record that an operator is present, and find out what this operator can do."""
        if not self.observes:
            self.observes = not await self._may(AckCommand())
        self.grants = not self.observes and await self._may(GrantsQuestion())

    async def _may(self, call: Call[Done]) -> bool:
        """Return True if the daemon accepts this call from this operator."""
        try:
            await self._ask(call)
        except Failure as exc:
            if exc.code not in {"refused", "unknown_command"}:
                raise
            return False
        return True

    async def _follow(self, operator: OperatorConnection) -> None:
        await operator.listen(self._heard)
        while True:
            self._stale = anyio.Event()
            await self._look()
            with anyio.move_on_after(POLL_S):
                await self._stale.wait()
                await anyio.sleep(BURST_S)

    async def _look(self) -> None:
        rows: list[RequestRow] = []
        while True:
            page = await self._ask(PendingQuestion(after=rows[-1].id if rows else ""))
            rows += page.requests
            if not page.requests or len(rows) >= min(page.pending, MOST):
                break
        if uptime() - self._status_at >= POLL_S:
            self._status_at = uptime()
            self._status = await self._ask(StatusQuestion())
        count, now = max(page.pending, len(rows)), Clock().now().at
        shown = tuple(_as_of(now, row) for row in rows)
        self._tell(
            WaitingRequests(rows=shown, count=count, at=uptime(), status=self._status),
        )

    async def _ask(self, call: Call[Answer]) -> Answer:
        async with self._turn:
            return await self._reached.ask(call)

    @property
    def _reached(self) -> OperatorConnection:
        if self._operator is None:
            raise NotReachable("not connected")
        return self._operator

    def _heard(self, payload: bytes) -> None:
        if any(news in payload for news in _STANDING):
            self._status_at = 0.0
            self._stale.set()
        if any(news in payload for news in _NEWS):
            self._stale.set()

    def _tell(self, waiting: WaitingRequests) -> None:
        self.waiting = waiting
        self._told(waiting)


def _as_of(now: datetime, row: RequestRow) -> RequestRow:
    """Return a request, without its deferral if that has ended."""
    over = row.until is not None and row.until <= now
    return msgspec.structs.replace(row, until=None) if over else row
