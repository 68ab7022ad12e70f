"""One fenced, durable publish at a time: the minimum cost of a journalled answer."""

import asyncio
from time import perf_counter

import nats
from nats.js import JetStreamContext
from nats.js.api import Header, StorageType

from benchmarks.processes import Unmeasured

STREAM = "BENCH"
SUBJECT = "safety.v1.internal.bench"
BODY = b"x" * 400


def lone_publish_ms(url: str, key_file: str, count: int) -> list[float]:
    """Return how long each of `count` publishes took, one after another."""
    try:
        return asyncio.run(_measure(url, key_file, count))
    except nats.errors.Error as error:
        raise Unmeasured(f"durable publish: {error!r}") from error


async def _measure(url: str, key_file: str, count: int) -> list[float]:
    client = await nats.connect(url, nkeys_seed=key_file)
    stream = client.jetstream()
    await stream.add_stream(
        name=STREAM, subjects=[SUBJECT], storage=StorageType.FILE, max_bytes=16 << 20
    )
    try:
        return await _publish(stream, count)
    finally:
        await stream.delete_stream(STREAM)
        await client.close()


async def _publish(stream: JetStreamContext, count: int) -> list[float]:
    took = []
    last = 0
    for _ in range(count):
        start = perf_counter()
        fence = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(last)}
        last = (await stream.publish(SUBJECT, BODY, headers=fence)).seq
        took.append((perf_counter() - start) * 1000.0)
    return took
