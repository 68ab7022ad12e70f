"""The desktop that the daemon itself lives on: what its buttons do, and what is said afterwards."""

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
MOST: Final = 64  # things to do; of more the oldest are left out
OPENER: Final = "xdg-open"
VIA: Final = "desktop"


class ButtonOutcome(NamedTuple):
    summary: str
    detail: str = ""


def outcome(command: str, result: ReviewResult) -> ButtonOutcome:
    """Return what came of an answer: that it counts, or why it does not."""
    if not result.ok:
        return _refused(command, result)
    held = result.held if command == "approve" else None
    if held:
        return ButtonOutcome("Approved, but held back now.", f"Why: {_plain(held)}")
    return ButtonOutcome(f"{_DONE[command].capitalize()}. The agent has been told.")


def _refused(command: str, result: ReviewResult) -> ButtonOutcome:
    if result.code == "expired":
        return ButtonOutcome("Too late.", "Nobody answered in time, so it did not happen.")
    if result.code != "already_decided":
        return ButtonOutcome("Not recorded.", _plain(result.error))
    already = f"Already {_plain(result.decision)}."
    if result.decision != _DONE[command]:
        already += " Your answer was NOT applied."
    return ButtonOutcome(already, _who_first(result))


def _who_first(result: ReviewResult) -> str:
    """Say who answered first, if anybody did: a request may end without that."""
    if result.by is None or result.at is None:
        return ""
    at = to_the_second(result.at.astimezone())
    return f"By {_plain(result.by)} via {_plain(result.via)} at {at}"


def _plain(words: object) -> str:
    return one_line(str(words), _CHARS)


class Shows(Protocol):
    """A desktop, as far as answers concern it."""

    async def tell(self, request_id: str, outcome: str) -> None: ...

    async def withdraw(self, request_id: str) -> None: ...


Job = Callable[[Shows], Awaitable[object]]


class DesktopButtons:
    """Answers of the person at the desktop, and what is to be shown because of them."""

    def __init__(self, mailbox: Mailbox, waits: Callable[[Request], bool]) -> None:
        self._mailbox = mailbox
        self._waits = waits
        self._todo: deque[Job] = deque(maxlen=MOST)
        self._woken = anyio.Event()

    @property
    def opener(self) -> Callable[[str], None] | None:
        """What opens a page, where a program for that is installed."""
        return self._opened if shutil.which(OPENER) else None

    async def run(self, desktop: Shows) -> None:
        """Do what is to be done, forever."""
        while True:
            while self._todo:
                with suppress(Unavailable):  # a desktop that is gone shows nothing any more
                    await self._todo.popleft()(desktop)
            self._woken = anyio.Event()
            await self._woken.wait()

    def answered(self, request_id: str, approve: bool, digest: str) -> None:  # noqa: FBT001
        """Take the answer of somebody who pressed a button."""
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
        """Take away what was answered elsewhere, or is over."""
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
