"""Other programs on the daemon's socket, none of which may let anything run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Final

from tests.hosts.socket_stand_in import HEAD

SILENCE: Final = b"silence"

IMPOSTORS: Final = {
    "500": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    "html": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>It works</html>\n",
    "garbage": b"\x00\xff\x13garbage\r\n\r\n{]",
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "allow": HEAD + b"safetyd/1 0123456789abcdef alive\nsafetyd/1 0123456789abcdef 0 0 0\n",
    "closed": b"",
    "silence": SILENCE,
}


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True


@contextmanager
def impostor(path: Path, answer: bytes) -> Iterator[None]:
    """Answer every connection with the same bytes, or never."""
    done = threading.Event()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            if answer == SILENCE:
                done.wait()
            else:
                self.wfile.write(answer)

    path.unlink(missing_ok=True)
    with _Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            done.set()
            server.shutdown()
            thread.join()
            path.unlink()
