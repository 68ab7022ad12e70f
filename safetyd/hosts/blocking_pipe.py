"""Read and write blocking file descriptors from an event loop, in lines of bounded length.

Standard input and output can be pipes, sockets, terminals or files. Threads can read
all of them, and these threads do not keep the process alive.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

CHUNK: Final = 64 * 1024

T = TypeVar("T")


async def read_some(descriptor: int) -> bytes:
    """Return the next bytes, or none at the end."""
    return await _in_daemon_thread(partial(os.read, descriptor, CHUNK))


async def write_all(descriptor: int, data: bytes) -> None:
    await _in_daemon_thread(partial(_write, descriptor, data))


async def lines(
    read: Callable[[], Awaitable[bytes]], max_bytes: int
) -> AsyncIterator[bytes | None]:
    """Yield lines without their end, and None for each one that is too long and was skipped."""
    parts: list[bytes] = []
    size = 0
    while chunk := await read():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            whole = size + len(part) <= max_bytes
            yield b"".join((*parts, part)) if whole else None
            parts, size = [], 0
        size += len(rest)
        if size <= max_bytes:
            parts.append(rest)
        else:
            parts.clear()
    if size:
        yield b"".join(parts) if size <= max_bytes else None


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


async def _in_daemon_thread(work: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, problem: BaseException | None) -> None:
        if done.cancelled():
            return
        if problem is not None:
            done.set_exception(problem)
        else:
            done.set_result(result)  # type: ignore[arg-type] # None only if T is None

    def run() -> None:
        result, problem = None, None
        try:
            result = work()
        except OSError as exc:
            problem = exc
        with suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=run, daemon=True).start()
    return await done
