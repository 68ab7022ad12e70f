from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import anyio
import pytest

from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.sender_limits import AGENT_LIMITS
from safetyd.journal.audit import files
from safetyd.monitoring.recent_events import MAX_EVENTS
from safetyd.web.v1 import event_replay, event_socket
from safetyd.web.v1.event_socket import MAX_FEEDS, TURN
from tests.schemas import validator
from tests.servers import until
from tests.web.v1.feed_site import AUTHORIZED, FeedSite, told, untold

LONG = "x" * 64 * 1024


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[FeedSite]:
    async with FeedSite(tmp_path).listening() as site:
        yield site


@pytest.mark.req("S1.45")
async def test_each_frame_is_a_safety_event_with_its_number(site: FeedSite) -> None:
    async with site.feed() as reader:
        site.happens(untold(1), told(2))
        event = await reader.event()

    assert event.pop("seq") == 2
    assert event.keys() == set(SafetyEvent.__struct_fields__) - {"seq", "at", "t"}
    validator("safety_event", closed=True).validate(event)


async def test_without_a_number_it_begins_now_and_says_where_that_is(tmp_path: Path) -> None:
    async with FeedSite(tmp_path, before=5).listening() as site, site.feed() as reader:
        site.goes_on(2)

        assert reader.seq == 5
        assert await reader.seqs(2) == [6, 7]


@pytest.mark.req("S1.45")
@pytest.mark.parametrize("after", [0, 7, 20, 24, 25])
async def test_a_resumed_feed_has_each_event_once(tmp_path: Path, after: int) -> None:
    async with FeedSite(tmp_path, before=20).listening() as site:
        site.goes_on(5)
        async with site.feed(f"?after={after}") as reader:
            earlier = await reader.seqs(25 - after)
            site.goes_on(3)
            later = await reader.seqs(3)

    assert [*earlier, *later] == list(range(after + 1, 29))


@pytest.mark.req("S1.45")
async def test_new_events_during_a_replay_come_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_replay, "SLICE", 10)
    async with (
        FeedSite(tmp_path, before=300, max_bytes=16 * 1024).listening() as site,
        site.feed("?after=10") as reader,
    ):
        heard = await reader.seqs(20)
        site.goes_on(50)
        heard += await reader.seqs(320)
        several = len(files(tmp_path / "audit"))

    assert heard == list(range(11, 351))
    assert several > 2


async def test_older_events_come_from_the_audit_files(site: FeedSite) -> None:
    count = 2 * MAX_EVENTS
    async with site.feed() as reader:
        site.happens(*(told(seq) for seq in range(1, count + 1)))
        heard = await reader.seqs(count)
        kept = site.recent.after

    assert heard == list(range(1, count + 1))
    assert kept > 0


@pytest.mark.parametrize(
    ("query", "seqs"),
    [
        ("?after=0&agent=ops", [2, 4]),
        ("?after=0&event_type=AGENT_RESUMED", [3, 4]),
        ("?after=0&agent=ops&event_type=AGENT_RESUMED", [4]),
    ],
)
async def test_only_what_is_wanted_is_told(tmp_path: Path, query: str, seqs: list[int]) -> None:
    async with FeedSite(tmp_path).listening() as site:
        site.happens(told(1), told(2, "ops"))
        site.happens(told(3, event_type="AGENT_RESUMED"), told(4, "ops", "AGENT_RESUMED"))
        async with site.feed(query) as reader:
            heard = await reader.seqs(len(seqs))

    assert heard == seqs


@pytest.mark.parametrize(
    ("query", "status", "code", "error"),
    [
        ("", 426, "upgrade_required", "this is a WebSocket"),
        ("?after=x", 400, "invalid", 'after is "x"; expected `int'),
        ("?after=-1", 400, "invalid", 'after is "-1"; expected `int` >= 0'),
        ("?after=6", 400, "invalid", "after is 6, but the newest event is 5"),
        ("?since=1", 400, "invalid", "unknown parameter 'since'"),
    ],
)
async def test_a_wrong_question_is_refused_with_what_is_wrong(
    tmp_path: Path, query: str, status: int, code: str, error: str
) -> None:
    async with FeedSite(tmp_path, before=5).listening() as site:
        heard, content = await site.get(query)

    assert (heard, content["ok"], content["code"]) == (status, False, code)
    assert error in content["error"]


async def test_a_feed_after_removed_files_names_the_event_to_resume_after(
    tmp_path: Path,
) -> None:
    async with FeedSite(tmp_path, before=100, max_bytes=4096).listening() as site:
        first, second, *_ = files(tmp_path / "audit")
        first.unlink()
        status, content = await site.get("?after=0")
        from_where = content["error"].rpartition("=")[2]
        async with site.feed(f"?after={from_where}") as reader:
            (next_one,) = await reader.seqs(1)

    assert (status, content["code"]) == (410, "gone")
    assert next_one == int(from_where) + 1
    assert f'"seq":{next_one},'.encode() in second.read_bytes()


async def test_audit_files_that_cannot_be_read_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(directory: Path, seq: int) -> None:
        raise PermissionError(13, "Permission denied")

    async with FeedSite(tmp_path, before=5).listening() as site:
        async with AsyncExitStack() as stack:
            with monkeypatch.context() as patch:
                patch.setattr(event_replay, "lines_after", unreadable)
                reader = await stack.enter_async_context(site.feed("?after=1"))
                seqs = await reader.rest()
        monkeypatch.setattr(event_replay, "files", lambda directory: unreadable(directory, 0))
        status, content = await site.get("?after=1")

    assert (seqs, reader.end) == (
        [],
        (1011, "audit files: Permission denied; resume with after=1"),
    )
    assert (status, content["code"]) == (503, "unreadable")


async def test_nobody_follows_without_the_bearer(site: FeedSite) -> None:
    status, _ = await site.get(headers={})

    assert status == 401


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}]
)
async def test_pages_of_other_sites_follow_nothing(site: FeedSite, headers: dict[str, str]) -> None:
    status, content = await site.get(headers={**AUTHORIZED, **headers})

    assert (status, content["code"]) == (403, "other_site")


async def test_there_is_room_for_so_many_and_who_leaves_makes_room(site: FeedSite) -> None:
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(site.feed()) for _ in range(MAX_FEEDS)]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await stack.enter_async_context(site.feed())
        await readers[0].socket.close()
        await until(lambda: site.open_feeds < MAX_FEEDS)
        reader = await stack.enter_async_context(site.feed())
        site.goes_on(1)
        heard = [await one.seqs(1) for one in (*readers[1:], reader)]
    await until(lambda: site.open_feeds == 0)

    assert refused.value.status == 429
    assert heard == [[1]] * MAX_FEEDS


async def test_a_feed_does_not_give_way_to_others_who_come(site: FeedSite) -> None:
    parts = urlsplit(site.url)
    async with site.feed() as reader, AsyncExitStack() as stack:
        for _ in range(AGENT_LIMITS.connections + 1):
            stream = await anyio.connect_tcp(parts.hostname or "", parts.port or 0)
            await stack.enter_async_context(stream)
        site.goes_on(1)

        assert await reader.seqs(1) == [1]


@pytest.mark.req("S1.45")
async def test_a_slow_reader_gets_the_event_to_resume_after_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_socket, "SLOW_S", 1.0)
    monkeypatch.setattr(event_socket, "CLOSE_S", 30.0)
    count = 4 * TURN
    async with FeedSite(tmp_path, max_bytes=1024**3).listening() as site:
        async with site.feed() as slow, site.feed() as brisk:
            feeds = tuple(site.socket._feeds)
            site.goes_on(count, text=LONG)
            unhindered = await brisk.seqs(count)
            # The other one reads all; on a busy machine the slow one may be told before that.
            feed = min(feeds, key=lambda feed: feed.seq)
            await until(lambda: feed._end is not None)
            first = await slow.rest()
        async with site.feed(f"?after={first[-1]}") as resumed:
            second = await resumed.seqs(count - len(first))

    assert unhindered == list(range(1, count + 1))
    assert slow.end == (1013, f"too slow; resume with after={first[-1]}")
    assert 0 < len(first) < count
    assert [*first, *second] == unhindered


async def test_a_reader_that_never_reads_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_socket, "SLOW_S", 0.1)
    monkeypatch.setattr(event_socket, "CLOSE_S", 0.1)
    async with (
        FeedSite(tmp_path, max_bytes=1024**3).listening() as site,
        site.feed(),
    ):
        site.goes_on(4 * TURN, text=LONG)
        await until(lambda: site.open_feeds == 0)


async def test_a_reader_that_does_not_answer_pings_is_dropped(
    site: FeedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_socket, "HEARTBEAT_S", 0.05)
    async with site._browser.ws_connect(site.url, headers=AUTHORIZED, autoping=False):
        await until(lambda: site.open_feeds == 0)


@pytest.mark.parametrize(("said", "code"), [("hello", 1008), ("x" * 2000, 1009)])
async def test_a_reader_that_sends_anything_is_disconnected(
    site: FeedSite, said: str, code: int
) -> None:
    async with site.feed() as reader:
        await reader.socket.send_str(said)
        await reader.rest()

    assert reader.end is not None
    assert reader.end[0] == code
    await until(lambda: site.open_feeds == 0)


async def test_a_daemon_that_stops_says_so_and_how_to_resume(site: FeedSite) -> None:
    async with anyio.create_task_group() as tasks, site.feed() as reader:
        site.goes_on(3)
        heard = await reader.seqs(3)
        tasks.start_soon(site.stop)
        await reader.rest()

    assert heard == [1, 2, 3]
    assert reader.end == (1001, "safetyd is stopping; resume with after=3")


async def test_a_reader_that_vanishes_leaves_nothing_behind(site: FeedSite) -> None:
    async with site.feed("?after=0") as reader:
        reader.socket._response.close()  # without a goodbye
        site.goes_on(TURN)
        await until(lambda: site.open_feeds == 0)
