"""The picture in the documents; `python -m tests.console.review.test_review_picture` draws it."""

import html
import re
import tempfile
from pathlib import Path
from typing import Final

import anyio

from tests.checkout import ROOT
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.console.review.test_screen import ask, reviewing

PICTURE: Final = ROOT / "docs" / "review.svg"
SIZE: Final = (100, 28)
FONTS: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)  # fetched from elsewhere


async def drawn(daemon: RunningDaemon) -> str:
    """Return the screen as it is with three requests."""
    ask(daemon, "code", urgency="high", timeout_s=840)
    ask(daemon, "ops", type="deploy", text="deploy web to staging", rationale="Release day")
    ask(daemon, "docs", type="create_pull_request", text="", description="Fix three typos")
    async with reviewing(daemon, SIZE) as reviewer:
        await reviewer.sees("3 pending", ", pending)", "required by")
        picture = reviewer.app.export_screenshot(title="safetyd review", simplify=True)
    return FONTS.sub("", picture)


def words(picture: str) -> str:
    return html.unescape(picture).replace("\xa0", " ")


async def test_the_picture_shows_the_screen_as_it_is(start_daemon: StartDaemon):
    now = words(await drawn(start_daemon(UNLIMITED)))
    then = words(PICTURE.read_text())

    for part in ("approve", "3 pending, 1 of high urgency", "push by code", "exact text"):
        assert part in now
        assert part in then
    assert PICTURE.stat().st_size < 40_000


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        daemon = RunningDaemon(Path(directory), UNLIMITED)
        try:
            PICTURE.write_text(anyio.run(drawn, daemon))
        finally:
            daemon.stop()


if __name__ == "__main__":
    main()
