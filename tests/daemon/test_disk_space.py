import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from safetyd.core.events.daemon_events import DiskLevel, DiskMoved
from safetyd.core.events.disk_words import MAKE_ROOM
from safetyd.core.events.event import Event, Moment
from safetyd.daemon.disk_space import (
    GIB,
    KNOWN_S,
    MEASURE_S,
    MIB,
    SAMPLE_S,
    DiskConfig,
    DiskSpace,
    judge,
    measured,
)
from safetyd.host import START_BYTES, START_FILES, Room, room
from tests.story import at

TIB: Final = 1024 * GIB
DEFAULT: Final = DiskConfig()
NEVER: Final = DiskConfig(
    warn_percent=100, critical_percent=100, warn_free_bytes=0, critical_free_bytes=0
)
ALWAYS: Final = DiskConfig(
    warn_percent=1, warn_free_bytes=1024 * TIB, critical_percent=100, critical_free_bytes=0
)


def disk(total: float, free: float, files: int = 10**6, total_files: int = 10**7) -> Room:
    return Room(Path("/"), int(free), files, int(total), total_files)


@pytest.mark.parametrize(
    ("total", "warned", "critical"),
    [
        (48 * MIB, 14.4 * MIB, 4.8 * MIB),  # twice the share: it is soon gone
        (4 * GIB, GIB, 256 * MIB),
        (20 * GIB, 3 * GIB, GIB),  # 85 and 95 %
        (4 * TIB, 20 * GIB, 5 * GIB),  # nobody needs more
        (4 * MIB, 1.2 * MIB, START_BYTES),  # less is not enough for a start
    ],
)
def test_how_much_must_be_free_grows_with_the_disk_within_bounds(
    total: float, warned: float, critical: float
) -> None:
    assert judge(DEFAULT, disk(total, warned + 1), "good") == "good"
    assert judge(DEFAULT, disk(total, warned - 1), "good") == "warn"
    assert judge(DEFAULT, disk(total, critical + 1), "good") == "warn"
    assert judge(DEFAULT, disk(total, critical - 1), "good") == "critical"


def test_a_disk_is_well_again_only_with_a_tenth_more_room() -> None:
    assert judge(DEFAULT, disk(20 * GIB, 3.1 * GIB), "warn") == "warn"
    assert judge(DEFAULT, disk(20 * GIB, 3.4 * GIB), "warn") == "good"
    assert judge(DEFAULT, disk(20 * GIB, 1.05 * GIB), "critical") == "critical"
    assert judge(DEFAULT, disk(20 * GIB, 1.2 * GIB), "critical") == "warn"
    assert judge(DEFAULT, disk(20 * GIB, 19 * GIB), "critical") == "good"
    assert judge(DEFAULT, disk(20 * GIB, 3.1 * GIB), "critical") == "warn"


def test_room_for_files_counts_where_a_disk_has_a_limit_of_them() -> None:
    assert judge(DEFAULT, disk(20 * GIB, 19 * GIB, files=9_999), "good") == "warn"
    assert judge(DEFAULT, disk(20 * GIB, 19 * GIB, files=999), "good") == "critical"
    assert judge(DEFAULT, disk(20 * GIB, 19 * GIB, 200, total_files=500), "good") == "good"
    assert judge(DEFAULT, disk(20 * GIB, 19 * GIB, 0, total_files=0), "good") == "good"


def test_who_wants_no_warning_gets_one_only_when_a_start_would_not_succeed() -> None:
    assert judge(NEVER, disk(TIB, START_BYTES, START_FILES), "good") == "good"
    assert judge(NEVER, disk(TIB, START_BYTES - 1), "good") == "critical"
    assert judge(NEVER, disk(TIB, GIB, START_FILES - 1), "good") == "critical"


def test_what_fills_a_data_directory_is_told_apart(tmp_path: Path) -> None:
    for name in ("audit/a", "nats/jetstream/deep/b", "transcripts/c", "lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(os.urandom(8192))
    (tmp_path / "elsewhere").symlink_to("/usr")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")

    found = measured(tmp_path)

    blocks = (tmp_path / "lock").stat().st_blocks * 512
    assert blocks >= 8192
    assert found["audit"] == found["journal"] == found["transcripts"] == blocks
    assert found["checkpoints"] == 0
    assert blocks <= found["other"] < 2 * blocks
    assert measured(tmp_path / "nowhere") == dict.fromkeys(found, 0)


def test_what_snapshots_share_is_counted_once(tmp_path: Path) -> None:
    for day in ("2026-03-01", "2026-03-02"):
        (tmp_path / "snapshots" / day).mkdir(parents=True)
    first = tmp_path / "snapshots/2026-03-01/notes"
    first.write_bytes(os.urandom(8192))
    (tmp_path / "snapshots/2026-03-02/notes").hardlink_to(first)

    assert measured(tmp_path)["snapshots"] == first.stat().st_blocks * 512


@dataclass
class Surveyor:
    """A disk space over a real directory, with a clock and an audit of its own."""

    directory: Path
    config: DiskConfig = NEVER
    t: float = 0.0
    written: int = 0
    put: list[Event] = field(default_factory=list)

    def made(self, known: DiskLevel = "good") -> DiskSpace:
        return DiskSpace(
            self.directory,
            lambda: self.config,
            lambda: self.written,
            self.take,
            known=known,
            now=lambda: self.t,
        )

    def take(self, make: Callable[[Moment], Event]) -> None:
        self.put.append(make(Moment(at(self.t), self.t)))

    @property
    def levels(self) -> list[str]:
        return [event.use.level for event in self.put if isinstance(event, DiskMoved)]


@pytest.fixture
def surveyor(tmp_path: Path) -> Surveyor:
    (tmp_path / "audit").mkdir()
    return Surveyor(tmp_path)


async def test_a_crossing_is_told_once_with_what_fills_the_disk(surveyor: Surveyor) -> None:
    space = surveyor.made()
    await space.look()
    (surveyor.directory / "audit" / "a").write_bytes(os.urandom(4096))
    surveyor.config = ALWAYS

    await space.look()
    await space.look()

    (event,) = surveyor.put
    assert isinstance(event, DiskMoved)
    assert event.use.parts == space.use.parts  # others use the disk meanwhile
    assert (event.use.level, event.use.disk) == ("warn", str(room(surveyor.directory).disk))
    assert event.use.parts["audit"] >= 4096

    surveyor.config = NEVER
    await space.look()

    assert surveyor.levels == ["warn", "good"]


@pytest.mark.parametrize(("config", "told"), [(ALWAYS, []), (NEVER, ["good"])])
async def test_what_people_know_from_before_a_restart_is_not_told_again(
    surveyor: Surveyor, config: DiskConfig, told: list[str]
) -> None:
    surveyor.config = config
    space = surveyor.made(known="warn")

    await space.look()

    assert surveyor.levels == told


async def test_what_fills_the_disk_is_measured_now_and_then(surveyor: Surveyor) -> None:
    space = surveyor.made()
    assert space.use.parts == {}
    empty = (await space.look()).parts
    (surveyor.directory / "audit" / "a").write_bytes(os.urandom(4096))

    surveyor.t = MEASURE_S - 1
    assert (await space.look()).parts == empty

    surveyor.t = MEASURE_S
    assert (await space.look()).parts["audit"] >= 4096


async def test_how_fast_the_audit_grows_is_said_of_the_last_hour_once_it_is_known(
    surveyor: Surveyor,
) -> None:
    space = surveyor.made()
    while surveyor.t < KNOWN_S:
        assert (await space.look()).audit_bytes_per_hour is None
        surveyor.t += SAMPLE_S
        surveyor.written += 100

    assert (await space.look()).audit_bytes_per_hour == 6000.0

    for _ in range(70):
        surveyor.t += SAMPLE_S
        await space.look()

    assert space.use.audit_bytes_per_hour == 0.0


async def test_a_disk_that_cannot_be_looked_at_is_as_it_was(surveyor: Surveyor) -> None:
    space = surveyor.made()
    before = await space.look()
    (surveyor.directory / "audit").rmdir()
    surveyor.directory.rmdir()

    assert await space.look() == before


async def test_want_of_room_is_a_problem_and_names_the_disk(
    surveyor: Surveyor, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = surveyor.made()
    await space.look()
    assert space.problem == ""

    for full in (disk(GIB, START_BYTES - 1), disk(GIB, GIB, files=START_FILES - 1)):
        monkeypatch.setattr("safetyd.daemon.disk_space.room", lambda _directory, full=full: full)
        await space.look()

        assert space.problem.startswith("the disk at / is ")
        assert "safetyd has " in space.problem
        assert MAKE_ROOM in space.problem
