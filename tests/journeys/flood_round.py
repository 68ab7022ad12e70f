"""Measure how long an agent waits before, during and after a flood."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from tests.conftest import environment

WARM_S: Final = 0.5
CALM_S: Final = 1.0  # before the flood, and again after it
FLOOD_S: Final = 4.0
TIMES: Final = 4  # the most by which the median wait may grow
ROUNDS: Final = 5
MB: Final = 1_000_000


class Round(NamedTuple):
    """Waits of an agent, and how many bytes something else grew during the flood."""

    calm: Sequence[float]
    during: Sequence[float]
    grown: int = 0

    @property
    def times(self) -> float:
        return median(self.during) / median(self.calm)

    def __str__(self) -> str:
        calm, during, worst = median(self.calm), median(self.during), max(self.during)
        waits = f"{calm * 1000:.2f} ms, in the flood {during * 1000:.2f} ms"
        return f"{waits}, at worst {worst * 1000:.1f} ms; {self.grown / MB:.1f} MB more"


@contextmanager
def flood(module: str, *arguments: object, for_s: float = FLOOD_S) -> Iterator[list[str]]:
    """Run `tests.journeys.MODULE` meanwhile; append what it prints to the yielded list."""
    command = [sys.executable, "-m", f"tests.journeys.{module}", *map(str, arguments), str(for_s)]
    said = list[str]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as started:
        yield said
        said += started.communicate()[0].split()
        assert started.returncode == 0


def measure(
    propose: Callable[[float], list[float]],
    during: Callable[[], Sequence[float]],
    size: Callable[[], int] = lambda: 0,
) -> Round:
    """Measure one flood: `during` returns the waits, `size` what may grow."""
    propose(WARM_S)
    calm, before = propose(CALM_S), size()
    waited = during()
    grown = size() - before
    calm += propose(CALM_S)
    return Round(calm, waited, grown)


def assert_hardly_slower(measured: Callable[[int], Round]) -> None:
    """Repeat the measurement if it fails, because another program's load may spoil a round."""
    for number in range(ROUNDS):
        found = measured(number)
        print(found)
        if found.times <= TIMES:
            break
    assert found.times <= TIMES, str(found)


def peak_bytes(pid: int) -> int:
    """Return the peak memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
