"""The channels that there are, and opening those that are configured.

A channel that cannot be opened exists anyway; each message to it fails with the reason.
"""

import importlib
import logging
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final

import safetyd.notify
from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    ChannelTable,
    Limits,
    Misconfigured,
    Receipt,
    secret,
)
from safetyd.notify.message import Notice

if TYPE_CHECKING:
    from safetyd.notify.channel_config import NotificationSettings

PLUGINS: Final = "safetyd.channels"  # entry points of other distributions

log = logging.getLogger("safetyd.notify")


def _found() -> Iterator[tuple[str, type[ChannelTable]]]:
    """Yield the folders here that are channels, and the channels that other packages bring."""
    for folder in pkgutil.iter_modules(safetyd.notify.__path__):
        if folder.ispkg:
            package = importlib.import_module(f"safetyd.notify.{folder.name}")
            if any(module.name == "channel" for module in pkgutil.iter_modules(package.__path__)):
                yield folder.name, importlib.import_module(f"{package.__name__}.channel").CHANNEL
    for plugin in entry_points(group=PLUGINS):
        yield plugin.name, plugin.load()


# Every channel by the name of its table, in the order of preference.
CHANNELS: Final[Mapping[str, type[ChannelTable]]] = dict(
    sorted(_found(), key=lambda found: (found[1].rank, found[0]))
)


class BrokenChannel(Channel):
    """Stands for a channel that cannot be opened."""

    limits = Limits(deadline_s=1.0)

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why

    async def send(self, notice: Notice) -> Receipt:  # noqa: ARG002 - it goes nowhere
        raise Misconfigured(self.why)


async def open_channels(
    names: Iterable[str], settings: "NotificationSettings", context: ChannelContext
) -> dict[str, Channel]:
    """Return every channel by its name."""
    tables = dict(settings.channels())
    return {name: await _open(name, tables[name], context) for name in names}


async def _open(name: str, table: ChannelTable, context: ChannelContext) -> Channel:
    try:
        return await table.open(name, context)
    except Misconfigured as exc:
        log.warning("channel %s cannot be used: %s", name, exc)
        return BrokenChannel(name, str(exc))


def missing_secrets(
    settings: "NotificationSettings", directories: Iterable[Path]
) -> Iterator[tuple[str, str]]:
    """Yield the setting and the reason, for each file that a channel needs and cannot use."""
    looked_in = tuple(directories)
    for key, table in settings.tables():
        for setting in table.secret_files if table.enabled else ():
            file = getattr(table, setting)
            try:
                _ = secret(file, looked_in) if file else ""
            except Misconfigured as exc:
                yield f"notifications.{key}.{setting}", str(exc)
