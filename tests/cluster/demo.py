"""`make cluster-demo`: three nats-servers, two daemons and an agent; the deciding daemon is killed.

It ends by itself in less than a minute, and leaves nothing behind.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from safetyd.core.events.decision_events import Decided
from tests.cluster.fleet import Fleet, running_fleet
from tests.cluster.invariants import check
from tests.nats_cluster import NAMES

WORKS_S = 3.0


def main() -> int:
    begun = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - begun:5.1f} s  {what}", flush=True)

    tell(f"starting the nats-servers {', '.join(NAMES)} and the daemons d1 and d2")
    with tempfile.TemporaryDirectory() as place, running_fleet(Path(place)) as fleet:
        tell(f"{fleet.writer.name} decides, and {fleet.standbys[0].name} follows the journal")
        time.sleep(WORKS_S)
        tell(f"an agent works: {len(fleet.reader.history.allows)} actions were allowed")
        _kill(fleet, tell)
        tell("the killed daemon is started again")
        fleet.repair()
        tell(f"it follows the journal as a standby; {fleet.writer.name} still decides")
        _hand_over(fleet, tell)
        fleet.repair()
        check(fleet)
        tell(f"checked: {_counted(fleet)}")
    tell("done; everything is removed")
    return 0


def _kill(fleet: Fleet, tell: object) -> None:
    assert callable(tell)
    writer, killed = fleet.writer, time.monotonic()
    writer.kill()
    tell(f"{writer.name} was killed (kill -9)")
    fleet.until_allowed()
    fleet.read_journal()
    waited = fleet.silence_after(killed)
    tell(f"{fleet.writer.name} took over; the agent waited {waited:.1f} s")


def _hand_over(fleet: Fleet, tell: object) -> None:
    assert callable(tell)
    writer, stopped = fleet.writer, time.monotonic()
    writer.stop()
    fleet.until_allowed()
    fleet.read_journal()
    waited = fleet.silence_after(stopped)
    tell(f"{writer.name} was stopped, as for an upgrade; the agent waited {waited:.1f} s")


def _counted(fleet: Fleet) -> str:
    """Return how many answers there were, and that each is in the journal once."""
    first = Counter(e.id for e in fleet.record.events if isinstance(e, Decided) and e.first)
    heard = {h.id for agent in fleet.agents for h in agent.history.heard if h.decision.seq}
    lost = sum(first[id_] == 0 for id_ in heard)
    doubled = sum(first[id_] > 1 for id_ in heard)
    return f"{len(heard)} decisions, {lost} lost, {doubled} made twice"


if __name__ == "__main__":
    sys.exit(main())
