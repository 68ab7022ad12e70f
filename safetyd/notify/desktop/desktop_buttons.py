"""Handles buttons of desktop notifications: records the answer and shows its outcome."""

import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import methodcaller
from typing import Final, NamedTuple, Protocol

import anyio

from safetyd.bus.keyring import LOCAL_OPERATOR
from safetyd.core.approvals.request import Request
from safetyd.core.events.event import Event
from safetyd.core.text.time_words import to_the_second
from safetyd.journal.mailbox import Mailbox
from safetyd.notify.answers import ended
from safetyd.notify.channel import Unavailable
from safetyd.notify.sanitize import one_line
from safetyd.operators.contract.request_contract import (
    ApproveCommand,
    DenyCommand,
    ReviewDone,
    ReviewResult,
)
from safetyd.operators.reviews import Review

_CHARS: Final = 200
_DONE: Final = {"approve": "approved", "deny": "denied"}
MOST: Final = 64  # queued jobs; if there are more, the oldest are dropped
OPENER: Final = "xdg-open"
VIA: Final = "desktop"


class ButtonOutcome(NamedTuple):
    summary: str
    detail: str = ""


def outcome(command: str, result: ReviewResult) -> ButtonOutcome:
    """Return the text that says whether an answer was recorded, or why not."""
    if not result.ok:
        return _refused(command, result)
    held = result.held if command == "approve" else None
    if held:
        return ButtonOutcome("Approved, but still blocked.", f"Why: {_plain(held)}")
    return ButtonOutcome(f"{_DONE[command].capitalize()}. The agent received your answer.")


def _refused(command: str, result: ReviewResult) -> ButtonOutcome:
    if result.code == "expired":
        return ButtonOutcome("Too late.", "Nobody answered in time, so the action was not allowed.")
    if result.code != "already_decided":
        return ButtonOutcome("Not recorded.", _plain(result.error))
    already = f"Already {_plain(result.decision)}."
    if result.decision != _DONE[command]:
        already += " Your answer was NOT applied."
    return ButtonOutcome(already, _who_first(result))


def _who_first(result: ReviewResult) -> str:
    """Return who answered first; empty if the request ended without an answer."""
    if result.by is None or result.at is None:
        return ""
    at = to_the_second(result.at.astimezone())
    return f"By {_plain(result.by)} via {_plain(result.via)} at {at}"


def _plain(words: object) -> str:
    return one_line(str(words), _CHARS)


class Shows(Protocol):
    """The methods of a desktop that are needed to handle an answer."""

    async def tell(self, request_id: str, outcome: str) -> None: ...

    async def withdraw(self, request_id: str) -> None: ...


Job = Callable[[Shows], Awaitable[object]]


class DesktopButtons:
    """Records answers of the operator at the desktop, and shows their outcomes."""

    def __init__(self, mailbox: Mailbox, waits: Callable[[Request], bool]) -> None:
        self._mailbox = mailbox
        self._waits = waits
        self._todo: deque[Job] = deque(maxlen=MOST)
        self._woken = anyio.Event()

    @property
    def opener(self) -> Callable[[str], None] | None:
        """A function that opens a page; None if no program for that is installed."""
        return self._opened if shutil.which(OPENER) else None

    async def run(self, desktop: Shows) -> None:
        """Run queued jobs, forever."""
        while True:
            while self._todo:
                with suppress(Unavailable):  # the desktop may be gone
                    await self._todo.popleft()(desktop)
            self._woken = anyio.Event()
            await self._woken.wait()

    def answered(self, request_id: str, approve: bool, digest: str) -> None:  # noqa: FBT001
        """Queue the answer of an operator who pressed a button."""
        ids = (request_id,)
        command = (
            ApproveCommand(ids=ids, digest=digest, via=VIA)
            if approve
            else DenyCommand(ids=ids, via=VIA)
        )
        told = partial(self._told, request_id, "approve" if approve else "deny")
        for envelope in Review(LOCAL_OPERATOR, command, self._waits, told).envelopes():
            self._mailbox.put(envelope)

    def observe(self, events: Sequence[Event]) -> None:
        """Hide requests that were answered elsewhere or have ended."""
        for request_id in (id_ for id_, via in ended(events) if via != VIA):
            self._do(methodcaller("withdraw", request_id))

    def _told(self, request_id: str, command: str, answer: ReviewDone) -> None:
        came = outcome(command, answer.results[0])
        said = f"{came.summary} {came.detail}".strip()
        self._do(methodcaller("tell", request_id, said))

    def _opened(self, link: str) -> None:
        self._do(lambda _: anyio.run_process([OPENER, link], check=False))

    def _do(self, job: Job) -> None:
        self._todo.append(job)
        self._woken.set()
