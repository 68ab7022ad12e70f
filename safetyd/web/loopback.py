"""Host names below localhost, and sockets on both loopback addresses.

A program that used our port earlier may have left a service worker in a browser. That worker sees
all requests to the address. A host name that is new each time the daemon starts has no service
worker yet.
"""

import errno
import os
import secrets
import socket
from typing import Final

from safetyd.host import netloc

BELOW: Final = ".localhost"
ADDRESSES: Final = ("127.0.0.1", "::1")
TRIES: Final = 50  # attempts to find a port that is free on both addresses
_ABSENT: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def fresh_name() -> str:
    """Return a name that nobody can guess."""
    return f"{secrets.token_hex(10)}{BELOW}"


def listen_on_both(host: str, port: int) -> list[socket.socket]:
    """Listen on the same port (0: any free one) of both loopback addresses, `host` first.

    Browsers may use either address. An address that this machine lacks is skipped.
    """
    first, second = sorted(ADDRESSES, key=lambda address: address != host)
    for left in reversed(range(TRIES)):
        opened = _listen(first, port)
        try:
            return [opened, _listen(second, opened.getsockname()[1])]
        except OSError as exc:
            if exc.errno in _ABSENT:
                return [opened]
            opened.close()
            if port or not left or exc.errno != errno.EADDRINUSE:
                raise
    raise AssertionError("the last attempt returns or raises")


def _listen(address: str, port: int) -> socket.socket:
    """Return a listening socket. Errors name the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OSError as exc:
        number = exc.errno or 0
        raise OSError(number, os.strerror(number).lower(), netloc(address, port)) from None
