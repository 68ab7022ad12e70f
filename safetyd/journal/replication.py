"""How many nodes of a cluster store the journal and the other streams of safetyd.

Replicas are added in place, while the stream is in use. They are never removed: a daemon with an
old configuration must not make the journal less safe.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import msgspec
import nats.js.api as js_api
import nats.js.errors
from nats.js import JetStreamContext

from safetyd.bus.nats_client import HardenedClient
from safetyd.host import Unusable

CHANGE_S: Final = 10.0
_NOT_CLUSTERED: Final = 10074
_NO_PEERS: Final = 10005
_NO_ROOM: Final = (10023, 10028, 10047)

log = logging.getLogger("safetyd.journal")


class JournalConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    replicas: Literal[1, 3, 5] = 1  # on a NATS cluster: how many nodes store each stream


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Reply(msgspec.Struct):
    error: _Error | None = None
    config: dict[str, Any] = {}


async def open_stream(
    client: HardenedClient, js: JetStreamContext, wanted: js_api.StreamConfig
) -> js_api.StreamInfo:
    """Return a stream. Create it if it is missing, and add replicas if it has too few."""
    name, replicas = str(wanted.name), wanted.num_replicas or 1
    try:
        info = await js.stream_info(name)
    except nats.js.errors.NotFoundError:
        with explained(name, replicas):
            return await js.add_stream(wanted)
    await add_replicas(client, name, replicas)
    return info


async def add_replicas(client: HardenedClient, name: str, replicas: int) -> bool:
    """Give an existing stream this many replicas. Return False if it has that many already."""
    config = await _asked(client, f"INFO.{name}")
    before = int(config.get("num_replicas", 1))
    if before >= replicas:
        return False
    log.warning("stream %s gets %d replicas instead of %d", name, replicas, before)
    changed = msgspec.json.encode({**config, "num_replicas": replicas})
    with explained(name, replicas):
        await _asked(client, f"UPDATE.{name}", changed)
    return True


@contextmanager
def explained(stream: str, replicas: int) -> Iterator[None]:
    """Say how to fix the bus if a stream cannot have this many replicas."""
    try:
        yield
    except nats.js.errors.APIError as exc:
        if found := _cause(exc, replicas):
            raise Unusable(f"stream {stream} cannot have {replicas} replicas: {found}") from exc
        raise


async def _asked(client: HardenedClient, what: str, payload: bytes = b"") -> dict[str, Any]:
    """Send a request about a stream and return the stream's configuration.

    nats-py would leave out settings that it does not know.
    """
    answer = await client.request(f"$JS.API.STREAM.{what}", payload, timeout=CHANGE_S)
    reply = msgspec.json.decode(answer.data, type=_Reply)
    if reply.error is not None:
        raise nats.js.errors.APIError(
            code=reply.error.code,
            err_code=reply.error.err_code,
            description=reply.error.description,
        )
    return reply.config


def _cause(exc: nats.js.errors.APIError, replicas: int) -> str:
    """Return why there cannot be that many replicas, and the fix."""
    setup = "`safetyd nats-config --cluster`"
    if exc.err_code == _NOT_CLUSTERED:
        return f"the bus is a single server; set journal.replicas = 1, or set up a cluster: {setup}"
    if exc.err_code == _NO_PEERS:
        why = f"the cluster has too few nodes with enough room ({exc.description})"
        return f"{why}; start {replicas} nodes that are configured as {setup} says"
    if exc.err_code in _NO_ROOM and replicas > 1:
        why = f"account SAFETY or the nodes have too little room ({exc.description})"
        return f"{why}; configure them as {setup} says"
    return ""
