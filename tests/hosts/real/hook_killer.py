"""Kills, stops and continues the processes of hooks and hosts at random moments.

It looks only at descendants of the test itself, and leaves all other processes alone.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

MARKS: Final = ("safetyd/hook.py", "s=$?")  # in the command line of the shell around a hook
REPORTS: Final = "--event"
LOOK_S: Final = 0.002
LATEST_S: Final = 0.12  # a hook takes about half of that
STOPPED_S: Final = 0.3
BEAT_S: Final = (0.2, 2.0)  # between two stops of a host without hook processes

Signals = tuple[signal.Signals, ...]


class Fate(NamedTuple):
    """Which processes get which signals."""

    shell: Signals = ()
    python: Signals = ()
    host: Signals = ()


_STOP: Final = (signal.SIGSTOP, signal.SIGCONT)
FATES: Final[Mapping[str, Fate]] = {
    "shell killed": Fate(shell=(signal.SIGKILL,)),
    "shell terminated": Fate(shell=(signal.SIGTERM,)),
    "shell stopped": Fate(shell=_STOP),
    "Python killed": Fate(python=(signal.SIGKILL,)),
    "Python terminated": Fate(python=(signal.SIGTERM,)),
    "Python stopped": Fate(python=_STOP),
    "both killed": Fate(shell=(signal.SIGKILL,), python=(signal.SIGKILL,)),
    "host stopped": Fate(host=_STOP),
    "host killed": Fate(host=(signal.SIGKILL,)),
}
# A session ends with its host, so this is rare.
WEIGHTS: Final = [1 if name == "host killed" else 10 for name in FATES]


class HookKiller:
    """`share` is how many of the hooks meet a fate. `done` counts the fates.

    `program` is the command of a host whose hook is no process; it is stopped and continued.
    """

    def __init__(self, seed: int, share: float, program: str = "") -> None:
        self.done: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._share = share
        self._program = program
        self._seen: set[int] = set()
        self._over = threading.Event()
        self._acting: list[threading.Thread] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._beat if self._program else self._watch)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            for each in self._acting:
                each.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            for pid in descendants(os.getpid()):
                if pid not in self._seen and _asks(pid):
                    self._seen.add(pid)
                    self._meet(pid)

    def _beat(self) -> None:
        while not self._over.wait(self._random.uniform(*BEAT_S)):
            for pid in descendants(os.getpid()):
                if self._program in command_of(pid):
                    self.done["host stopped"] += 1
                    _send(pid, _STOP)

    def _meet(self, shell: int) -> None:
        """Choose the fate of a hook, and begin it at a random moment."""
        if self._random.random() >= self._share:
            return
        (name,) = self._random.choices(list(FATES), WEIGHTS)
        self.done[name] += 1
        late_s = self._random.uniform(0, LATEST_S) * self._random.choice((0, 1))
        thread = threading.Thread(target=_act, args=(FATES[name], shell, late_s))
        thread.start()
        self._acting.append(thread)


def _act(fate: Fate, shell: int, late_s: float) -> None:
    time.sleep(late_s)  # the moment is random
    if not _asks(shell):  # it has ended
        return
    for pid in descendants(shell):
        _send(pid, fate.python)
    host = _parent(shell)
    _send(shell, fate.shell)
    if host != os.getpid():
        _send(host, fate.host)


def _send(pid: int, signals: Signals) -> None:
    for number, each in enumerate(signals):
        if number:
            time.sleep(STOPPED_S)
        with suppress(ProcessLookupError):
            os.kill(pid, each)


def descendants(pid: int) -> Iterator[int]:
    """Yield all processes below a process."""
    with suppress(OSError, ValueError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from descendants(child)


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


def _asks(pid: int) -> bool:
    command = command_of(pid)
    return all(mark in command for mark in MARKS) and REPORTS not in command


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return os.getpid()
