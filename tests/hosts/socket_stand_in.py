"""Something that sits on the daemon's socket and answers whatever a test wants."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HEAD: Final = b"HTTP/1.0 200 OK\r\nContent-Type: application/x-safetyd-hook\r\n\r\n"

Answer = Callable[[str], bytes]  # of the nonce


class SocketStandIn:
    """Answers every connection, and remembers what was sent."""

    def __init__(self, path: Path, answer: Answer, *, silent: bool = False) -> None:
        self.path = path
        self.requests: list[bytes] = []
        self._answer = answer
        self._silent = silent
        self._done = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._done.set()
        # A thread in accept() is not woken by closing the socket.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(str(self.path))
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                request = _read(connection)
                if not request.strip():
                    return
                self.requests.append(request)
                if self._silent:
                    self._done.wait()
                else:
                    connection.sendall(self._answer(nonce_of(request)))


@contextmanager
def answering(path: Path, answer: Answer, *, silent: bool = False) -> Iterator[SocketStandIn]:
    stand_in = SocketStandIn(path, answer, silent=silent)
    try:
        yield stand_in
    finally:
        stand_in.close()


def nonce_of(request: bytes) -> str:
    return request.partition(b"Safetyd-Nonce: ")[2].partition(b"\r\n")[0].decode()


def _read(connection: socket.socket) -> bytes:
    """Read a request: its head, and as much as its length says."""
    request = b""
    while b"\r\n\r\n" not in request and (more := connection.recv(65536)):
        request += more
    head, _, body = request.partition(b"\r\n\r\n")
    length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0] or 0)
    while len(body) < length and (more := connection.recv(65536)):
        body += more
    return head + b"\r\n\r\n" + body
