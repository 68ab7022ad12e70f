"""A NATS client that sends raw bytes, valid or not."""

import base64
import itertools
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

import msgspec
import nkeys

PATIENCE_S: Final = 30.0


class Refused(Exception):
    """The server rejects this user."""


class Unanswered(AssertionError):
    """A request has no responders."""


class Message(NamedTuple):
    subject: bytes
    sid: int
    headers: bytes
    payload: bytes

    @property
    def fields(self) -> dict[str, Any]:
        if self.headers.startswith(b"NATS/1.0 503"):
            raise Unanswered(self.headers.decode())
        fields: dict[str, Any] = msgspec.json.decode(self.payload)
        return fields


class Peer:
    """One connection. `inbox` is a prefix that its user can subscribe to."""

    def __init__(
        self,
        url: str,
        seed: Path | None = None,
        inbox: str = "_INBOX.raw",
        *,
        greeting_s: float = PATIENCE_S,
    ) -> None:
        where = urlsplit(url)
        self._greeting_s = greeting_s
        self._socket = socket.create_connection((where.hostname, where.port), greeting_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._gone = False
        self._made = itertools.count(1)
        self._inbox = inbox
        self.errors: list[str] = []
        self._greet(seed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        self.send(pub(subject.encode(), payload, reply.encode()))

    def subscribe(self, subject: str, queue: str = "") -> int:
        sid = next(self._made)
        self.send(f"SUB {subject} {queue} {sid}\r\n".encode())
        return sid

    def ask(self, subject: str, payload: bytes, patience_s: float = PATIENCE_S) -> Message:
        """Send a request and return its answer."""
        inbox = f"{self._inbox}.{next(self._made)}"
        sid = self.subscribe(inbox)
        self.send(b"UNSUB %d 1\r\n" % sid)
        self.publish(subject, payload, inbox)
        return self.heard(sid, patience_s)

    def heard(self, sid: int, patience_s: float = PATIENCE_S) -> Message:
        """Return the next message of a subscription. Skip all other messages."""
        for message in self._messages(patience_s):
            if isinstance(message, Message) and message.sid == sid:
                return message
        raise AssertionError(f"nothing came; the server said {self.errors}")

    def settle(self, patience_s: float = PATIENCE_S) -> list[Message]:
        """Wait until the server processed everything sent. Return the messages received so far."""
        self.send(b"PING\r\n")
        messages: list[Message] = []
        for message in self._messages(patience_s):
            if not isinstance(message, Message):
                return messages
            messages.append(message)
        raise AssertionError(f"the server closed the connection and said {self.errors}")

    def closed(self) -> bool:
        """Wait for the server to close the connection. Return True if it does."""
        for _ in self._messages(PATIENCE_S):
            pass
        return self._gone

    def _greet(self, seed: Path | None) -> None:
        line = self._line(monotonic() + self._greeting_s)
        if not line:
            self.close()
            raise ConnectionError("the server did not greet")
        info = msgspec.json.decode(line.removeprefix(b"INFO "))
        options = {"verbose": False, "headers": True, "no_responders": True, "protocol": 1}
        self.send(b"CONNECT %b\r\n" % msgspec.json.encode({**options, **_proof(seed, info)}))
        try:
            self.settle(self._greeting_s)
        except (AssertionError, OSError):
            self.close()
            raise Refused(str(self.errors)) from None

    def _messages(self, patience_s: float) -> Iterator[Message | None]:
        """Yield messages, and None for each PONG, until the server closes or stops sending."""
        until = monotonic() + patience_s
        while line := self._line(until):
            verb = line.partition(b" ")[0].upper()
            if verb in {b"MSG", b"HMSG"}:
                yield self._message(line.split(b" "), until)
            elif verb == b"PONG":
                yield None
            elif verb == b"PING":
                self.send(b"PONG\r\n")
            elif verb == b"-ERR":
                self.errors.append(line.decode(errors="replace"))

    def _message(self, parts: list[bytes], until: float) -> Message:
        size = int(parts[-1])
        header_size = int(parts[-2]) if parts[0] == b"HMSG" else 0
        while len(self._buffer) < size + 2:
            if not self._receive(until):
                raise ConnectionError("the server closed within a message")
        body, self._buffer = self._buffer[:size], self._buffer[size + 2 :]
        return Message(parts[1], int(parts[2]), body[:header_size], body[header_size:])

    def _line(self, until: float) -> bytes:
        """Return the next protocol line, or an empty one if the server closed or time is up."""
        while b"\r\n" not in self._buffer:
            if not self._receive(until):
                return b""
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _receive(self, until: float) -> bytes:
        poll = select.poll()  # `select` supports only 1,024 files
        poll.register(self._socket, select.POLLIN)
        ready = poll.poll(max(0.0, until - monotonic()) * 1000)
        try:
            data = self._socket.recv(1 << 20) if ready else b""
        except ConnectionResetError:
            data = b""
        self._gone = bool(ready) and not data
        self._buffer += data
        return data


def pub(subject: bytes, payload: bytes, reply: bytes = b"") -> bytes:
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)


def hpub(subject: bytes, headers: bytes, payload: bytes, reply: bytes = b"") -> bytes:
    size = len(headers)
    sizes = b"%d %d" % (size, size + len(payload))
    return b"HPUB %b %b %b\r\n%b%b\r\n" % (subject, reply, sizes, headers, payload)


def _proof(seed: Path | None, info: dict[str, Any]) -> dict[str, str]:
    if seed is None:
        return {}
    pair = nkeys.from_seed(seed.read_bytes().strip())
    signature = base64.urlsafe_b64encode(pair.sign(info["nonce"].encode())).rstrip(b"=")
    return {"nkey": pair.public_key.decode(), "sig": signature.decode()}
