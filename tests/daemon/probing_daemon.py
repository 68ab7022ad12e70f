"""A daemon with an extra that nothing in safetyd names; run it with `python -m` and two paths."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from safetyd.console.terminal_text import CTRL_C
from safetyd.core.events.event import Event
from safetyd.core.reporting.records import Records
from safetyd.daemon.config import load
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.daemon.extras import EXTRAS
from safetyd.daemon.extras.snapshots_backup import SnapshotsAndBackup
from safetyd.daemon.lifecycle import Daemon
from safetyd.operators.contract.backup_contract import CheckpointCommand, CheckpointDone
from safetyd.operators.contract.status_contract import UnavailableExtra
from safetyd.operators.handlers import Handlers, at_once


class Probe(Extra):
    """Answers the command of the extra whose place it takes, and writes down what it is asked."""

    def __init__(self, host: ExtraHost, _known: Records) -> None:
        self._file = host.of.data_dir / "probe"
        self._seen = 0

    @property
    def handlers(self) -> Handlers:
        return dict([at_once(CheckpointCommand, lambda _by, _command: self._answer())])

    def observe(self, events: Sequence[Event]) -> None:
        self._seen += len(events)

    async def prepare(self) -> None:
        self._write("prepared")

    async def run(self) -> None:
        self._write("running")
        try:
            await anyio.sleep_forever()
        finally:
            self._write("ended")

    def unavailable(self) -> Iterator[UnavailableExtra]:
        yield UnavailableExtra(name="probe", why="it has no needle", fix="buy one")

    def _answer(self) -> CheckpointDone:
        return CheckpointDone(
            ok=True, seq=self._seen, file="probe", data_dir="", config="", stop_files=()
        )

    def _write(self, word: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{word}\n")


if __name__ == "__main__":
    config, data_dir = map(Path, sys.argv[1:])
    extras = [kind for kind in EXTRAS if kind is not SnapshotsAndBackup]
    anyio.run(
        Daemon(load(config), config, data_dir, (*extras, Probe)).run,
        lambda _endpoint: print(CTRL_C, flush=True),
    )
