"""A nats-server that dies once, at the moment the daemon sends certain bytes.

Run as `bus.nats_server`, it relays everything to the real server up to those bytes.
"""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Final

from safetyd.bus.embedded_server import shipped_binary
from tests.checkout import ROOT

PR_SET_PDEATHSIG: Final = 1
CHUNK: Final = 1 << 16


def made(directory: Path, trigger: str) -> Path:
    """Return the path of a server that dies at these bytes."""
    path = directory / "failing-nats-server"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.journeys.failing_server import serve\nserve({trigger.encode()!r})\n"
    )
    path.chmod(0o700)
    return path


def serve(trigger: bytes) -> None:
    real = shipped_binary()
    if "-t" in sys.argv:
        os.execv(real, [real, *sys.argv[1:]])
    config = Path(sys.argv[-1])
    outer, inner = _moved(config)
    listener = socket.create_server(("127.0.0.1", outer))
    server = subprocess.Popen(
        [real, "-c", str(config) + ".inner"],
        preexec_fn=_die_with_parent,  # noqa: PLW1509
    )
    while True:
        client, _ = listener.accept()
        Thread(target=_join, args=(client, inner, trigger, server), daemon=True).start()


def _moved(config: Path) -> tuple[int, int]:
    """Write a configuration for the real server; return its old and its new port."""
    text = config.read_text()
    outer = re.search(r'listen: "127\.0\.0\.1:(\d+)"', text)
    assert outer is not None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        inner = probe.getsockname()[1]
    moved = text.replace(outer.group(), f'listen: "127.0.0.1:{inner}"')
    config.with_name(config.name + ".inner").write_text(moved)
    return int(outer.group(1)), inner


def _join(
    client: socket.socket, port: int, trigger: bytes, server: subprocess.Popen[bytes]
) -> None:
    upstream = _connected(port)
    Thread(target=_pump, args=(upstream, client), daemon=True).start()
    died, said = Path(sys.argv[0] + ".died"), b""
    while data := client.recv(CHUNK):
        said = said[-len(trigger) :] + data
        if trigger in said and not died.exists():
            died.touch()
            server.kill()
            os._exit(1)
        upstream.sendall(data)
    upstream.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(CHUNK):
        target.sendall(data)
    target.close()


def _connected(port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
