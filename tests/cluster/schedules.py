"""Random schedules of faults. The same seed gives the same schedule."""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from safetyd.bus.subjects import STREAM
from tests.cluster.fleet import Fleet, FleetDaemon
from tests.nats_cluster import NAMES

FAULTS: Final = 3  # in one schedule, which may overlap
PAUSES_S: Final = (0.1, 2.5)


class Step(NamedTuple):
    """A fault of one daemon or node, and the time until the next step."""

    fault: str
    which: int
    pause_s: float

    def __str__(self) -> str:
        return f"{self.fault} {self.which}, {self.pause_s:.1f} s"


def schedule(seed: int) -> list[Step]:
    chance = random.Random(seed)
    return [
        Step(chance.choice(list(FAULT_OF)), chance.randrange(6), chance.uniform(*PAUSES_S))
        for _ in range(FAULTS)
    ]


def carry_out(fleet: Fleet, steps: list[Step]) -> None:
    """Let the faults happen. They last until the fleet is repaired."""
    for step in steps:
        FAULT_OF[step.fault](fleet, step.which)
        time.sleep(step.pause_s)


def _daemon(fleet: Fleet, which: int) -> FleetDaemon:
    """Return the writer for the even numbers, and a standby for the odd ones."""
    return fleet.standbys[which % len(fleet.standbys)] if which % 2 else fleet.writer


def _kill_daemon(fleet: Fleet, which: int) -> None:
    daemon = _daemon(fleet, which)
    if daemon.running:
        daemon.kill()


def _end_daemon(fleet: Fleet, which: int) -> None:
    daemon = _daemon(fleet, which)
    if daemon.running and not daemon.frozen:
        daemon.stop()


def _freeze_daemon(fleet: Fleet, which: int) -> None:
    daemon = _daemon(fleet, which)
    if daemon.running and not daemon.frozen:
        daemon.freeze()


def _cut_daemon(fleet: Fleet, which: int) -> None:
    _daemon(fleet, which).links.cut()


def _node_fault(fault: str, fleet: Fleet, which: int) -> None:
    """Let a node fail: for numbers below three the one that leads the journal, if there is one."""
    leaders = [n for n in NAMES if _leads(fleet, n)]
    name = leaders[0] if leaders and which < len(NAMES) else NAMES[which % len(NAMES)]
    node = fleet.cluster.nodes[name]
    if node.running and not node.frozen:
        getattr(fleet.cluster, fault)(name)


def _leads(fleet: Fleet, name: str) -> bool:
    node = fleet.cluster.nodes[name]
    asked = node.running and not node.frozen
    return asked and fleet.cluster.seen_by(name, STREAM).get("leader") == name


def _stop(fleet: Fleet, _which: int) -> None:
    """Stop all agents until the repair, if a daemon can hear it now."""
    if any(daemon.running and not daemon.frozen for daemon in fleet.daemons.values()):
        fleet.stop()


FAULT_OF: Final[dict[str, Callable[[Fleet, int], None]]] = {
    "kill daemon": _kill_daemon,
    "end daemon": _end_daemon,
    "freeze daemon": _freeze_daemon,
    "cut off daemon": _cut_daemon,
    "kill node": partial(_node_fault, "kill"),
    "freeze node": partial(_node_fault, "freeze"),
    "cut off node": partial(_node_fault, "cut"),
    "stop": _stop,
}
