"""Ports on loopback that nothing uses."""

import socket
from contextlib import ExitStack, closing


def free_ports(count: int) -> list[int]:
    """Return different ports. Another process may take one before it is used."""
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
