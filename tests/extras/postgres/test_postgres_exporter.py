"""Loading beside a daemon: nothing waits for it, and whatever breaks it catches up."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from safetyd.extras.postgres import postgres_exporter
from safetyd.extras.postgres.postgres_config import PostgresConfig
from safetyd.extras.postgres.postgres_exporter import PostgresExporter
from tests.conftest import COMMAND_S, environment
from tests.console.console_rig import here
from tests.extras.postgres.event_mix import event_mix
from tests.extras.postgres.postgres_store import PostgresStore
from tests.postgres_server import PostgresServer
from tests.servers import PATIENCE_S, until
from tests.story import NOON

EVENTS = 1500
UNDER_WAY = """
SELECT 1 FROM pg_stat_activity WHERE application_name = 'safetyd' AND pid <> pg_backend_pid()"""


@pytest.fixture
def store(postgres: PostgresServer, schema: str, tmp_path: Path) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres, schema, tmp_path)
    (tmp_path / "dsn").write_text(f"{postgres.dsn()}\n")
    yield store
    store.database.close()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_exporter, "AGAIN_S", (0.02,))


def outlet(store: PostgresStore, written: int, batch: int = 100) -> PostgresExporter:
    config = PostgresConfig(dsn_file="dsn", schema=store.schema, batch=batch)
    return PostgresExporter(config, store.data_dir, written=lambda: written, now=lambda: NOON)


async def run_until(one: PostgresExporter, *claims: Callable[[], object]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.run)
        for claim in claims:
            await until(claim)
        tasks.cancel_scope.cancel()


@pytest.mark.req("S1.44")
async def test_what_is_written_is_loaded_and_told(store: PostgresStore) -> None:
    store.write(event_mix(250))
    one = outlet(store, 250)
    assert (one.state.seq, one.state.behind, one.state.last_success) == (None, 250, None)

    await run_until(one, lambda: one.state.seq == 250)

    assert (one.state.behind, one.state.errors, one.state.problem) == (0, 0, "")
    assert one.state.last_success == NOON
    assert store.loaded_lines() == store.audit_lines()


async def test_an_event_that_comes_later_wakes_it(store: PostgresStore) -> None:
    events = list(event_mix(10))
    store.write(events[:4])
    one = outlet(store, 10)

    def more() -> bool:
        store.write(events[4:])
        one.observe(events[4:])
        return True

    await run_until(one, lambda: one.state.seq == 4, more, lambda: one.state.seq == 10)


async def test_a_database_that_is_down_is_tried_again_until_it_is_back(
    store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.write(event_mix(50))
    one = outlet(store, 50)
    store.server.stop()
    problems: list[str] = []

    def start() -> bool:
        problems.append(one.state.problem)
        store.server.start()
        return True

    await run_until(one, lambda: one.state.errors >= 2, start, lambda: one.state.seq == 50)

    assert "No such file or directory" in problems[0]
    assert (one.state.problem, one.state.behind) == ("", 0)
    said = [record.message.partition(":")[0] for record in caplog.records]
    assert said.count("cannot export to PostgreSQL") < one.state.errors
    assert said[-1].startswith("the export to PostgreSQL works again")


async def test_a_server_that_hangs_is_left_alone_and_holds_nobody_up(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(event_mix(10))
    store.load()
    store.database.close()
    one = outlet(store, 10)
    problems: list[str] = []

    def thaw() -> bool:
        problems.append(one.state.problem)
        monkeypatch.setattr(postgres_exporter, "DEADLINE_S", PATIENCE_S)
        store.server.thaw()
        return True

    monkeypatch.setattr(postgres_exporter, "DEADLINE_S", 0.2)
    store.server.freeze()
    try:
        await run_until(one, lambda: one.state.errors, thaw, lambda: one.state.seq == 10)
    finally:
        store.server.thaw()

    assert problems == ["PostgreSQL has not answered for 0 s"]


async def test_who_ends_does_not_wait_for_a_server_that_hangs(store: PostgresStore) -> None:
    store.write(event_mix(10))
    one = outlet(store, 10)

    def freeze() -> bool:
        store.server.freeze()
        one.observe([])
        return True

    try:
        with anyio.fail_after(PATIENCE_S):
            await run_until(one, lambda: one.state.seq == 10, freeze)
    finally:
        store.server.thaw()


@pytest.mark.parametrize(
    ("dsn", "problem"),
    [
        (None, "outlets.postgres.dsn_file: cannot read {}/dsn: No such file or directory"),
        (
            "secret word",
            "the file of outlets.postgres.dsn_file does not contain a database address",
        ),
    ],
)
async def test_an_address_that_is_missing_or_wrong_is_told_without_it(
    store: PostgresStore, dsn: str | None, problem: str
) -> None:
    path = store.data_dir / "dsn"
    path.unlink()
    if dsn:
        path.write_text(dsn)
    one = outlet(store, 1)

    await run_until(one, lambda: one.state.errors)

    assert one.state.problem.startswith(problem.format(store.data_dir))
    assert "secret word" not in one.state.problem


async def test_without_the_driver_it_says_what_to_type(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetyd.extras.postgres.loading", None)
    one = outlet(store, 1)

    await run_until(one, lambda: one.state.errors)

    assert one.state.problem.endswith("not installed: run `pip install 'safetyd[postgres]'`")


async def test_a_mistake_of_ours_does_not_end_the_daemon(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.write(event_mix(3))
    monkeypatch.setattr("safetyd.extras.postgres.loading.COPY", None)
    one = outlet(store, 3)

    await run_until(one, lambda: one.state.errors)

    assert one.state.problem == "internal error: TypeError"
    assert "Traceback" in caplog.text


class Backfill:
    """`safetyd outlet backfill` in a process of its own, which may be killed."""

    def __init__(self, store: PostgresStore) -> None:
        config = store.data_dir / "safetyd.toml"
        config.write_text(
            f'[outlets.postgres]\ndsn_file = "dsn"\nschema = "{store.schema}"\nbatch = 25\n'
        )
        command = [sys.executable, "-m", "safetyd", "outlet", "backfill"]
        self.process = subprocess.Popen(
            [*command, "--data-dir", str(store.data_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def end(self) -> tuple[int, str]:
        said, complaints = self.process.communicate(timeout=COMMAND_S)
        return self.process.returncode, said + complaints


@pytest.mark.req("S1.44")
@pytest.mark.usefixtures("measured")
async def test_whoever_is_killed_in_the_middle_every_event_is_there_once(
    store: PostgresStore,
) -> None:
    store.write(event_mix(EVENTS))
    store.loader().reached()
    seen = [0]

    def moved() -> bool:
        return bool(store.one("SELECT seq FROM progress") > seen[-1])

    for kill_database in (False, True):
        loading = Backfill(store)
        await until(moved)
        if kill_database:
            store.server.kill()
            code, said = loading.end()
            assert (code, "safetyd: " in said) == (1, True)
            store.server.start()
        else:
            loading.process.kill()
            assert loading.end()[0] == -signal.SIGKILL
        store.database.close()
        # What the killed one had under way ends a moment later.
        await until(lambda: not store.server.execute(UNDER_WAY))
        seen.append(store.one("SELECT seq FROM progress"))
    assert seen == sorted(set(seen))
    assert seen[-1] < EVENTS

    assert Backfill(store).end()[0] == 0

    assert store.loaded_lines() == store.audit_lines()
    assert len(store.loaded_lines()) == EVENTS
    verified = here("outlet", "verify", "--data-dir", str(store.data_dir))
    assert (verified.returncode, verified.stderr) == (0, "")
    assert verified.stdout.startswith(f"Equal: {EVENTS} events up to number {EVENTS}")
