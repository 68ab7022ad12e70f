"""The baseline: a responder as bare as nats-py allows.

Usage: python -m benchmarks.echo URL KEY_FILE
"""

import asyncio
import sys

import nats
from nats.aio.msg import Msg


async def answer(msg: Msg) -> None:
    await msg.respond(msg.data)


async def serve(url: str, key_file: str) -> None:
    """Answer every proposal with itself, until killed."""
    client = await nats.connect(url, nkeys_seed=key_file)
    await client.subscribe("safety.v1.propose.*", cb=answer)
    await client.subscribe("safety.v1.open.propose.*", cb=answer)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
