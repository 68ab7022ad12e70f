"""A channel that another package brings: one folder, and nothing else in safetyd names it."""

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import RunningDaemon, StartDaemon, safetyd
from tests.journeys.asking_agent import Asker
from tests.journeys.delivery_targets import outbox, until

PIGEON: Final = '''
"""Carrier pigeons: each message is a file in a loft."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from safetyd.notify.channel import (
    Channel, ChannelContext, Limits, Misconfigured, PersonalTable, Preview, Problems, Receipt,
    needed,
)
from safetyd.notify.message import Notice


class Pigeon(PersonalTable, frozen=True, kw_only=True):
    loft: str = ""
    ring_file: str = ""

    secret_files: ClassVar[tuple[str, ...]] = ("ring_file",)

    @classmethod
    def wrong_address(cls, address: str) -> str:
        return "" if address.startswith("roof-") else f"{address!r} is not a roof"

    def problems(self) -> Problems:
        yield from needed(loft=self.loft)

    async def open(self, name: str, context: ChannelContext) -> Channel:
        return Flock(name, Path(self.loft), context.secret(self.ring_file))

    def preview(self, notice: Notice) -> Preview:
        return Preview(text="coo: " + notice.subject, size="1 pigeon")

    async def check(self, read: Callable[[str], str]) -> str:
        if read(self.ring_file) != "ring-1":
            raise Misconfigured("the ring is not ours")
        return "the loft is open"


class Flock(Channel):
    limits = Limits(deadline_s=5.0)

    def __init__(self, name: str, loft: Path, ring: str) -> None:
        self.name, self._loft, self._ring = name, loft, ring

    async def send(self, notice: Notice) -> Receipt:
        text = notice.templates.render("chat.txt", message=notice)
        (self._loft / notice.delivery).write_text(f"{self._ring} {notice.address} {text}")
        return Receipt("delivered", notice.delivery)
'''
TABLE: Final = """
[notifications]
batch_interval_seconds = 0
quiet_start = "00:00"
quiet_end = "00:00"
[notifications.desktop]
enabled = false
[notifications.pigeon]
enabled = true
to = "roof-7"
loft = "{loft}"
ring_file = "{ring}"
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Install a package as pip would: a module, and the entry point that it registers."""
    directory = tmp_path / "packages"
    metadata = directory / "safetyd_pigeon-1.dist-info"
    metadata.mkdir(parents=True)
    (directory / "safetyd_pigeon.py").write_text(PIGEON)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: safetyd-pigeon\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[safetyd.channels]\npigeon = safetyd_pigeon:Pigeon\n"
    )
    return directory


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "loft").mkdir()
    (tmp_path / "ring").write_text("ring-1\n")
    return TABLE.format(loft=tmp_path / "loft", ring=tmp_path / "ring")


def test_a_channel_of_another_package_is_a_channel_like_the_others(
    start_daemon: StartDaemon, packages: Path, config: str, tmp_path: Path
) -> None:
    daemon = start_daemon(config, {"PYTHONPATH": str(packages)})

    def says(*arguments: str) -> str:
        said = daemon.safetyd(*arguments, PYTHONPATH=str(packages))
        assert said.returncode == 0, said
        return said.stdout

    with Asker(daemon) as asker:
        asker.propose("p1")
    until(lambda: any(row["state"] == "delivered" for row in outbox(daemon)), "a pigeon to arrive")

    (letter,) = (tmp_path / "loft").iterdir()
    assert letter.read_text().startswith("ring-1 roof-7 ")
    assert "git push origin main" in letter.read_text()
    assert json.loads(says("notify", "channels", "--json"))["channels"][0]["name"] == "pigeon"
    assert "push by nightly" in says("notify", "preview")
    assert "pigeon" in says("notify", "test", "pigeon")
    assert len(list((tmp_path / "loft").iterdir())) == 2
    assert "the loft is open" in _doctor(daemon, packages)
    shown = says("config", "show", str(daemon.config_path))
    assert f'loft = "{tmp_path / "loft"}"' in shown
    assert '"loft"' in says("config", "schema")


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ("loft =", "lofft =", "notifications.pigeon.lofft is not a setting; did you mean loft?"),
        ("roof-7", "cellar", "notifications.pigeon.to 'cellar' is not a roof"),
        ("/ring", "/none", "notifications.pigeon.ring_file"),
        ("notifications.pigeon", "notifications.pigon", "did you mean pigeon?"),
    ],
)
def test_its_settings_are_checked_like_others(
    packages: Path, config: str, tmp_path: Path, before: str, after: str, wrong: str
) -> None:
    file = tmp_path / "safetyd.toml"
    file.write_text(config.replace(before, after))

    said = _check(file, packages)

    assert wrong in said.stderr


def _check(file: Path, packages: Path) -> subprocess.CompletedProcess[str]:
    return safetyd("config", "check", str(file), PYTHONPATH=str(packages))


def _doctor(daemon: RunningDaemon, packages: Path) -> str:
    return daemon.safetyd("doctor", PYTHONPATH=str(packages)).stdout
