from collections.abc import Iterator

import anyio
import pytest

from safetyd.web.scrape import FRESH_S, Scrape


class Source:
    """Makes a text in three pieces, each of which takes a moment of a clock that a test sets."""

    def __init__(self) -> None:
        self.t = 1000.0
        self.made = 0

    def now(self) -> float:
        return self.t

    def slices(self) -> Iterator[bytes]:
        self.made += 1
        for part in (b"one ", b"", b"two "):
            self.t += 0.001
            yield part + b"%d " % self.made


@pytest.fixture
def source() -> Source:
    return Source()


async def test_text_is_handed_out_again_until_it_is_old(source: Source) -> None:
    scrape = Scrape(source.slices, source.now)

    first, again = await scrape.text(), await scrape.text()
    source.t += FRESH_S
    later = await scrape.text()

    assert first == b"one 1 1 two 1 "
    assert again is first
    assert later == b"one 2 2 two 2 "


async def test_all_who_ask_together_get_the_same_text(source: Source) -> None:
    scrape = Scrape(source.slices, source.now)
    got: list[bytes] = []

    async def ask() -> None:
        got.append(await scrape.text())

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(ask)

    assert source.made == 1
    assert len(got) == 6
    assert len(set(got)) == 1


async def test_others_have_their_turn_between_the_pieces(source: Source) -> None:
    scrape, seen = Scrape(source.slices, source.now), set[float]()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scrape.text)
        with anyio.fail_after(5):
            while len(seen) < 4:
                seen.add(source.t)  # before it, and after each piece
                await anyio.lowlevel.checkpoint()
