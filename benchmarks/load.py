"""The load generator: one raw socket, N requests in flight, little work for each.

As a program it reads a `Spec` from standard input and prints a `Result`.
"""

import gc
import os
import re
import secrets
import select
import sys
from array import array
from collections.abc import Iterable
from time import perf_counter

import msgspec

from benchmarks.proposals import SHORT, around_id
from benchmarks.wire import connect

STALLED_S = 10.0
PACE_S = 0.001  # precision of a rate
SAMPLE_BYTES = 4096
ALLOW = b'"decision":"allow"'


class Unanswered(Exception):
    """No responder listens, or answers stopped."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: until `count` requests or `seconds` are over, whichever is first."""

    url: str
    key_file: str = ""  # none: anonymous
    agent: str = "bench"
    agents: int = 1  # more than one: `agent` is the first part of their names
    to_self: bool = False  # back to the generator itself, to measure it
    in_flight: int = 1
    count: int = sys.maxsize
    seconds: float = 600.0
    per_s: float = 0.0  # at most; 0.0 for full speed
    type: str = "edit_file"
    text: str = SHORT


class Result(msgspec.Struct, frozen=True, kw_only=True):
    answered: int
    allowed: int
    seconds: float
    p50_ms: float
    p99_ms: float
    first: str = ""  # the first reply, unparsed
    other: str = ""  # the first reply other than allow

    @property
    def rate(self) -> float:
        return self.answered / self.seconds

    @property
    def allowed_share(self) -> float:
        return self.allowed / max(self.answered, 1)


class Requests:
    """Encoded proposals, each with its own id."""

    def __init__(self, spec: Spec, inbox: str) -> None:
        before, after = around_id(spec.text, spec.type)
        run = secrets.token_hex(4).encode()
        size = len(before) + len(run) + 10 + len(after)
        self._subjects = [f"PUB {subject} ".encode() for subject in _subjects(spec, inbox)]
        self._replies = [
            f"{inbox}.{slot} {size}\r\n".encode() + before + run + b"-"
            for slot in range(spec.in_flight)
        ]
        self._after = after + b"\r\n"
        self.made = 0

    def make(self, slot: int) -> bytes:
        number = self.made
        self.made = number + 1
        subject = self._subjects[number % len(self._subjects)]
        return b"%b%b%09d%b" % (subject, self._replies[slot], number, self._after)


def _subjects(spec: Spec, inbox: str) -> list[str]:
    if spec.to_self:
        return [f"{inbox}.self"]
    if spec.agents == 1:
        return [f"safety.v1.propose.{spec.agent}"]
    return [f"safety.v1.propose.{spec.agent}-{number:06d}" for number in range(spec.agents)]


class Replies:
    """Splits received bytes into replies."""

    def __init__(self, inbox: str) -> None:
        header = re.escape(inbox).encode() + rb"\.(\d+) (?:1 )?(?:\d+ )?(\d+)\r\n"
        self._header = re.compile(header).search
        self._rest = b""
        self.pinged = False
        self.allowed = 0
        self.first = b""
        self.other = b""

    def take(self, chunk: bytes) -> list[int]:
        """Return the slots whose requests are answered."""
        if b"PING\r\n" in chunk:
            self.pinged = True
        data = self._rest + chunk
        slots, end = self._walk(data)
        self._rest = data[end:]
        self._judge(data[:end], len(slots))
        self.first = self.first or data[:end]
        return slots

    def _walk(self, data: bytes) -> tuple[list[int], int]:
        slots = []
        end = 0
        while (header := self._header(data, end)) is not None:
            after = header.end() + int(header[2]) + 2
            if after > len(data):
                break
            slots.append(int(header[1]))
            end = after
        return slots, end

    def _judge(self, replies: bytes, count: int) -> None:
        allowed = replies.count(ALLOW)
        self.allowed += allowed
        if allowed == count or self.other:
            return
        if b"NATS/1.0 503" in replies:
            raise Unanswered("nobody listens to proposals")
        others = (reply for reply in replies.split(b"MSG ")[1:] if ALLOW not in reply)
        self.other = next(others, replies)


class Generator:
    """Keeps `in_flight` requests in flight and records each latency."""

    def __init__(self, spec: Spec) -> None:
        inbox = f"_INBOX.agent.{spec.agent}" if spec.key_file else f"_INBOX.bench{os.getpid()}"
        self._spec = spec
        self._requests = Requests(spec, inbox)
        self._replies = Replies(inbox)
        self._link = connect(spec.url, spec.key_file)
        self._sent_at = [0.0] * spec.in_flight
        self._took = array("d")
        self._free: list[int] = []  # free slots held back by the rate
        self._unsent = f"SUB {inbox}.> 1\r\n".encode()

    def run(self) -> Result:
        """Send and receive until the spec is met and every request is answered."""
        with self._link:
            self._link.settimeout(0.0)
            start = perf_counter()
            self._free = list(range(self._spec.in_flight))
            self._refill(self._taken(start, start))
            self._exchange(start)
            return self._result(perf_counter() - start)

    def _exchange(self, start: float) -> None:
        deadline, waits = start + self._spec.seconds, bool(self._spec.per_s)
        while len(self._took) < self._requests.made or (waits and perf_counter() < deadline):
            slots = self._receive()
            now = perf_counter()
            self._took.extend([now - self._sent_at[slot] for slot in slots])
            self._free += slots
            if now < deadline:
                self._refill(self._taken(start, now))
            self._send()

    def _taken(self, start: float, now: float) -> list[int]:
        """Take the free slots that may be used now."""
        most = self._spec.count - self._requests.made
        if self._spec.per_s:
            most = min(most, int((now - start) * self._spec.per_s) + 1 - self._requests.made)
        taken = self._free[: max(most, 0)]
        del self._free[: len(taken)]
        return taken

    def _refill(self, slots: Iterable[int]) -> None:
        make = self._requests.make
        self._unsent += b"".join([make(slot) for slot in slots])
        now = perf_counter()
        for slot in slots:
            self._sent_at[slot] = now
        self._send()

    def _send(self) -> None:
        if self._replies.pinged:
            self._replies.pinged = False
            self._unsent += b"PONG\r\n"
        if self._unsent:
            try:
                self._unsent = self._unsent[self._link.send(self._unsent) :]
            except BlockingIOError:
                return

    def _receive(self) -> list[int]:
        waiting = [self._link] if self._unsent else []
        paced = bool(self._spec.per_s and self._free)
        patience_s = PACE_S if paced else STALLED_S
        readable, _, _ = select.select([self._link], waiting, [], patience_s)
        if not readable:
            if waiting or paced:
                return []
            raise Unanswered(f"nothing came for {STALLED_S:g} s")
        chunk = self._link.recv(1 << 20)
        if not chunk:
            raise Unanswered("the server closed the connection")
        return self._replies.take(chunk)

    def _result(self, seconds: float) -> Result:
        took = sorted(self._took)
        return Result(
            answered=len(took),
            allowed=self._replies.allowed,
            seconds=seconds,
            p50_ms=took[len(took) // 2] * 1000.0,
            p99_ms=took[len(took) * 99 // 100] * 1000.0,
            first=self._replies.first[:SAMPLE_BYTES].decode(errors="replace"),
            other=self._replies.other[:SAMPLE_BYTES].decode(errors="replace"),
        )


def main() -> None:
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=Spec)
    gc.disable()
    sys.stdout.buffer.write(msgspec.json.encode(Generator(spec).run()))


if __name__ == "__main__":
    main()
