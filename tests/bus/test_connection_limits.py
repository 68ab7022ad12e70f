from contextlib import ExitStack
from datetime import timedelta

import anyio
import anyio.to_thread

from safetyd.bus.connection_limits import (
    FREE,
    MAX_OF_KEY,
    ClientConnection,
    ConnectionLimits,
    superfluous,
)
from safetyd.bus.server_config import KEYLESS, MAX_KEYLESS
from tests.bus.peer import Peer, Refused
from tests.bus.server_rig import Embedded
from tests.servers import until
from tests.story import NOON

KEPT = MAX_KEYLESS - FREE


def silent_since(second: int, *, spoke: bool = False, user: str = KEYLESS) -> ClientConnection:
    return ClientConnection(second, int(spoke), NOON + timedelta(seconds=second), user)


def test_connections_within_the_limits_stay_open():
    of_one = [silent_since(second, user="UA") for second in range(MAX_OF_KEY)]
    of_another = [silent_since(second, user="UB") for second in range(MAX_OF_KEY)]
    keyless = [silent_since(second) for second in range(KEPT)]

    assert list(superfluous([*of_one, *of_another, *keyless])) == []


def test_one_key_never_closes_connections_of_another():
    few = [silent_since(second, user="UA") for second in range(MAX_OF_KEY)]
    many = [silent_since(second, spoke=True, user="UB") for second in range(100, 203)]

    assert list(superfluous([*few, *many])) == [many[: 103 - MAX_OF_KEY]]


def test_connections_that_never_sent_close_first_then_the_longest_silent():
    spoke = [silent_since(second, spoke=True) for second in range(KEPT)]
    never = [silent_since(second) for second in range(1000, 1002)]

    assert list(superfluous([*spoke, *never])) == [never]
    (ended,) = superfluous([*spoke, *never, silent_since(2000, spoke=True)])
    assert ended == [*never, spoke[0]]


def occupy(server: Embedded, stack: ExitStack) -> int:
    """Try to open every connection for anonymous agents. Return the number that succeeded."""
    held = 0
    for _ in range(MAX_KEYLESS):
        try:
            stack.enter_context(Peer(server.url))
            held += 1
        except (OSError, Refused):
            continue
    return held


def lets_in(server: Embedded) -> bool:
    try:
        Peer(server.url).close()
    except (OSError, Refused):
        return False
    return True


async def test_connections_are_freed_even_after_a_server_restart(server: Embedded):
    await until(lambda: lets_in(server))
    crowding = ConnectionLimits(server, str)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(crowding.watch)
        with ExitStack() as stack:
            assert await anyio.to_thread.run_sync(occupy, server, stack) > KEPT
            await until(lambda: lets_in(server))

            server.kill()
            await server.ended()
            server.start()
            await until(lambda: lets_in(server))
            assert await anyio.to_thread.run_sync(occupy, server, stack) > KEPT
            await until(lambda: lets_in(server))
        tasks.cancel_scope.cancel()
