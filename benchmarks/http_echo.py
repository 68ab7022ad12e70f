"""The baseline of floods: a server as bare as asyncio allows, on a socket and on a port.

Usage: python -m benchmarks.http_echo SOCKET PORT
"""

import asyncio
import re
import sys

_length = re.compile(rb"\r\nContent-Length: (\d+)\r\n").search


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request and answer it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        left = int(found.group(1)) if (found := _length(head)) else 0
        while left > 0 and (chunk := await reader.read(65536)):
            left -= len(chunk)
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        pass  # the client is gone
    finally:
        writer.close()


async def serve(socket: str, port: int) -> None:
    """Answer until killed."""
    await asyncio.start_unix_server(answer, socket)
    await asyncio.start_server(answer, "127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
