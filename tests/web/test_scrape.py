from collections.abc import Iterator

import anyio
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.policy import Policy
from safetyd.journal.mailbox import Mailbox
from safetyd.monitoring.metrics import GaugeText
from safetyd.web.scrape import FRESH_S, Scrape, StateGauges
from tests.captured_connection import work_off
from tests.story import stop


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


async def no_gauges() -> bytes:
    return b""


@pytest.fixture
def source() -> Source:
    return Source()


async def test_text_is_handed_out_again_until_it_is_old(source: Source) -> None:
    scrape = Scrape(source.slices, no_gauges, source.now)

    first, again = await scrape.text(), await scrape.text()
    source.t += FRESH_S
    later = await scrape.text()

    assert first == b"one 1 1 two 1 "
    assert again is first
    assert later == b"one 2 2 two 2 "


async def test_all_who_ask_together_get_the_same_text(source: Source) -> None:
    scrape = Scrape(source.slices, no_gauges, source.now)
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
    scrape, seen = Scrape(source.slices, no_gauges, source.now), set[float]()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scrape.text)
        with anyio.fail_after(5):
            while len(seen) < 4:
                seen.add(source.t)  # before it, and after each piece
                await anyio.lowlevel.checkpoint()


async def test_gauges_of_the_state_are_asked_in_the_loop_and_stay_while_it_is_stuck(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.web.scrape.PATIENCE_S", 0.01)
    mailbox, engine = Mailbox(), Engine(Policy())
    gauges = StateGauges(mailbox, lambda state, _: GaugeText(f"seq {state.seq} "))
    scrape = Scrape(source.slices, gauges.text, source.now)

    async def scraped() -> bytes:
        source.t += FRESH_S
        return await scrape.text()

    stuck = [await scraped(), await scraped()]
    waiting = len(mailbox)
    work_off(mailbox, engine)
    answered = await scraped()
    engine.handle(stop(0))
    behind = await scraped()
    work_off(mailbox, engine)

    assert stuck == [b"one 1 1 two 1 ", b"one 2 2 two 2 "], "what needs no state is shown"
    assert waiting == 1, "one question at a time"
    assert answered.endswith(b"seq 0 ")
    assert behind.endswith(b"seq 0 "), "the last that was durable"
    assert (await scraped()).endswith(b"seq 2 ")
