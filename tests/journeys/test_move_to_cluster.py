"""The state of a daemon with an embedded bus moves to several daemons by a backup."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RunningDaemon, StartDaemon, safetyd
from tests.journeys.agents import until
from tests.journeys.people import control, query
from tests.journeys.test_second_daemon import Shared, stands_by

pytestmark = pytest.mark.journey


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    shared = Shared(tmp_path)
    yield shared
    shared.bus.stop()


def test_a_backup_of_one_machine_continues_on_several_daemons(
    start_daemon: StartDaemon, shared: Shared, tmp_path: Path
) -> None:
    alone = start_daemon()
    assert control(alone, "stop")["journalled"]
    backup = tmp_path / "moved.tar.zst"
    assert alone.safetyd("backup", str(backup)).returncode == 0
    alone.stop()

    (home := tmp_path / "first").mkdir()
    restored = safetyd("restore", str(backup), str(home / "data"))
    assert restored.returncode == 0, restored.stderr
    first = RunningDaemon(home, shared.config)
    try:
        # It joins before the first daemon's next regular checkpoint.
        second = start_daemon(shared.config)
        until(lambda: stands_by(second))
        first.kill()
        until(lambda: not stands_by(second))

        stops = query(second, "top_bar", key=shared.operator)["standstill"]["stops"]
        assert [stop["source"] for stop in stops] == ["operator"]
    finally:
        first.stop()
