"""Files in a data directory that another Unix user owns or can write."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from safetyd.bus.keyring import new_pair
from tests.bus.peer import Peer, Refused
from tests.conftest import RunningDaemon, safetyd
from tests.journeys.people import control

pytestmark = pytest.mark.journey

NOBODY: Final = 65534
ROOT_ONLY: Final = pytest.mark.skipif(
    os.geteuid() != 0,
    reason="NOT PROVEN HERE: only root can let another Unix user plant a key; run it as root",
)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A world-readable directory with a data directory in it."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        path.chmod(0o755)
        (path / "data").mkdir()
        yield path


def plant(path: Path, content: str) -> None:
    """Create a file as another user."""
    script = 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"'
    subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(path), content],
        check=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
    )


def refusal(data: Path) -> list[str]:
    """Return the output of a start that must fail."""
    said = safetyd("run", "--data-dir", str(data))
    assert (said.returncode, said.stdout) == (1, "")
    assert "Traceback" not in said.stderr
    return said.stderr.splitlines()


def mend(lines: list[str]) -> None:
    """Run the commands that the output suggests."""
    for line in lines:
        command = re.search("`(.+?)`", line)
        assert command is not None, line
        subprocess.run(command[1], shell=True, check=True)


@contextmanager
def running(directory: Path) -> Iterator[RunningDaemon]:
    daemon = RunningDaemon(directory)
    try:
        yield daemon
    finally:
        daemon.stop()


@ROOT_ONLY
def test_a_key_planted_by_another_user_is_named_and_rejected(
    shared: Path,
) -> None:
    data, seed = shared / "data", shared / "evil.nk"
    secret, public = new_pair()
    seed.write_bytes(secret)
    data.chmod(0o777)
    planted = data / "keys" / "operators" / "evil.pub"
    plant(planted, public.decode())

    said = refusal(data)

    assert any(f"other users can write to {data}" in line for line in said)
    assert any(f"{planted} belongs to nobody" in line and "`rm " in line for line in said)
    doctor = safetyd("doctor", "--data-dir", str(data))
    assert doctor.returncode == 1
    assert f"{planted} belongs to nobody" in doctor.stdout
    assert not (data / "keys" / "operator.nk").exists(), "no secret was made there"
    mend(said)
    with running(shared) as daemon:
        with pytest.raises(Refused):
            Peer(daemon.endpoint.bus, seed, "_INBOX.op.evil")
        assert control(daemon, "stop")["ok"]


@ROOT_ONLY
def test_a_data_directory_of_another_user_is_refused_and_the_printed_fix_works(
    shared: Path,
) -> None:
    data = shared / "data"
    os.chown(data, NOBODY, NOBODY)
    shared.chmod(0o777)

    said = refusal(data)

    assert any(f"{shared} allows other users to replace {data}" in line for line in said)
    assert any(f"{data} belongs to nobody" in line for line in said)
    mend(said)
    with running(shared) as daemon:
        assert control(daemon, "stop")["ok"]


def test_keys_writable_by_others_are_refused_at_start_and_reload(
    shared: Path,
) -> None:
    data = shared / "data"
    with running(shared) as daemon:
        (data / "keys").chmod(0o777)
        (data / "keys" / "operator.pub").chmod(0o666)
        reloaded = daemon.safetyd("reload")
        assert reloaded.returncode == 1
        assert f"other users can write to {data / 'keys'}" in reloaded.stderr

        daemon.stop()
        said = refusal(data)
        assert len(said) == 2
        mend(said)
        daemon.start()
        operators = daemon.safetyd("doctor").stdout
        assert "operator local" in operators
