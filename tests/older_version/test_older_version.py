"""What the version before wrote is read, replayed and gone on with; see README.md."""

import hashlib
import re
import shutil
import zlib
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import Checkpoint
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.notification_events import Due, NotTold, Told
from safetyd.core.policy import Policy
from safetyd.journal.audit import files, verify
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, safetyd
from tests.journeys.asking_agent import Asker, waiting
from tests.journeys.audit_record import assert_verifies
from tests.journeys.people import query
from tests.journeys.wall_clock import WallClock

HISTORY: Final = ROOT / "tests/older_version"
DAEMON: Final = HISTORY / "daemon"
ENGINE: Final = HISTORY / "engine"
KEYED: Final = ("code", "ops", "night")
# Actors that the version before did not have: they begin empty, and nothing of theirs was kept.
NEWER: Final = frozenset(
    {
        *("last_decisions", "spending", "failure_windows", "version_history", "kept_days"),
        *("blocked_attempts", "link_revocations", "program_memory", "unasked_tools", "writers"),
        *("on_call", "approved_shapes", "missing_folders", "host_files", "host_files_memory"),
    }
)
MOVING: Final = frozenset({"left_s", "undeliverable"})  # these change while a daemon runs

_hash = re.compile(rb',"hash":"[0-9a-f]{64}"}\n?\Z')


class State(msgspec.Struct, forbid_unknown_fields=True):
    """What an engine knew: the SHA-256 of the policy, and of each actor's plain bytes."""

    seq: int
    policy: str
    actors: dict[str, str]


class Shown(msgspec.Struct, forbid_unknown_fields=True):
    """What the daemon said at its end."""

    at: datetime
    pending: list[dict[str, Any]]
    grants: list[dict[str, Any]]
    stops: list[dict[str, Any]]
    pauses: list[dict[str, Any]]
    safe_mode: list[str]


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """What the version before made of its files: of the checkpoint, then of all that follows."""

    loaded: dict[str, State]
    replayed: dict[str, State]
    shown: Shown


EXPECTED: Final = msgspec.json.decode((HISTORY / "expected.json").read_bytes(), type=Expected)
# The rules of these actors have changed: a replay queues other messages, counts the costs of the
# day that were not reserved up to a share, and takes no names of blocked proposals. Sent messages
# stay.
CHANGED: Final = frozenset({"outbox", "budget", "keys"})

both = pytest.mark.parametrize("kept", [DAEMON, ENGINE], ids=lambda path: path.name)


def state(checkpoint: Checkpoint) -> State:
    return State(
        seq=checkpoint.seq,
        policy=_sha256(msgspec.msgpack.encode(checkpoint.policy)),
        actors={n: _sha256(saved) for n, saved in plain(checkpoint).items() if n not in CHANGED},
    )


def known(expected: State) -> State:
    """Return a state without the actor whose rules have changed."""
    actors = {name: sha256 for name, sha256 in expected.actors.items() if name not in CHANGED}
    return msgspec.structs.replace(expected, actors=actors)


def assert_sent(engine: Engine, lines: list[bytes]) -> None:
    """Every message of the journal is stored, in its last state."""
    states: dict[str, str] = {}
    for event in map(decode, lines):
        if isinstance(event, Due):
            states[event.delivery] = "open"
        elif isinstance(event, Told | NotTold):
            states[event.delivery] = event.state
    found = {each.id: each.state for each in engine.outbox.deliveries()}
    assert states
    assert states == found


def plain(checkpoint: Checkpoint) -> dict[str, bytes]:
    """Return the bytes of each actor of the version before.

    Requests are unpacked: another zlib packs them otherwise.
    """
    packed = msgspec.msgpack.decode(checkpoint.actors["approvals"])
    parts = [zlib.decompress(part) for part in packed["parts"]]
    approvals = msgspec.msgpack.encode({**packed, "parts": parts})
    rounds = msgspec.msgpack.decode(checkpoint.actors["iterations"])
    rounds.pop("early", None)
    iterations = msgspec.msgpack.encode(rounds)
    changed = {"approvals": approvals, "outbox": _old_outbox(checkpoint), "iterations": iterations}
    return {**_old(checkpoint.actors), **changed}


def _old_outbox(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of the outbox without what the version before did not have."""
    saved = msgspec.msgpack.decode(checkpoint.actors["outbox"])
    for name in ("pace", "rounds", "on_duty"):
        saved.pop(name, None)
    for night in saved["demands"]["nights"].values():
        for name in ("passed", "sent", "last_at"):  # limits are on messages now, not on requests
            night.pop(name, None)
    for queue in saved["lanes"].values():
        for batch in queue["rows"].values():
            batch.pop("latest", None)
            batch.pop("eager", None)
    for delivery in saved["kept"]["deliveries"].values():
        for name in ("limited_until", "opened"):
            delivery.pop(name, None)
    for reminder in saved["cases"].values():
        del reminder[7:]
        if reminder[1] is not None:
            del reminder[1][3:]
    return msgspec.msgpack.encode(saved)


def _old(actors: dict[str, bytes]) -> dict[str, bytes]:
    return {name: saved for name, saved in actors.items() if name not in NEWER}


def audited(directory: Path) -> list[bytes]:
    """Return the lines of audit files as they are in the journal, which has no hashes."""
    paths = files(directory)
    lines = (line for path in paths for line in path.read_bytes().splitlines(keepends=True)[1:])
    return [_hash.sub(b"}", line) for line in lines]


def journal(kept: Path) -> list[bytes]:
    """Return what was journalled, as far as it is kept."""
    if kept == DAEMON:
        return audited(DAEMON / "audit")
    return (ENGINE / "journal.jsonl").read_bytes().splitlines()


def loaded(kept: Path, tmp_path: Path) -> SavedCheckpoint:
    """Load the one checkpoint, from a copy: what does not load would be put aside."""
    copied = shutil.copytree(kept / "checkpoints", tmp_path / "checkpoints")
    (saved,) = Checkpoints(copied).load()
    assert isinstance(saved, SavedCheckpoint), saved
    return saved


@both
def test_checkpoint_file_is_read_and_written_again_byte_for_byte(
    kept: Path, tmp_path: Path
) -> None:
    saved = loaded(kept, tmp_path)
    (path,) = (kept / "checkpoints").iterdir()

    again = Checkpoints(tmp_path / "again").write(saved)

    assert (again.name, again.read_bytes()) == (path.name, path.read_bytes())


@both
def test_every_actor_saves_what_it_loaded(kept: Path, tmp_path: Path) -> None:
    checkpoint = loaded(kept, tmp_path).engine

    again = Engine.restore(checkpoint).save()()

    assert plain(again) == plain(checkpoint)
    assert state(again) == known(EXPECTED.loaded[kept.name])


@both
def test_journal_after_the_checkpoint_leads_to_the_same_state(kept: Path, tmp_path: Path) -> None:
    engine = Engine.restore(loaded(kept, tmp_path).engine)
    events = [decode(line) for line in journal(kept)]

    engine.replay(event for event in events if event.seq > engine.seq)

    assert state(engine.save()()) == known(EXPECTED.replayed[kept.name])


def test_whole_journal_leads_to_the_same_state() -> None:
    engine = Engine(Policy())

    engine.replay(decode(line) for line in journal(DAEMON))

    assert state(engine.save()()) == known(EXPECTED.replayed[DAEMON.name])
    assert_sent(engine, journal(DAEMON))


@pytest.mark.parametrize(
    "lines",
    [journal(DAEMON), journal(ENGINE), (HISTORY / "every_event.jsonl").read_bytes().splitlines()],
    ids=["daemon", "engine", "every event"],
)
def test_every_line_is_read_and_written_again_byte_for_byte(lines: list[bytes]) -> None:
    assert lines
    assert [encode(decode(line)) for line in lines] == lines


def test_audit_files_verify(tmp_path: Path) -> None:
    found = verify(shutil.copytree(DAEMON / "audit", tmp_path / "audit"))

    assert found.files == 3
    assert found.missing == 0
    assert (found.first_seq, found.last_seq) == (1, EXPECTED.replayed[DAEMON.name].seq)


@contextmanager
def started(directory: Path, *parts: str) -> Iterator[RunningDaemon]:
    """Start a daemon over a copy of these parts, a second after the one before it had its end.

    Keys are not kept: its agents get new ones.
    """
    for part in parts:
        shutil.copytree(DAEMON / part, directory / "data" / part)
    for agent in KEYED:
        added = safetyd("agent", "add", agent, SAFETYD_DATA_DIR=str(directory / "data"))
        assert added.returncode == 0, added.stderr
    wall = WallClock(directory)
    wall.step((EXPECTED.shown.at - datetime.now(UTC)).total_seconds() + 1.0)
    daemon = RunningDaemon(directory, (DAEMON / "safetyd.toml").read_text(), wall.variables)
    try:
        yield daemon
    finally:
        daemon.stop()


def shown(daemon: RunningDaemon) -> Shown:
    status = query(daemon, "status")
    return Shown(
        at=EXPECTED.shown.at,
        pending=[still(row) for row in waiting(daemon)],
        grants=[still(row, {"program", "folder"}) for row in query(daemon, "grants")["grants"]],
        stops=status["stop"]["stops"],
        pauses=[still(row) for row in status["pauses"]],
        safe_mode=status["safe_mode"]["agents"],
    )


def still(
    row: dict[str, Any], newer: AbstractSet[str] = frozenset({"path", "paths", "request"})
) -> dict[str, Any]:
    """Return what does not move, without what rows did not have then."""
    return {name: value for name, value in row.items() if name not in {*MOVING, *newer}}


def decide(daemon: RunningDaemon, agent: str) -> tuple[str, list[str]]:
    """Propose to read something, and return the decision and the rules that led to it."""
    key = daemon.data_dir / "keys" / "agents" / f"{agent}.nk"
    with Asker(daemon, agent, key if agent in KEYED else None) as asker:
        decision = asker.propose("new", type="read_file", text="new.txt")
    return decision["decision"], decision["triggered_rules"]


@pytest.mark.journey
@pytest.mark.parametrize(
    "parts",
    [("nats", "checkpoints", "audit"), ("nats",)],
    ids=["everything", "the journal alone"],
)
def test_daemon_goes_on_where_the_version_before_ended(
    tmp_path: Path, parts: tuple[str, ...]
) -> None:
    known = EXPECTED.loaded[DAEMON.name].seq if "checkpoints" in parts else 0
    end = EXPECTED.replayed[DAEMON.name].seq
    with started(tmp_path, *parts) as daemon:
        assert re.search(rf"replayed {end - known} events\b.* {end}\n", daemon.log())
        assert shown(daemon) == EXPECTED.shown
        assert decide(daemon, "night") == ("allow", [])
        assert decide(daemon, "crawl") == ("block", ["stop.operator"])
        assert decide(daemon, "shop") == ("block", ["pause.operator"])

    # Without audit files a start writes them anew, from the journal.
    assert audited(daemon.data_dir / "audit")[:end] == journal(DAEMON)
    assert_verifies(daemon)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
