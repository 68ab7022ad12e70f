"""TCP links on loopback that can be cut and healed, in a process of their own.

A cut link forwards nothing, in both directions, and closes nothing: neither end notices, as if the
cable were unplugged. A healed link forwards the bytes that have waited. A torn connection is closed
in the middle of what its target sends, which is lost from there on; the next one works. The process
ends when its standard input is closed.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from threading import Lock
from typing import Any, Final

CHUNK: Final = 1 << 16
ROOT: Final = Path(__file__).parents[1]


class TcpLinks:
    """The process that forwards, with one method for each command."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tcp_links"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def add(self, name: str) -> int:
        """Add a link and return the port that it listens on. It has no target yet."""
        return int(self._do("add", name))

    def aim(self, name: str, port: int) -> None:
        """Set the target of new connections of a link."""
        self._do("aim", name, port)

    def cut(self, *names: str) -> None:
        self._do("cut", *names)

    def heal(self, *names: str) -> None:
        self._do("heal", *names)

    def tear(self, name: str, marker: str, times: int = 1) -> None:
        """Close the connection whose target sends this marker so many times, before the last."""
        self._do("tear", name, marker, times)

    def torn(self, name: str) -> bool:
        """Return whether the connection has been closed since `tear`."""
        return bool(self._do("torn", name))

    def close(self) -> None:
        self._process.communicate()

    def _do(self, *command: str | int) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


class _Link:
    def __init__(self) -> None:
        self._target = 0
        self.healthy = asyncio.Event()
        self.healthy.set()
        self._open: set[asyncio.Task[None]] = set()
        self.marker = b""
        self.markers = 0  # how often the targets send it until the connection is closed

    async def listen(self) -> int:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def aim(self, port: int) -> None:
        self._target = port

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.healthy.wait()
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        for forwarding in (self._forward(reader, back), self._forward(there, writer, back)):
            task = asyncio.create_task(forwarding)
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _forward(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        target: asyncio.StreamWriter | None = None,
    ) -> None:
        """Forward until the end. `target` is given if the source is the target, and may be torn."""
        before = b""  # the end of what was sent, which may be the beginning of a marker
        with contextlib.suppress(OSError):
            while chunk := await source.read(CHUNK):
                await self.healthy.wait()
                if target is not None and self.markers:
                    end = self._torn_at(before + chunk) - len(before)
                    before = (before + chunk)[1 - len(self.marker) :]
                    if not self.markers:
                        sink.write(chunk[: max(end, 0)])
                        target.transport.abort()
                        break
                sink.write(chunk)
                await sink.drain()
        await self.healthy.wait()  # the other end notices only then
        sink.transport.abort() if sink.is_closing() else sink.close()

    def _torn_at(self, data: bytes) -> int:
        """Count the markers. Return where the last one begins, if this is the last one."""
        place = -1
        while self.markers and (place := data.find(self.marker, place + 1)) >= 0:
            self.markers -= 1
        return place


async def _serve() -> None:
    links: dict[str, _Link] = {}
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        action, *rest = json.loads(line)
        done: object = None
        match action:
            case "add":
                link = links[rest[0]] = _Link()
                done = await link.listen()
            case "aim":
                links[rest[0]].aim(rest[1])
            case "cut":
                for name in rest:
                    links[name].healthy.clear()
            case "heal":
                for name in rest:
                    links[name].healthy.set()
            case "tear":
                links[rest[0]].marker, links[rest[0]].markers = rest[1].encode(), rest[2]
            case "torn":
                done = not links[rest[0]].markers
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
