"""What the buttons of the daemon's own desktop do."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from safetyd.core.approvals.request import Request
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.request_events import Cancelled, Expired
from safetyd.journal.commit_loop import put
from safetyd.journal.mailbox import Mailbox
from safetyd.notify.channel import Unavailable
from safetyd.notify.desktop.desktop_buttons import OPENER, DesktopButtons
from tests.core.approvals.queue_story import QueueStory
from tests.story import at


class Desktop:
    """Remembers what it was told; one that is gone shows nothing."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.gone = False

    async def tell(self, request_id: str, outcome: str) -> None:
        self._note(request_id, outcome)

    async def withdraw(self, request_id: str) -> None:
        self._note(request_id, "withdrawn")

    def _note(self, request_id: str, words: str) -> None:
        if self.gone:
            raise Unavailable("there is no desktop")
        self.told.append((request_id, words))


class Place:
    """A queue with one request, a desktop, and somebody in front of it."""

    def __init__(self) -> None:
        self.queue = QueueStory()
        self.asked = self.queue.asks(0).request_id or ""
        self.mailbox = Mailbox()
        self.screen = Desktop()
        self.desktop = DesktopButtons(self.mailbox, _waits)

    @property
    def request(self) -> Request:
        return self.queue.request(self.asked)

    def press(self, *, approve: bool) -> list[Event]:
        self.desktop.answered(self.asked, approve, "")
        envelope = self.mailbox.take()
        assert envelope is not None
        events = list(put(self.queue.engine, envelope, Moment(at(9), 9.0)))
        envelope.deliver(late=False)
        return events

    async def settle(self, *, until: Callable[[], bool]) -> None:
        """Let everything be done that is to be done."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.desktop.run, self.screen)
            with anyio.fail_after(5):
                while not until():  # noqa: ASYNC110 - what is waited for has no event
                    await anyio.sleep(0.005)
            tasks.cancel_scope.cancel()

    async def shown(self, count: int = 1) -> list[tuple[str, str]]:
        await self.settle(until=lambda: len(self.screen.told) >= count)
        return self.screen.told


def _waits(_request: Request) -> bool:
    return False


@pytest.mark.parametrize(
    ("approve", "state", "said"),
    [
        (True, "approved", "Approved. The agent received your answer."),
        (False, "denied", "Denied. The agent received your answer."),
    ],
)
async def test_a_button_answers_and_says_so(approve, state: str, said: str) -> None:
    place = Place()

    place.press(approve=approve)

    assert place.request.state == state
    assert place.request.answer is not None
    assert (place.request.answer.by, place.request.answer.via) == ("local", "desktop")
    assert await place.shown() == [(place.asked, said)]


async def test_who_presses_second_is_told_who_was_first() -> None:
    place = Place()
    place.queue.answers(5, place.asked, "denied", by="alice")

    place.press(approve=True)

    ((_, said),) = await place.shown()
    assert said.startswith("Already denied. Your answer was NOT applied. By alice via cli at ")


async def test_what_ended_elsewhere_is_taken_away() -> None:
    place = Place()
    cancelled = Cancelled(at=at(1), t=1.0, request_id="req_1", by="alice", via="cli")
    expired = Expired(at=at(1), t=1.0, request_ids=("req_2", "req_3"))
    own = place.press(approve=False)

    place.desktop.observe([*own, cancelled, expired])

    withdrawn = [id_ for id_, said in await place.shown(4) if said == "withdrawn"]
    assert withdrawn == ["req_1", "req_2", "req_3"]


async def test_a_desktop_that_is_gone_is_no_trouble() -> None:
    place = Place()
    place.screen.gone = True
    place.press(approve=True)
    place.desktop.observe([Expired(at=at(1), t=1.0, request_ids=("req_1",))])

    await place.settle(until=lambda: True)

    assert place.request.state == "approved"


async def test_a_page_is_opened_where_something_can_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, opener = tmp_path / "opened", tmp_path / OPENER
    opener.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    opener.chmod(0o755)
    place = Place()
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    assert place.desktop.opener is not None
    place.desktop.opener("https://safety.example.com/d/1a")
    await place.settle(until=lambda: opened.exists() and bool(opened.read_text()))

    assert opened.read_text() == "https://safety.example.com/d/1a\n"


def test_without_a_program_that_opens_pages_none_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert Place().desktop.opener is None
