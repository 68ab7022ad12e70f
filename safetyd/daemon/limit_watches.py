"""Who floods, and who holds too many connections: watched for as long as a daemon serves."""

from functools import partial

import anyio.abc

from safetyd.bus.connection_limits import ConnectionLimits
from safetyd.daemon.resources import Resources


def watch_limits(of: Resources, tasks: anyio.abc.TaskGroup) -> None:
    """Begin to watch."""
    settings, reload = of.settings, of.reload
    # What a flood of questions left in the connection is dropped: others would wait behind it.
    hang_up = of.connections.questions.hang_up
    flooding_questions = settings.question_limits.flood_gate
    tasks.start_soon(flooding_questions.watch, reload.shut_out, hang_up)
    tasks.start_soon(settings.flood_gate.watch, reload.shut_out)
    if of.connections.open is not None:
        tasks.start_soon(settings.keyless_gate.watch, partial(reload.take_on_keys, "door"))
    if of.server is not None:
        tasks.start_soon(ConnectionLimits(of.server, settings.name_of).watch)
