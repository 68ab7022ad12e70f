"""Background tasks: watching connections, publishing state, logging problems."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import anyio.abc

from safetyd import host
from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.bus.connection_limits import ConnectionLimits
from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import Subjects
from safetyd.bus.supervisor import Supervisor
from safetyd.clock import uptime
from safetyd.daemon.resources import Resources
from safetyd.daemon.settings import Settings

LOOK_S: Final = 1.0
STATE_S: Final = 10.0
TROUBLE_S: Final = 60.0
STUCK_S: Final = 3.0

log = logging.getLogger("safetyd")


def watch_connections(of: Resources, tasks: anyio.abc.TaskGroup) -> None:
    """Check that the connections to the bus work, and remove expired keys."""
    for connection in of.connections.all:
        tasks.start_soon(connection.send_canaries)
    tasks.start_soon(of.reload.end_old_keys)


def watch(of: Resources, tasks: anyio.abc.TaskGroup, server_owes_s: Callable[[], float]) -> None:
    """Shut out peers that flood the bus, and restart an embedded server that fails.

    On an external bus, hold the journal instead. `server_owes_s` returns how long a write has been
    pending.
    """
    settings, reload = of.settings, of.reload
    # After a flood, drop the connection: its unread queries would delay other operators.
    hang_up = of.connections.questions.client.hang_up
    flooding_questions = settings.question_limits.flood_gate
    tasks.start_soon(flooding_questions.watch, reload.shut_out, hang_up)
    tasks.start_soon(settings.flood_gate.watch, reload.shut_out)
    if of.connections.open is not None:
        tasks.start_soon(settings.keyless_gate.watch, partial(reload.take_on_keys, "door"))
    if of.server is None:
        tasks.start_soon(of.journal.beat)
        return
    supervisor = Supervisor(of.server, of.connections.main, of.data_dir, server_owes_s)
    tasks.start_soon(supervisor.restart)
    tasks.start_soon(supervisor.watch)
    tasks.start_soon(ConnectionLimits(of.server, settings.name_of).watch)


async def change_nodes(of: Resources) -> None:
    """Connect to another node of the cluster while nothing can be written through this one.

    The node may be cut off from the others, and nothing else shows that.
    """
    changed_t = 0.0
    while True:
        await anyio.sleep(LOOK_S)
        stuck_s = min(of.journal.waiting_s, uptime() - changed_t)
        if of.connections.nodes > 1 and stuck_s > STUCK_S:
            log.warning("nothing is written for %.1f s; trying another node", of.journal.waiting_s)
            of.connections.leave_node()
            changed_t = uptime()


async def repeat_state(
    emergency_stop: EmergencyStop, publisher: Publisher, subjects: Subjects, settings: Settings
) -> None:
    """Publish stops and the mode every ten seconds, for late subscribers."""
    while True:
        emergency_stop.tell()
        mode = {"mode": settings.config.mode, "profile": settings.config.profile}
        publisher.tell(subjects.of("state", "mode"), mode)
        await anyio.sleep(STATE_S)


async def log_problems(problem: Callable[[], str]) -> None:
    """Log when a problem starts, every minute while it lasts, and when it ends."""
    told_at = 0.0
    while True:
        await anyio.sleep(LOOK_S)
        trouble = problem()
        if trouble and (not told_at or uptime() - told_at >= TROUBLE_S):
            told_at = uptime()
            log.error("all actions are blocked: %s", trouble)
        elif not trouble and told_at:
            told_at = 0.0
            log.info("the problem is solved; actions are decided again")


async def feed_watchdog(problem: Callable[[], str]) -> None:
    """Notify the systemd watchdog while there is no problem."""
    every = host.watchdog_s() / 4  # four times as often as systemd requires
    while every:
        if not problem():
            host.notify("WATCHDOG=1")
        await anyio.sleep(every)
