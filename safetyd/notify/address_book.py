"""Recipients and their channels, made from the configuration for the outbox and the channels.

Without `[[recipients]]` there is one recipient called `operator`, and one more for each further
address in `to`. Each person uses the channels that they list, or else those on which they have an
address. A single person also uses the desktop and ntfy. All other channels belong to `everyone`.
This module also checks the tables for mistakes that their types do not exclude.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Final, NamedTuple
from zoneinfo import available_timezones

from msgspec import convert
from msgspec.structs import replace

from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.item_facts import rank
from safetyd.core.recipients import (
    CalmConfig,
    ChannelKind,
    ChannelUse,
    Habits,
    QuietHours,
    Recipient,
    TellingConfig,
)
from safetyd.core.text.near_names import meant
from safetyd.notify.channel import ChannelTable, PersonalTable, Problems
from safetyd.notify.channel_config import (
    CHANNELS,
    PERSONAL,
    NotificationsConfig,
    OwnChannel,
    RecipientConfig,
)

EVERYONE: Final = "everyone"
OPERATOR: Final = "operator"
# A notification on a screen is soon gone.
DESKTOP_WAIT_MINUTES: Final = 10.0
_NOTICED: Final[tuple[ChannelKind, ...]] = ("sms", "chat", "desktop", "email", "webhook")


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
        calm=CalmConfig(
            patience_s=_seconds(settings.patience_minutes),
            rounds=settings.rounds,
            next_channel_s=60 * settings.next_channel_minutes,
            urgent_next_channel_s=60 * settings.urgent_next_channel_minutes,
            next_person_s=60 * settings.next_person_minutes,
            night_messages=settings.night_messages,
            on_call_night_messages=settings.on_call_night_messages,
        ),
        alert_batch_s=settings.alert_batch_seconds,
        summaries=settings.summaries,
        quiet_bypass=settings.quiet_bypass,
    )


def _recipients(tables: Tables, known: Sequence[str], zone: str) -> Iterator[Recipient]:
    people, taken = persons(tables), set[str]()
    tables_of = dict(tables.notifications.channels())
    listed = {each.name for person in people for each in person.own_channels}
    alone = len(people) == 1
    for person in people:
        mine = person.own_channels or tuple(
            OwnChannel(name=name)
            for name in known
            if address_of(tables, person.name, name)
            or (alone and not (name in PERSONAL or name in listed or tables_of[name].group))
        )
        mine = tuple(each for each in mine if each.name in known)
        taken.update(each.name for each in mine)
        if mine:
            yield _recipient(tables, person, mine, zone)
    rest = tuple(name for name in known if name not in {*PERSONAL, *taken})
    if rest:
        name = OPERATOR if alone and not taken and not tables.recipients else EVERYONE
        quiet = _quiet(tables.notifications, RecipientConfig(name=name), zone)
        yield Recipient(name=name, channels=rest, quiet=quiet, habits=Habits(shared=True))


def _recipient(
    tables: Tables, person: RecipientConfig, mine: Sequence[OwnChannel], zone: str
) -> Recipient:
    quiet = _quiet(tables.notifications, person, zone)
    kinds = channels(tables.notifications)
    uses = {
        each.name: _use(each, kinds[each.name], quiet.timezone, alone=len(mine) == 1)
        for each in mine
    }
    patience = person.patience_minutes
    return Recipient(
        name=person.name,
        channels=tuple(uses),
        quiet=quiet,
        agents=person.agents,
        backup=person.backup,
        habits=Habits(
            urgent=tuple(_urgent_first(uses, kinds, listed=bool(person.channels))),
            uses={name: use for name, use in uses.items() if use != ChannelUse()},
            patience_s=None if patience is None else _seconds(patience),
        ),
    )


def _use(own: OwnChannel, kind: ChannelKind, zone: str, *, alone: bool) -> ChannelUse:
    """Return when a person uses a channel. SMS are only for urgent requests by default."""
    usual: Urgency = "high" if kind == "sms" and not alone else "low"
    always = own.from_ == own.to
    hours = None if always else QuietHours(start=own.from_, end=own.to, timezone=zone)
    wait = own.wait_minutes
    if wait is None and kind == "desktop":
        wait = DESKTOP_WAIT_MINUTES
    return ChannelUse(
        min_urgency=own.min_urgency or usual,
        hours=hours,
        wait_s=None if wait is None else 60 * wait,
    )


def _urgent_first(
    uses: dict[str, ChannelUse], kinds: dict[str, ChannelKind], *, listed: bool
) -> list[str]:
    """Return channels in the order for urgent requests: those only for urgent requests first.

    Channels that the person did not list follow in the order of how soon they are noticed.
    """

    def place(name: str) -> tuple[int, int]:
        return -rank(uses[name].min_urgency), 0 if listed else _NOTICED.index(kinds[name])

    return sorted(uses, key=place)


def _seconds(minutes: Sequence[float]) -> tuple[float, ...]:
    return tuple(60 * each for each in minutes)


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
    yield from _own_channel_problems(tables)


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


def _own_channel_problems(tables: Tables) -> Problems:
    known = dict(tables.notifications.channels())
    for person in tables.recipients:
        key, names = f"recipients.{person.name}.channels", set[str]()
        for each in person.own_channels:
            if each.name not in known:
                yield key, f"{each.name!r} is not a channel; {meant(each.name, known)}"
            elif each.name in PERSONAL and not person.address(each.name):
                yield key, f"{person.name} has no address for {each.name!r}: add {each.name} = ..."
            elif each.name in names:
                yield key, f"{each.name!r} is listed twice"
            names.add(each.name)
