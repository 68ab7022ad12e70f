"""A raw NATS connection of one agent that fails at once when the server is gone."""

import base64
import random
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

import msgspec
import nkeys

GREETING_S: Final = 10.0
PING_S: Final = 0.1


class Refused(Exception):
    """The server rejects this user."""


class Message(NamedTuple):
    subject: str
    payload: bytes


class AgentWire:
    def __init__(
        self, url: str, seed: Path | None = None, *, greeting_s: float = GREETING_S
    ) -> None:
        where = urlsplit(random.choice(url.split(",")))  # of a cluster: any node
        self._buffer = b""
        self._greeting_s = greeting_s
        self._socket = socket.create_connection((where.hostname, where.port), greeting_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._subscriptions = 0
        self._ponged = False
        self.heard_t = self._pinged_t = time.monotonic()
        try:
            self._greet(seed)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def subscribe(self, subject: str) -> None:
        self._subscriptions += 1
        self._send(b"SUB %b %d\r\n" % (subject.encode(), self._subscriptions))

    def publish(self, subject: str, payload: bytes, reply: str) -> None:
        head = b"PUB %b %b %d\r\n" % (subject.encode(), reply.encode(), len(payload))
        self._send(b"%b%b\r\n" % (head, payload))

    def ping(self) -> None:
        """Ask the server for a sign of life, but at most every tenth of a second."""
        if time.monotonic() - self._pinged_t > PING_S:
            self._pinged_t = time.monotonic()
            self._send(b"PING\r\n")

    def hear(self, patience_s: float) -> list[Message]:
        """Return new messages, waiting for them; raise ConnectionError at the end."""
        if not select.select([self._socket], [], [], patience_s)[0]:
            return []
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.heard_t = time.monotonic()
        self._buffer += data
        return list(self._messages())

    def _greet(self, seed: Path | None) -> None:
        end = time.monotonic() + self._greeting_s
        while b"\r\n" not in self._buffer:
            self._buffer += self._socket.recv(1 << 16) or _gone()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        info = msgspec.json.decode(line.removeprefix(b"INFO "))
        options = {"verbose": False, "headers": True, "no_responders": True, "protocol": 1}
        hello = msgspec.json.encode({**options, **_proof(seed, info)})
        self._send(b"CONNECT %b\r\nPING\r\n" % hello)
        while not self._ponged:
            self.hear(max(0.0, end - time.monotonic()))
            if time.monotonic() > end:
                raise TimeoutError("no greeting came")

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _messages(self) -> Iterator[Message]:
        """Yield every complete message in the buffer."""
        while (end := self._buffer.find(b"\r\n")) >= 0:
            verb, *parts = self._buffer[:end].split(b" ")
            body, after = end + 2, end + 2
            if verb in {b"MSG", b"HMSG"}:
                after = body + int(parts[-1]) + 2
                if len(self._buffer) < after:
                    return
                headers = int(parts[-2]) if verb == b"HMSG" else 0
                yield Message(parts[0].decode(), self._buffer[body + headers : after - 2])
            self._buffer = self._buffer[after:]
            self._obey(verb, parts)

    def _obey(self, verb: bytes, parts: list[bytes]) -> None:
        if verb == b"PING":
            self._send(b"PONG\r\n")
        elif verb == b"PONG":
            self._ponged = True
        elif verb == b"-ERR" and b"'Authorization" in parts:
            raise Refused(b" ".join(parts).decode())


def _gone() -> bytes:
    raise ConnectionError("the server closed the connection")


def _proof(seed: Path | None, info: dict[str, Any]) -> dict[str, str]:
    if seed is None:
        return {}
    pair = nkeys.from_seed(seed.read_bytes().strip())
    signature = base64.urlsafe_b64encode(pair.sign(info["nonce"].encode())).rstrip(b"=")
    return {"nkey": pair.public_key.decode(), "sig": signature.decode()}
