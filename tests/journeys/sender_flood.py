"""Floods the doors of a daemon: `python -m tests.journeys.sender_flood KIND SOCKET URL S`.

Each kind keeps as many connections as possible under way, and prints how many it made.
"""

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

AT_ONCE: Final = 400
SILENT: Final = 600
PIECE: Final = b"x" * 64 * 1024
BEGIN: Final = (
    b'{"session_id": "s", "tool_name": "Write", "tool_input": {"file_path": "/a", "content": "'
)
END: Final = b'"}}'
PIECES: Final = (8 * 1024 * 1024 - len(BEGIN + END)) // len(PIECE)
BODY_BYTES: Final = len(BEGIN) + PIECES * len(PIECE) + len(END)
CALL: Final = b'{"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}}'
_numbers: Final = count()

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def head(path: str, size: int, **headers: str) -> bytes:
    given = {"Host": "localhost", "Content-Length": str(size), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items()]
    return "\r\n".join([f"POST {path} HTTP/1.0", *lines, "", ""]).encode()


def call_head(size: int) -> bytes:
    """Return the head of a call of an agent with a new name."""
    number = next(_numbers)
    named = {"Safetyd_Agent": f"flood-{number}", "Safetyd_Nonce": f"{number:016x}"}
    return head("/hooks/v1/claude/before", size, **named)


async def say_nothing(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def send_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(call_head(BODY_BYTES))
    await _send_body(writer)
    await reader.read()


async def call_often(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(call_head(len(CALL)) + CALL)
    await reader.read()


async def post_from_a_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    named = {"Origin": "https://evil.example", "Content_Type": "text/plain"}
    writer.write(head("/hooks/v1/claude", BODY_BYTES, **named))
    await _send_body(writer)
    await reader.read()


async def _send_body(writer: asyncio.StreamWriter) -> None:
    for piece in (BEGIN, *PIECES * (PIECE,), END):
        writer.write(piece)
        await writer.drain()


KINDS: Final[dict[str, Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]]] = {
    "silent": say_nothing,
    "bodies": send_much,
    "calls": call_often,
    "pages": post_from_a_page,
}


async def flood(kind: str, socket: str, url: str, for_s: float) -> int:
    """Keep connections under way until the deadline. Return how many were made."""
    where, made, until = urlsplit(url), count(), monotonic() + for_s

    async def connect() -> Streams:
        if kind == "pages":
            return await asyncio.open_connection(where.hostname, where.port)
        return await asyncio.open_unix_connection(socket)

    async def keep_on() -> None:
        while monotonic() < until:
            try:
                reader, writer = await connect()
            except OSError:
                await asyncio.sleep(0.01)
                continue
            next(made)
            try:
                await KINDS[kind](reader, writer)
            except OSError:
                pass  # it tries again
            finally:
                writer.close()

    loops = [asyncio.create_task(keep_on()) for _ in range(SILENT if kind == "silent" else AT_ONCE)]
    await asyncio.wait(loops, timeout=for_s)
    for loop in loops:
        loop.cancel()
    await asyncio.wait(loops)
    return next(made)


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(asyncio.run(flood(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))))
