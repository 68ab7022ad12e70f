"""`safetyd mcp proxy` as a process, and a client that writes and reads its lines."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.conftest import environment

ANSWER_S: Final = 60.0
RECORDER: Final = Path(__file__).with_name("line_recorder.py")
NOTES: Final = Path(__file__).with_name("notes_server.py")

Message = dict[str, Any]


def proxy_command(server: Sequence[str], *options: str) -> list[str]:
    """Return the command of a proxy in front of a server that is called `notes`."""
    start = [sys.executable, "-m", "safetyd", "mcp", "proxy", "--name", "notes"]
    return [*start, *options, "--", *server]


class ProxyProcess:
    """A proxy, and its client. The server can record what it receives."""

    def __init__(self, data_dir: Path, command: Sequence[str], record: Path) -> None:
        self._record = record
        self.errors = ""  # what it wrote to standard error, once it has ended
        self._answers: dict[object, Message] = {}
        self._ahead = b""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(SAFETYD_DATA_DIR=str(data_dir)),
        )

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def call(self, id_: object, tool: str, **arguments: object) -> None:
        params = {"name": tool, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})

    def cancel(self, id_: object) -> None:
        params = {"requestId": id_}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def answer(self, id_: object) -> Message:
        """Return the answer to a request. Other answers are remembered."""
        ends = time.monotonic() + ANSWER_S
        while id_ not in self._answers:
            self._read(ends)
        return self._answers.pop(id_)

    def result(self, id_: object) -> Message:
        found: Message = self.answer(id_)["result"]
        return found

    def text(self, id_: object) -> str:
        return str(self.result(id_)["content"][0]["text"])

    def ping(self, id_: str) -> None:
        """Wait until everything that was sent before has been read."""
        self.send({"jsonrpc": "2.0", "id": id_, "method": "ping"})
        self.answer(id_)

    @property
    def unread(self) -> dict[object, Message]:
        """Answers that nobody has asked for."""
        return self._answers

    def received(self) -> list[Message]:
        """Return what the server received."""
        if not self._record.exists():
            return []
        return [json.loads(line) for line in self._record.read_bytes().splitlines()]

    def ran(self) -> list[object]:
        """Return the arguments of the calls that the server received."""
        calls = (one for one in self.received() if one.get("method") == "tools/call")
        return [one["params"]["arguments"] for one in calls]

    def leave(self) -> int:
        """Close the input, as a client does that ends; return the exit code."""
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        code = self.process.wait(ANSWER_S)
        self.errors = self.process.stderr.read().decode()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def _read(self, ends: float) -> None:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(0, ends - time.monotonic()))
        chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
        assert chunk, f"no answer; there are {self._answers}, exit code {self.process.poll()}"
        *lines, self._ahead = (self._ahead + chunk).split(b"\n")
        for line in lines:
            with suppress(json.JSONDecodeError):
                message = json.loads(line)
                if isinstance(message, dict):
                    self._answers[message.get("id")] = message


def proxied(data_dir: Path, record: Path, *options: str) -> AbstractContextManager[ProxyProcess]:
    """Run a proxy in front of a recorder."""
    server = [sys.executable, "-I", "-S", str(RECORDER), str(record)]
    return running(data_dir, proxy_command(server, *options), record)


@contextmanager
def running(
    data_dir: Path, command: Sequence[str], record: Path = Path(os.devnull)
) -> Iterator[ProxyProcess]:
    proxy = ProxyProcess(data_dir, command, record)
    try:
        yield proxy
    finally:
        proxy.close()
