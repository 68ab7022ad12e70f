import shutil
from collections.abc import AsyncIterator
from typing import Any

import anyio
import nats.js.api as js_api
import pytest

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM, Subjects
from safetyd.journal.journals import Journal, JournalTrimmed, MemoryJournal
from safetyd.journal.stream import Displaced, JetStreamJournal, JournalUnusable
from tests.nats_process import NatsProcess
from tests.servers import PATIENCE_S, TornLink, connected, down, frozen, until

MAX_BYTES = 16 * 1024 * 1024
SUBJECTS = Subjects()


class Deaf(JetStreamJournal):
    """A journal that gets no answer to what it sends, although it arrives."""

    def _answered(self, subject: bytes, _reply: bytes, payload: bytes) -> None: ...


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a missing answer be noticed sooner."""
    monkeypatch.setattr("safetyd.journal.stream.ANSWER_S", 0.3)
    monkeypatch.setattr("safetyd.journal.stream.AGAIN_S", 0.01)
    monkeypatch.setattr("safetyd.journal.stream.BEAT_S", 0.04)


@pytest.fixture
async def journal(client: HardenedClient) -> JetStreamJournal:
    return await opened(client)


@pytest.fixture(params=["in memory", "JetStream"])
def either(request: pytest.FixtureRequest, journal: JetStreamJournal) -> Journal:
    return journal if request.param == "JetStream" else MemoryJournal()


@pytest.fixture
async def other(
    jetstream: NatsProcess, journal: JetStreamJournal
) -> AsyncIterator[JetStreamJournal]:
    """Another daemon's journal, over the same log."""
    assert journal.last == 0
    async with connected(jetstream.url) as theirs:
        yield await opened(theirs, "other")


async def opened(client: HardenedClient, boot_id: str = "b00t") -> JetStreamJournal:
    journal = JetStreamJournal(client, SUBJECTS, boot_id)
    await journal.open(MAX_BYTES)
    await client.flush()
    return journal


async def replayed(journal: Journal, after: int = 0) -> list[tuple[int, bytes]]:
    return [each async for each in journal.replay(after)]


async def written(journal: Journal, batch: bytes) -> int:
    return await journal.send(batch).settled()


async def stored(client: HardenedClient) -> int:
    return (await client.jetstream().stream_info(STREAM)).state.messages


async def until_unwell(journal: JetStreamJournal) -> None:
    await until(lambda: journal.problem)


async def test_batches_come_back_in_the_order_they_were_appended(either: Journal) -> None:
    assert [await written(either, b"one"), await written(either, b"two")] == [1, 2]

    assert await replayed(either) == [(1, b"one"), (2, b"two")]
    assert await replayed(either, after=1) == [(2, b"two")]
    assert await replayed(either, after=2) == []


async def test_empty_journal_replays_nothing(either: Journal) -> None:
    assert await replayed(either) == []


async def test_more_batches_than_the_server_sends_at_once_all_come_back(
    journal: JetStreamJournal,
) -> None:
    batches = [b"%d " % number * 20_000 for number in range(100)]
    appends = [journal.send(batch) for batch in batches]
    await journal.settle(appends[-1])

    assert [batch for _, batch in await replayed(journal)] == batches


async def test_connection_that_is_lost_during_a_replay_costs_no_batch(
    journal: JetStreamJournal, torn_link: TornLink
) -> None:
    appends = [journal.send(b"%d" % number) for number in range(600)]
    await journal.settle(appends[-1])

    async with connected(torn_link.url) as client:
        reader = await opened(client, "next")
        torn_link.tear_at(33)
        found = await replayed(reader)

    assert torn_link.torn
    assert found == [(number + 1, b"%d" % number) for number in range(600)]


async def test_replay_of_a_trimmed_journal_says_where_it_begins(either: Journal) -> None:
    for batch in (b"one", b"two", b"three"):
        await written(either, batch)
    await either.trim(3)

    with pytest.raises(JournalTrimmed, match="begins with batch 3"):
        await replayed(either, after=1)


async def test_next_daemon_goes_on_where_the_last_one_ended(
    journal: JetStreamJournal, client: HardenedClient
) -> None:
    await journal.append(b"one")

    fresh = await opened(client, "next")

    assert fresh.last == 1
    assert await fresh.append(b"two") == 2


async def test_many_batches_may_be_under_way(journal: JetStreamJournal) -> None:
    appends = [journal.send(b"%d" % number) for number in range(20)]

    sequences = [await journal.settle(append) for append in appends]

    assert sequences == list(range(1, 21))
    assert journal.last == 20


async def test_settling_the_newest_settles_all_before_it(journal: JetStreamJournal) -> None:
    first, second = journal.send(b"one"), journal.send(b"two")

    await journal.settle(second)

    assert first.sequence == 1


async def test_of_two_writers_exactly_one_wins(
    journal: JetStreamJournal, other: JetStreamJournal
) -> None:
    outcomes: list[str] = []

    async def write(who: JetStreamJournal) -> None:
        try:
            await who.append(b"mine")
            outcomes.append("written")
        except Displaced:
            outcomes.append("displaced")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write, journal)
        tasks.start_soon(write, other)

    assert sorted(outcomes) == ["displaced", "written"]
    assert len(await replayed(journal) or await replayed(other)) == 1


async def test_loop_that_was_displaced_never_writes_again(
    journal: JetStreamJournal, other: JetStreamJournal, client: HardenedClient
) -> None:
    await other.append(b"theirs")

    for _ in range(2):
        with pytest.raises(Displaced, match="another daemon wrote batch 1"):
            await journal.append(b"ours")

    assert await stored(client) == 1


async def test_batch_behind_one_that_was_refused_does_not_follow_anothers(
    journal: JetStreamJournal, other: JetStreamJournal, client: HardenedClient
) -> None:
    await other.append(b"theirs")
    first, second = journal.send(b"ours"), journal.send(b"ours too")

    for append in (first, second):
        with pytest.raises(Displaced):
            await journal.settle(append)

    assert await stored(client) == 1


async def test_append_whose_answer_was_lost_is_recognised_as_written(
    client: HardenedClient, journal: JetStreamJournal
) -> None:
    deaf = Deaf(client, SUBJECTS, "deaf")
    await deaf.open(MAX_BYTES)

    assert [await deaf.append(b"one"), await deaf.append(b"two")] == [1, 2]

    assert await stored(client) == 2
    assert journal.problem == deaf.problem == ""


async def test_repeat_of_an_append_that_arrived_is_not_written_twice(
    journal: JetStreamJournal, client: HardenedClient
) -> None:
    append = journal.send(b"one")
    client.send(journal._command(append) * 2)

    assert await journal.settle(append) == 1
    assert await journal.append(b"two") == 2
    assert await stored(client) == 2


async def test_lost_answer_to_one_of_many_is_found_out(
    client: HardenedClient, journal: JetStreamJournal
) -> None:
    assert journal.last == 0
    deaf = Deaf(client, SUBJECTS, "deaf")
    await deaf.open(MAX_BYTES)
    appends = [deaf.send(b"%d" % number) for number in range(5)]

    assert [await deaf.settle(append) for append in appends] == [1, 2, 3, 4, 5]
    assert await stored(client) == 5


async def test_answer_lost_and_log_taken_is_displaced(
    client: HardenedClient, other: JetStreamJournal
) -> None:
    deaf = Deaf(client, SUBJECTS, "deaf")
    await deaf.open(MAX_BYTES)
    append = deaf.send(b"ours")
    await client.flush()
    other.last = 1
    await other.append(b"theirs")

    with pytest.raises(Displaced):
        await deaf.settle(append)


async def test_frozen_server_is_a_problem_until_it_answers_again(
    journal: JetStreamJournal, jetstream: NatsProcess, client: HardenedClient
) -> None:
    async with anyio.create_task_group() as tasks:
        with frozen(jetstream):
            tasks.start_soon(journal.append, b"one")
            await until_unwell(journal)
            assert journal.problem == "the journal's server does not answer"

    assert journal.problem == ""
    assert await stored(client) == 1


async def test_server_killed_during_an_append_does_not_lose_or_double_it(
    journal: JetStreamJournal, jetstream: NatsProcess, client: HardenedClient
) -> None:
    await journal.append(b"before")

    async with anyio.create_task_group() as tasks:
        with down(jetstream):
            for batch in (b"one", b"two"):
                tasks.start_soon(journal.settle, journal.send(batch))
            await until_unwell(journal)
    await journal.append(b"after")

    assert [batch for _, batch in await replayed(journal)] == [b"before", b"one", b"two", b"after"]
    assert await stored(client) == 4


async def test_server_killed_right_after_an_append_has_it_on_disk(
    journal: JetStreamJournal, jetstream: NatsProcess, client: HardenedClient
) -> None:
    append = journal.send(b"one")
    await client.flush()

    with down(jetstream):
        pass

    assert await journal.settle(append) == 1
    async with connected(jetstream.url) as fresh:
        assert await replayed(await opened(fresh, "next")) == [(1, b"one")]


async def test_journal_in_an_older_state_is_lost_until_the_newer_one_is_back(
    journal: JetStreamJournal, jetstream: NatsProcess, client: HardenedClient
) -> None:
    store = jetstream.directory / "jetstream"
    await journal.append(b"one")
    with down(jetstream):
        shutil.copytree(store, older := store.with_name("older"))
    await journal.append(b"two")

    with down(jetstream):
        store.rename(newer := store.with_name("newer"))
        older.rename(store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.append, b"three")
        await until(lambda: journal.lost)
        said = journal.lost
        with down(jetstream):
            shutil.rmtree(store)
            newer.rename(store)

    assert "ends with batch 1, but batch 2 was written: the journal was lost or replaced" in said
    assert journal.lost == ""
    assert await stored(client) == 3


async def test_stream_that_is_not_there_yet_is_waited_for(
    journal: JetStreamJournal, client: HardenedClient, jetstream: NatsProcess
) -> None:
    await client.jetstream().delete_stream(STREAM)

    async with anyio.create_task_group() as tasks, connected(jetstream.url) as theirs:
        tasks.start_soon(journal.append, b"one")
        with anyio.move_on_after(0.5):
            await anyio.sleep_forever()
        await opened(theirs, "other")

    assert await replayed(journal) == [(1, b"one")]


async def test_full_journal_says_so_and_goes_on_when_there_is_room(
    client: HardenedClient,
) -> None:
    journal = JetStreamJournal(client, SUBJECTS, "b00t")
    await journal.open(4096)
    await journal.append(b"x" * 2000)
    await journal.append(b"y" * 200)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.append, b"z" * 2000)
        await until_unwell(journal)
        problem = journal.problem
        await journal.trim(2)

    assert problem == "maximum bytes exceeded"
    assert journal.problem == ""
    assert journal.last == 3


async def test_trimming_forgets_what_came_before_and_never_the_newest(
    either: Journal,
) -> None:
    for batch in (b"one", b"two", b"three"):
        await written(either, batch)

    await either.trim(2)
    middle = await either.first()
    await either.trim(3)
    newest = await either.first()
    await either.trim(4)
    await either.trim(0)

    assert (middle, newest) == (2, 3)
    assert await replayed(either, after=2) == [(3, b"three")]
    assert await written(either, b"four") == 4


async def test_share_that_is_used_grows(journal: JetStreamJournal) -> None:
    before = await journal.used()
    await journal.append(b"x" * 160_000)

    assert before == 0.0
    assert 0.009 < await journal.used() < 0.011


async def test_heartbeats_prove_that_the_journal_is_still_owned(
    journal: JetStreamJournal, jetstream: NatsProcess
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.beat)
        await until(lambda: journal.last >= 3)
        with frozen(jetstream):
            await until(lambda: journal.unowned_s > 0.5)
        await until(lambda: journal.unowned_s < 0.5)
        tasks.cancel_scope.cancel()

    assert {batch for _, batch in await replayed(journal)} == {b""}


async def test_heartbeat_notices_that_another_daemon_has_written(
    journal: JetStreamJournal, other: JetStreamJournal
) -> None:
    await other.append(b"theirs")

    with anyio.fail_after(5), pytest.raises(Displaced):
        await journal.beat()


async def test_heartbeats_are_sent_only_between_batches(journal: JetStreamJournal) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.beat)
        for number in range(200):
            await journal.append(b"%d" % number)
        await until(lambda: journal.last >= 202)
        tasks.cancel_scope.cancel()

    assert [batch for _, batch in await replayed(journal) if batch] == [
        b"%d" % number for number in range(200)
    ]


async def test_older_batch_at_the_end_is_no_proof_of_another_daemon(
    journal: JetStreamJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal.append(b"one")
    await journal.append(b"two")

    async def deposed() -> tuple[int, str]:
        """Answer like a server that has lost the leadership of the stream."""
        return 1, "b00t-1"

    monkeypatch.setattr(journal, "_end", deposed)

    await journal._find_out()
    assert await journal.append(b"three") == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"storage": js_api.StorageType.MEMORY}, "storage = memory; it must be file"),
        ({"discard": js_api.DiscardPolicy.OLD}, "discard = old; it must be new"),
        ({"deny_delete": False}, "deny_delete = False; it must be True"),
        ({"max_age": 3600}, "max_age = 3600.0; it must be 0"),
        ({"max_msgs_per_subject": 10}, "max_msgs_per_subject = 10; it must be -1"),
        ({"retention": js_api.RetentionPolicy.WORK_QUEUE}, "retention = workqueue"),
        ({"subjects": ["another.journal.*"]}, "subjects = ['another.journal.*']"),
    ],
)
async def test_stream_that_would_forget_is_refused(
    client: HardenedClient, changes: dict[str, Any], said: str
) -> None:
    config = {
        "name": STREAM,
        "subjects": ["safety.v1.journal.*"],
        "storage": js_api.StorageType.FILE,
        "discard": js_api.DiscardPolicy.NEW,
        "deny_delete": True,
    }
    await client.jetstream(timeout=PATIENCE_S).add_stream(
        js_api.StreamConfig(**{**config, **changes})
    )

    with pytest.raises(JournalUnusable) as caught:
        await opened(client)

    assert said in str(caught.value)


async def test_log_without_a_bound_uses_none_of_it(client: HardenedClient) -> None:
    journal = JetStreamJournal(client, SUBJECTS, "b00t")
    await journal.open(-1)
    await journal.append(b"one")

    assert await journal.used() <= 0.0
