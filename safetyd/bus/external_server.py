"""What somebody else's bus must give, and taking turns on it."""

import logging
from collections.abc import Iterator
from typing import Any, Final

import anyio
import msgspec
import nats.errors
import nats.js.errors

from safetyd.bus.nats_client import HardenedClient
from safetyd.clock import uptime

ASK_S: Final = 2.0
SILENCE_S: Final = 5.0
ASK_AGAIN_S: Final = 0.5
NOBODY: Final = "nobody any more"
SILENT: Final = "a daemon that does not answer"

log = logging.getLogger("safetyd.bus")


async def external_problems(client: HardenedClient) -> list[str]:
    """Return what the daemon needs and does not find, each with what to do."""
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
            "the daemon's user is not in an account of its own: an agent could then speak as the "
            "daemon; `safetyd nats-config` prints the accounts to add"
        )


async def _account(client: HardenedClient) -> str:
    try:
        answer = await client.request("$SYS.REQ.USER.INFO", b"", timeout=ASK_S)
        info: dict[str, Any] = msgspec.json.decode(answer.data)
        return str(info.get("data", {}).get("account", ""))
    except (nats.errors.Error, TimeoutError, msgspec.DecodeError):
        return ""


async def wait_for_silence(client: HardenedClient, writer: str) -> None:
    """Return once no other daemon writes the journal, or has said so for five seconds."""
    if await _writer(client, writer) == NOBODY:
        return  # the fence decides if two begin together
    heard, said = uptime(), ""
    while uptime() - heard < SILENCE_S:
        other = await _writer(client, writer)
        if other not in {NOBODY, SILENT}:
            heard = uptime()
        if other != said:
            log.warning("standing by: %s writes the journal", other)
            said = other
        await anyio.sleep(ASK_AGAIN_S)


async def _writer(client: HardenedClient, writer: str) -> str:
    """Return who says that it writes the journal."""
    try:
        answer = await client.request(writer, b"", timeout=1)
    except nats.errors.NoRespondersError:
        return NOBODY
    except nats.errors.TimeoutError:
        return SILENT
    except nats.errors.Error as exc:
        return f"somebody ({exc})"  # without a connection, silence means nothing
    return str(answer.data.decode(errors="replace"))
