"""Checks an external bus."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import nats.errors
import nats.js.errors

from safetyd.bus.bus_nodes import BusNode, bus_nodes, version_problems
from safetyd.bus.nats_client import HardenedClient

ASK_S: Final = 2.0
_NO_LEADER: Final = (10008, 10009)  # JetStream is not available at the moment


async def external_problems(client: HardenedClient) -> list[str]:
    """Return the problems of the bus, each with its fix.

    Raise an error if the bus does not answer, for example while its nodes elect a leader.
    """
    account = await _account(client)
    found = [*version_problems(await _nodes(client)), *_account_problems(account)]
    try:
        await client.jetstream(timeout=ASK_S).account_info()
    except (nats.js.errors.Error, nats.errors.Error) as exc:
        if isinstance(exc, TimeoutError) or getattr(exc, "err_code", None) in _NO_LEADER:
            raise
        found.append(
            f"JetStream does not answer in account {account!r} ({exc}): enable it there, and only "
            "there, with `jetstream: enabled` and `sync_interval: always`"
        )
    return found


async def _nodes(client: HardenedClient) -> Iterable[BusNode]:
    """Return the nodes of the bus, or at least the one that this client is connected to."""
    return await bus_nodes(client) or (_connected(client),)


def _connected(client: HardenedClient) -> BusNode:
    found, url = client.connected_server_version, client.connected_url
    version = f"{found.major}.{found.minor}.{found.patch}"
    return BusNode(name=f"at {url.hostname}" if url else "", version=version)


def _account_problems(account: str) -> Iterator[str]:
    if account in {"", "$G"}:
        yield (
            "the daemon's user has no separate account, so an agent could act as the "
            "daemon; add the accounts that `safetyd nats-config` prints"
        )


async def _account(client: HardenedClient) -> str:
    try:
        answer = await client.request("$SYS.REQ.USER.INFO", b"", timeout=ASK_S)
        info: dict[str, Any] = msgspec.json.decode(answer.data)
        return str(info.get("data", {}).get("account", ""))
    except (nats.errors.NoRespondersError, msgspec.DecodeError):
        return ""
