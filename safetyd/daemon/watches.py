"""What is watched for as long as a daemon serves: connections, floods, old keys, the bus."""

from collections.abc import Callable
from functools import partial

import anyio.abc

from safetyd.bus.connection_limits import ConnectionLimits
from safetyd.bus.supervisor import Supervisor
from safetyd.daemon.resources import Resources


def watch(of: Resources, tasks: anyio.abc.TaskGroup, server_owes_s: Callable[[], float]) -> None:
    """Begin to watch; `server_owes_s` is for how long the journal's server has not answered."""
    settings, reload = of.settings, of.reload
    for connection in of.connections.all:
        tasks.start_soon(connection.send_canaries)
    tasks.start_soon(reload.end_old_keys)
    # What a flood of questions left in the connection is dropped: others would wait behind it.
    hang_up = of.connections.questions.hang_up
    flooding_questions = settings.question_limits.flood_gate
    tasks.start_soon(flooding_questions.watch, reload.shut_out, hang_up)
    tasks.start_soon(settings.flood_gate.watch, reload.shut_out)
    if of.connections.open is not None:
        tasks.start_soon(settings.keyless_gate.watch, partial(reload.take_on_keys, "door"))
    if of.reserve is not None:
        tasks.start_soon(of.reserve.keep)
    if of.server is None:
        tasks.start_soon(of.journal.watch)
        return
    supervisor = Supervisor(of.server, of.connections.main, of.data_dir, server_owes_s)
    tasks.start_soon(supervisor.restart)
    tasks.start_soon(supervisor.watch)
    tasks.start_soon(ConnectionLimits(of.server, settings.name_of).watch)
