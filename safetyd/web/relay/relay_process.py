"""Runs a relay until a signal ends it."""

import errno
import logging
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from safetyd.host import Unusable, netloc, notify, watchdog_s
from safetyd.web.relay.relay_bus import RelayBus
from safetyd.web.relay.relay_site import RelaySite

log = logging.getLogger("safetyd.relay")


class RelaySettings(msgspec.Struct, frozen=True, kw_only=True):
    servers: tuple[str, ...]  # addresses of the bus
    key_file: Path
    name: str
    prefix: str
    host: str
    port: int
    public_url: str


async def run_relay(settings: RelaySettings, announce: Callable[[str], None]) -> None:
    """Serve links. `announce` gets the address of the web server."""
    bus = RelayBus(list(settings.servers), settings.key_file, settings.name, settings.prefix)
    site = RelaySite(bus, settings.host, settings.port, settings.public_url)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.run)
            announce(await _listening(site, settings))
            notify("READY=1")
            tasks.start_soon(_feed_watchdog)
            async for number in signals:
                log.info("stopping on %s", number.name)
                break
            notify("STOPPING=1")
            await site.stop()
            tasks.cancel_scope.cancel()


async def _listening(site: RelaySite, settings: RelaySettings) -> str:
    try:
        return await site.start()
    except OSError as exc:
        where = netloc(settings.host, settings.port)
        hint = "end the program that uses it" if exc.errno == errno.EADDRINUSE else "use another"
        raise Unusable(f"cannot listen on {where} ({exc.strerror}): {hint}") from exc


async def _feed_watchdog() -> None:
    """Reset systemd's watchdog, forever, if it has one."""
    while every := watchdog_s() / 3:
        notify("WATCHDOG=1")
        await anyio.sleep(every)
