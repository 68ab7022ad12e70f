"""Checks an external bus."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import nats.errors
import nats.js.errors

from safetyd.bus.nats_client import HardenedClient

ASK_S: Final = 2.0


async def external_problems(client: HardenedClient) -> list[str]:
    """Return the problems of the bus, each with its fix."""
    account = await _account(client)
    found = list(_account_problems(account))
    try:
        await client.jetstream(timeout=ASK_S).account_info()
    except (nats.js.errors.Error, nats.errors.Error) as exc:
        found.append(
            f"JetStream does not answer in account {account!r} ({exc}): enable it there, and only "
            "there, with `jetstream: enabled` and `sync_interval: always`"
        )
    return found


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
    except (nats.errors.Error, TimeoutError, msgspec.DecodeError):
        return ""
