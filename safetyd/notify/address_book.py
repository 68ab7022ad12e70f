"""Recipients and their channels, made from the configuration for the outbox and the channels.

Without `[[recipients]]` there is one recipient called `operator`, and one more for each further
address in `to`. A single recipient uses every channel. If there are several, each uses the channels
on which they have an address; shared channels (desktop, webhook, chat) belong to `everyone`. This
module also checks the tables for mistakes that their types do not exclude.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Final, NamedTuple
from zoneinfo import available_timezones

from msgspec import convert
from msgspec.structs import replace

from safetyd.core.recipients import ChannelKind, QuietHours, Recipient, TellingConfig
from safetyd.notify.channel import ChannelTable, PersonalTable, Problems
from safetyd.notify.channel_config import (
    CHANNELS,
    PERSONAL,
    NotificationsConfig,
    RecipientConfig,
)

EVERYONE: Final = "everyone"
OPERATOR: Final = "operator"


class Tables(NamedTuple):
    """The two parts of the configuration that define recipients."""

    notifications: NotificationsConfig
    recipients: tuple[RecipientConfig, ...]


def persons(tables: Tables) -> tuple[RecipientConfig, ...]:
    """Return the configured recipients, or recipients made from the channels' `to`."""
    if tables.recipients:
        return tables.recipients
    own = dict(_personal(tables.notifications))
    rows = zip_longest(*(table.addresses for table in own.values()), fillvalue="")
    found = tuple(
        convert({"name": f"{OPERATOR}-{n}" if n > 1 else OPERATOR, **address}, RecipientConfig)
        for n, address in enumerate((dict(zip(own, row, strict=True)) for row in rows), 1)
    )
    return found or (RecipientConfig(name=OPERATOR),)


def _personal(settings: NotificationsConfig) -> Iterator[tuple[str, PersonalTable]]:
    for name, table in settings.channels():
        if isinstance(table, PersonalTable):
            yield name, table


def report_readers(tables: Tables) -> tuple[str, ...]:
    """Return the recipients of the daily report."""
    usual = tables.notifications.daily_report
    named = tuple(
        person.name
        for person in persons(tables)
        if (usual if person.daily_report is None else person.daily_report)
    )
    return (*named, EVERYONE) if usual else named


def address_of(tables: Tables, recipient: str, channel: str) -> str:
    """Return the address of a recipient on a channel; empty on shared channels."""
    found = (person for person in persons(tables) if person.name == recipient)
    return next((person.address(channel) for person in found), "")


def addresses(tables: Tables) -> dict[str, tuple[str, ...]]:
    """Return the personal addresses of every recipient."""
    return {
        person.name: tuple(filter(None, map(person.address, PERSONAL)))
        for person in persons(tables)
    }


def recipient_at(tables: Tables, channel: str, address: str) -> str:
    """Return the recipient with this address, or an empty string."""
    found = (person.name for person in persons(tables) if person.address(channel) == address)
    return next(found, "") if address else ""


def channels(settings: NotificationsConfig) -> dict[str, ChannelKind]:
    """Return the usable channels, in the order of preference."""
    usable = {name: table.kind for name, table in settings.channels() if table.usable}
    order = dict.fromkeys((*settings.order, *usable))
    return {name: usable[name] for name in order if name in usable}


def telling(tables: Tables, *, zone: str) -> TellingConfig:
    """Return the notification settings. Recipients without a time zone use `zone`."""
    settings = tables.notifications
    known = channels(settings)
    return TellingConfig(
        recipients=tuple(_recipients(tables, tuple(known), zone)),
        channels=known,
        strategy=settings.strategy,
        min_urgency=settings.min_urgency,
        batch_interval_s=settings.batch_interval_seconds,
        batch_mode=settings.batch_mode,
        alert_batch_s=settings.alert_batch_seconds,
        summaries=settings.summaries,
        quiet_bypass=settings.quiet_bypass,
    )


def _recipients(tables: Tables, known: Sequence[str], zone: str) -> Iterator[Recipient]:
    people = persons(tables)
    shared = tuple(name for name in known if name not in PERSONAL)
    alone = len(people) == 1
    for person in people:
        own = tuple(c for c in known if c in PERSONAL and address_of(tables, person.name, c))
        mine = tuple(c for c in known if c in own or (alone and c in shared))
        if mine:
            yield Recipient(
                name=person.name,
                channels=mine,
                quiet=_quiet(tables.notifications, person, zone),
                agents=person.agents,
                backup=person.backup,
            )
    if shared and not alone:
        quiet = _quiet(tables.notifications, RecipientConfig(name=EVERYONE), zone)
        yield Recipient(name=EVERYONE, channels=shared, quiet=quiet)


def _quiet(settings: NotificationsConfig, person: RecipientConfig, zone: str) -> QuietHours:
    days = settings.quiet_days if person.quiet_days is None else person.quiet_days
    return QuietHours(
        start=person.quiet_start or settings.quiet_start,
        end=person.quiet_end or settings.quiet_end,
        days=days,
        timezone=person.timezone or settings.timezone or zone,
    )


def problems(tables: Tables) -> Problems:
    settings = tables.notifications
    for key, table in settings.tables():
        if table.enabled:
            yield from (
                (f"notifications.{key}.{setting}", why) for setting, why in table.problems()
            )
    yield from _names(settings)
    yield from _addresses(tables)
    yield from _recipient_problems(tables.recipients)


def warnings(tables: Tables) -> Iterator[str]:
    """Yield settings that are valid but probably not intended."""
    settings = tables.notifications
    if settings.quiet_start == settings.quiet_end:
        yield "notifications.quiet_start equals quiet_end, so there are no quiet hours"
    for key, table in settings.tables():
        if not table.enabled and not table.repeated and _filled_in(table):
            yield f"[notifications.{key}] is not used because enabled is not true"
    for name, own in _personal(settings):
        if own.to and tables.recipients:
            yield f"notifications.{name}.to is not used: [[recipients]] have their own addresses"


def _filled_in(table: ChannelTable) -> bool:
    default = type(table)()
    return replace(table, enabled=default.enabled) != default


def _names(settings: NotificationsConfig) -> Problems:
    tables = [name for name, table in CHANNELS.items() if not table.repeated]
    several = {key: getattr(settings, key) for key, table in CHANNELS.items() if table.repeated}
    names = Counter((*tables, *(each.name for each in chain(*several.values()))))
    for key, each in several.items():
        for name in dict.fromkeys(one.name for one in each):
            if names[name] > 1:
                yield f"notifications.{key}", f"{name!r} is already the name of a channel"
    for name in settings.order:
        if name not in names:
            yield "notifications.order", f"{name!r} is not one of {', '.join(sorted(names))}"


def _addresses(tables: Tables) -> Problems:
    people = persons(tables)
    for channel, table in _personal(tables.notifications):
        given = [address for person in people if (address := person.address(channel))]
        if table.enabled and not given:
            whose = (
                "is missing: no [[recipients]] table has an address for this channel"
                if tables.recipients
                else "is empty"
            )
            yield f"notifications.{channel}.to", whose
        for why in filter(None, map(table.wrong_address, given)):
            yield f"notifications.{channel}.to", why


def _recipient_problems(recipients: Sequence[RecipientConfig]) -> Problems:
    names = Counter((EVERYONE, *(person.name for person in recipients)))
    zones = available_timezones() if any(person.timezone for person in recipients) else frozenset()
    for person in recipients:
        key = f"recipients.{person.name}"
        if names[person.name] > 1:
            yield key, "is already the name of another recipient"
        if person.backup and (person.backup not in names or person.backup == person.name):
            yield f"{key}.backup", f"{person.backup!r} does not name another recipient"
        if person.timezone and person.timezone not in zones:
            why = f"{person.timezone!r} is not an IANA time zone such as Europe/Berlin"
            yield f"{key}.timezone", why
