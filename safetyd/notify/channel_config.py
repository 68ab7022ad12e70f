"""Notification settings: shared settings, a table for each channel, and recipients.

A folder of `notify` with a `channel.py` is a channel. Another distribution can add a channel with
an entry point.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

import safetyd.notify
from safetyd.core.messages.proposal import Urgency
from safetyd.core.recipients import (
    BatchMode,
    CalmConfig,
    Day,
    QuietHours,
    Strategy,
    Summaries,
    TellingConfig,
    TimeOfDay,
)
from safetyd.notify.channel import ChannelTable, Misconfigured, PersonalTable, Problems, secret

PLUGINS: Final = "safetyd.channels"  # the group of entry points for channels in other packages
Minutes = Annotated[float, Meta(ge=0, le=10_080)]
Messages = Annotated[int, Meta(ge=1, le=1_000)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
AnyTable = TypeVar("AnyTable", bound=ChannelTable)

# The defaults are defined where the rules use them.
_USUAL: Final = TellingConfig()
_CALM: Final = CalmConfig()
_NIGHT: Final = QuietHours()


def _found() -> Iterator[tuple[str, type[ChannelTable]]]:
    """Yield the channels in this package, and those of other distributions."""
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
RANKED: Final = 50  # channels with a lower rank are in the default order
PERSONAL: Final[Mapping[str, type[PersonalTable]]] = {
    name: table for name, table in CHANNELS.items() if issubclass(table, PersonalTable)
}


class NotificationSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: Strategy = _USUAL.strategy
    order: tuple[str, ...] = tuple(n for n, table in CHANNELS.items() if table.rank < RANKED)
    min_urgency: Urgency = _USUAL.min_urgency
    batch_interval_seconds: Seconds = _USUAL.batch_interval_s
    batch_mode: BatchMode = _USUAL.batch_mode
    patience_minutes: tuple[Minutes, ...] = tuple(s / 60 for s in _CALM.patience_s)
    rounds: tuple[TimeOfDay, ...] = _CALM.rounds
    next_channel_minutes: Minutes = _CALM.next_channel_s / 60
    urgent_next_channel_minutes: Minutes = _CALM.urgent_next_channel_s / 60
    next_person_minutes: Minutes = _CALM.next_person_s / 60
    night_messages: Messages = _CALM.night_messages
    on_call_night_messages: Messages = _CALM.on_call_night_messages
    alert_batch_seconds: Seconds = _USUAL.alert_batch_s
    summaries: Summaries = "review"  # older journals have all summaries
    daily_report: bool = False  # the default for recipients without this setting
    report_at: TimeOfDay = "07:00"  # in `timezone`
    quiet_start: TimeOfDay = _NIGHT.start
    quiet_end: TimeOfDay = _NIGHT.end
    quiet_days: tuple[Day, ...] = _NIGHT.days
    quiet_bypass: Literal["high", "none"] = _USUAL.quiet_bypass
    timezone: str = ""  # an IANA name; empty: the system's

    def tables(self) -> Iterator[tuple[str, ChannelTable]]:
        """Yield each channel's table with its key in the order of rank, including unused ones."""
        for key, table in CHANNELS.items():
            if table.repeated:
                yield from ((f"{key}.{each.name}", each) for each in getattr(self, key))
            else:
                yield key, getattr(self, key)

    def channels(self) -> Iterator[tuple[str, ChannelTable]]:
        """Yield each channel's table with the channel's name."""
        yield from ((key.rpartition(".")[2], table) for key, table in self.tables())

    def of(self, kind: type[AnyTable]) -> AnyTable:
        """Return the table of one channel."""
        return next(table for _, table in self.channels() if isinstance(table, kind))

    def missing_packages(self) -> Problems:
        """Yield each enabled channel whose package is not installed, and how to install it."""
        for key, table in self.tables():
            if table.enabled and table.needs and not table.needs.is_installed():
                yield f"notifications.{key}", table.needs.missing

    def missing_secrets(self, directories: Iterable[Path]) -> Problems:
        """Yield each setting whose secret file cannot be used, and the reason."""
        looked_in = tuple(directories)
        for key, table in self.tables():
            for setting in table.secret_files if table.enabled else ():
                if file := getattr(table, setting):
                    try:
                        secret(file, looked_in)
                    except Misconfigured as exc:
                        yield f"notifications.{key}.{setting}", str(exc)


class OwnChannel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One channel in `channels` of a `[[recipients]]` table, if it has settings."""

    name: str
    min_urgency: Urgency | None = None  # None: high for SMS, if there is another channel
    from_: TimeOfDay = msgspec.field(name="from", default="00:00")
    to: TimeOfDay = "00:00"  # if both are equal, it is used at all times
    wait_minutes: Minutes | None = None  # until the next channel follows


class RecipientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[recipients]]` table, which also has an address for each personal channel."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    timezone: str = ""
    channels: tuple[str | OwnChannel, ...] = ()  # empty: every channel with an address
    patience_minutes: tuple[Minutes, ...] | None = None
    daily_report: bool | None = None
    quiet_start: TimeOfDay | None = None
    quiet_end: TimeOfDay | None = None
    quiet_days: tuple[Day, ...] | None = None
    agents: tuple[str, ...] = ("*",)
    backup: str = ""
    wake_for: tuple[str, ...] = ()

    @property
    def own_channels(self) -> tuple[OwnChannel, ...]:
        """The listed channels in order of preference."""
        given = self.channels
        return tuple(OwnChannel(name=each) if isinstance(each, str) else each for each in given)

    def address(self, channel: str) -> str:
        """Return the address on a channel; empty if there is none."""
        return str(getattr(self, channel)) if channel in PERSONAL else ""


if TYPE_CHECKING:
    NotificationsConfig = NotificationSettings
    RecipientConfig = RecipientSettings
else:
    _STRICT: Final = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True}
    NotificationsConfig = msgspec.defstruct(
        "NotificationsConfig",
        [
            (key, tuple[table, ...], ()) if table.repeated else (key, table, table())
            for key, table in CHANNELS.items()
        ],
        bases=(NotificationSettings,),
        module=__name__,
        **_STRICT,
    )
    RecipientConfig = msgspec.defstruct(
        "RecipientConfig",
        [(key, str, "") for key in PERSONAL],
        bases=(RecipientSettings,),
        module=__name__,
        **_STRICT,
    )
