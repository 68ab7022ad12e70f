"""Agents and safetyd under different Unix users, as docs/operations.md describes."""

import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import RunningDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker
from tests.journeys.people import query

pytestmark = [
    pytest.mark.journey,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="NOT PROVEN HERE: only root can run as two other Unix users"
    ),
]

SAFETYD: Final = 64_001
AGENT: Final = 64_002
CONFIG: Final = """
profile = "coding"
[projects.shop]
root = "{root}"
agents = ["coder"]
history = "shadow"
"""
# The binary format of an access control list; setfacl may not be installed.
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 1, 2, 4, 0x10, 0x20
_NOBODY_ELSE: Final = 2**32 - 1


def as_agent(script: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as the agent's user, with the usual umask."""
    return subprocess.run(
        ["/bin/sh", "-ec", f"umask 022; {script}"],
        cwd=root,
        env={"PATH": os.environ["PATH"], "HOME": "/", "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=False,
        user=AGENT,
        group=AGENT,
        extra_groups=[],
    )


def share(root: Path) -> None:
    """Do what `setfacl -R -m u:safetyd:rwX,d:u:safetyd:rwX,d:u:agent:rwX` does."""
    for path in (root, *root.rglob("*")):
        owner = path.stat().st_mode >> 6 & 7
        run = 7 if path.is_dir() or owner & 1 else 6
        named = [(_USER, run, SAFETYD)]
        _set_list(path, "access", owner, named)
        if path.is_dir():
            _set_list(path, "default", 7, [*named, (_USER, 7, AGENT)])


def _set_list(path: Path, kind: str, owner: int, named: list[tuple[int, int, int]]) -> None:
    mask = max(rights for _, rights, _ in named)
    usual = (_USER_OBJ, owner, _NOBODY_ELSE), (_GROUP_OBJ, 5, _NOBODY_ELSE)
    rest = (_MASK, mask, _NOBODY_ELSE), (_OTHER, 5, _NOBODY_ELSE)
    entries = (usual[0], *named, usual[1], *rest)
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, f"system.posix_acl_{kind}", packed)


@pytest.fixture
def place() -> Iterator[Path]:
    """A project owned by the agent's user, and a data directory owned by safetyd's."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o755)
        for name, user in (("data", SAFETYD), ("shop", AGENT)):
            (place / name).mkdir()
            os.chown(place / name, user, user)
        (place / "data").chmod(0o700)
        script = "git init -q; echo begun > cart.py; mkdir lib; echo old > lib/old.py"
        made = as_agent(script, place / "shop")
        assert made.returncode == 0, made.stderr
        yield place


def start(place: Path) -> RunningDaemon:
    config = CONFIG.format(root=place / "shop")
    return RunningDaemon(place, config, {"HOME": str(place / "data")}, user=SAFETYD)


def test_an_action_in_another_users_project_can_be_rolled_back(
    place: Path,
) -> None:
    root = place / "shop"
    share(root)
    daemon = start(place)
    try:
        (before,) = query(daemon, "commits", project="shop")["commits"]
        assert "as it was before" in before["subject"]
        with Asker(daemon, "coder") as agent:
            action = {"type": "edit_file", "paths": [str(root / "cart.py")], "text": "x"}
            assert agent.ask("propose", {**action, "id": "p1"})["decision"] == "allow"
            change = "echo broken > cart.py; rm -r lib; mkdir src; echo new > src/new.py"
            assert as_agent(change, root).returncode == 0
            agent.ask("telemetry", {"type": "outcome", "id": "p1", "ok": True})
        until(lambda: len(query(daemon, "commits", project="shop")["commits"]) > 1)

        done = daemon.safetyd("rollback", before["commit"], "--soft", "--reason", "broken")

        assert done.returncode == 0, done.stderr
        assert (root / "cart.py").read_text() == "begun\n"
        assert (root / "lib" / "old.py").read_text() == "old\n"
        assert not (root / "src").exists()
        goes_on = "echo 2 > cart.py; echo 2 > lib/old.py; echo 2 > lib/new.py; rm lib/old.py"
        worked = as_agent(goes_on, root)
        assert worked.returncode == 0, worked.stderr
        assert query(daemon, "commits")["problems"] == []
    finally:
        daemon.stop()


def test_an_unwritable_project_is_named_with_the_fix(place: Path) -> None:
    root = place / "shop"
    daemon = start(place)
    try:
        said = daemon.safetyd("doctor").stdout
        assert f"{SAFETYD} cannot write to {root}, so rollbacks are not possible." in said
        rights = f"u:{SAFETYD}:rwX,d:u:{SAFETYD}:rwX,d:u:{AGENT}:rwX"
        assert f"setfacl -R -m {rights} {root}" in said
        share(root)
        assert query(daemon, "commits")["problems"] == []

        # As the service sees it with ProtectSystem=strict.
        subprocess.run(["mount", "--bind", "-o", "ro", root, root], check=True)
        try:
            (problem,) = query(daemon, "commits")["problems"]
            assert f"add: [Service] ReadWritePaths={root}" in problem
        finally:
            subprocess.run(["umount", root], check=True)
    finally:
        daemon.stop()
