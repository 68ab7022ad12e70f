"""How many modules a call passes through: `python -m tests.walks`.

For each walk it prints how many modules of safetyd take part, and how often the call goes from one
module to another. A reader who follows the call opens as many files.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import anyio

import safetyd
from safetyd.core.policy import Policy
from safetyd.notify.email.mail_channel import mail
from tests.core.approvals.queue_story import QueueStory, push
from tests.notify.compose_rig import ComposeRig
from tests.story import propose, tick
from tests.web.control_room.room_site import Browser, room_site

PACKAGE = str(Path(safetyd.__file__).parent)


class Walk(NamedTuple):
    name: str
    files: int
    changes: int


class Trail:
    """The modules of safetyd in the order in which their functions are called."""

    def __init__(self) -> None:
        self._last = ""
        self._seen: set[str] = set()
        self._changes = 0

    def step(self, frame: FrameType, event: str, _arg: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or file == self._last or not file.startswith(PACKAGE):
            return
        self._changes += bool(self._last)
        self._last = file
        self._seen.add(file)

    def walk(self, name: str) -> Walk:
        return Walk(name, len(self._seen), self._changes)


@contextmanager
def followed() -> Iterator[Trail]:
    trail = Trail()
    sys.setprofile(trail.step)
    try:
        yield trail
    finally:
        sys.setprofile(None)


def one(name: str, call: Callable[[], object]) -> Walk:
    with followed() as trail:
        call()
    return trail.walk(name)


def decisions() -> Iterator[Walk]:
    queue = QueueStory(Policy())
    queue.proposes(propose(1, id="before"))
    yield one("an allowed proposal", lambda: queue.proposes(propose(2, id="now")))
    queue.proposes(push(3, "asked-before"))
    yield one("a request is asked", lambda: queue.proposes(push(4, "asked", text="git push x")))


def messages() -> Iterator[Walk]:
    rig = ComposeRig()
    rig.asks("one", text="git push origin one")
    rig.asks("two", text="git push origin two")
    rig.clock.t += 60
    yield one("a tick that makes two requests due", lambda: rig.happens(tick(rig.clock.t)))
    rig = ComposeRig()
    rig.says(due := rig.due())
    yield one("a mail, text and HTML", lambda: mail(rig.says(due), "a@example.com", "host"))


async def page(directory: Path) -> Walk:
    async with room_site(directory) as site, site.browser("alice") as browser:
        ids = [site.asks(f"p{number}") for number in range(3)]
        return await visited(browser, f"/requests/{ids[0]}")


async def visited(browser: Browser, path: str) -> Walk:
    await browser.get(path)
    with followed() as trail:
        heard = await browser.get(path)
    assert heard.status == 200, heard.text
    return trail.walk("a page of the control room")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        walks = [*decisions(), *messages(), anyio.run(page, Path(place))]
    for walk in walks:
        print(f"{walk.name:<36} {walk.files:>4} files {walk.changes:>5} changes of file")


if __name__ == "__main__":
    main()
