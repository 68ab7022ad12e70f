"""Who is told and where: the operator's tables as the outbox and the channels need them.

Without `[[recipients]]` there is one called `operator`, and others after them for further addresses
in `to`. A single recipient has every channel. Of several, each has their own addresses, and what is
nobody's own (a desktop, a webhook, a chat) is told to `everyone`.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from safetyd.core.events.notification_events import (
    ChannelKind,
    QuietHours,
    Recipient,
    TellingConfig,
)
from safetyd.notify.channel_config import NotificationsConfig, RecipientConfig, To
from safetyd.notify.message import Privacy

EVERYONE: Final = "everyone"
OPERATOR: Final = "operator"
OWN: Final = ("email", "sms")  # channels that need an address of the recipient

KINDS: Final[dict[str, ChannelKind]] = {
    "desktop": "desktop",
    "email": "email",
    "sms": "sms",
    "webhook": "webhook",
    "ntfy": "chat",
}


class Tables(NamedTuple):
    """The two parts of the configuration that say who is told."""

    notifications: NotificationsConfig
    recipients: tuple[RecipientConfig, ...]


def persons(tables: Tables) -> tuple[RecipientConfig, ...]:
    """Return everybody who has an address, as configured or made of the channels' `to`."""
    if tables.recipients:
        return tables.recipients
    settings = tables.notifications
    pairs = zip_longest(_list(settings.email.to), _list(settings.sms.to), fillvalue="")
    found = tuple(
        RecipientConfig(name=OPERATOR if not n else f"{OPERATOR}-{n + 1}", email=email, sms=sms)
        for n, (email, sms) in enumerate(pairs)
    )
    return found or (RecipientConfig(name=OPERATOR),)


def address_of(tables: Tables, recipient: str, channel: str) -> str:
    """Return where a recipient is reached; empty for a channel that knows by itself."""
    for person in persons(tables):
        if person.name == recipient:
            return {"email": person.email, "sms": person.sms}.get(channel, "")
    return ""


def privacy_of(tables: Tables, channel: str) -> Privacy:
    """Return how much may be said on a channel."""
    settings = tables.notifications
    known: dict[str, Privacy] = {chat.name: chat.privacy for chat in settings.apprise}
    known |= {
        "desktop": settings.desktop.privacy,
        "email": settings.email.privacy,
        "sms": settings.sms.privacy,
        "webhook": settings.webhook.privacy,
        "ntfy": settings.ntfy.privacy,
    }
    return known[channel]


def channels(settings: NotificationsConfig, *, desktop: bool) -> dict[str, ChannelKind]:
    """Return every channel that is configured, in the order of preference.

    `desktop` says whether there is a desktop to be reached.
    """
    enabled = {
        "desktop": settings.desktop.enabled and (desktop or settings.desktop.helper),
        "email": settings.email.enabled,
        "sms": settings.sms.enabled,
        "webhook": settings.webhook.enabled,
        "ntfy": settings.ntfy.enabled,
        **dict.fromkeys((chat.name for chat in settings.apprise), True),
    }
    names = dict.fromkeys((*settings.order, *enabled))
    return {name: KINDS.get(name, "chat") for name in names if enabled.get(name)}


def telling(tables: Tables, *, zone: str, desktop: bool) -> TellingConfig:
    """Return what the outbox goes by; `zone` is the system's, for who names none."""
    settings = tables.notifications
    known = channels(settings, desktop=desktop)
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
    shared = tuple(name for name in known if name not in OWN)
    alone = len(people) == 1
    for person in people:
        own = tuple(c for c in known if c in OWN and address_of(tables, person.name, c))
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


def _list(to: To) -> tuple[str, ...]:
    return ((to,) if to else ()) if isinstance(to, str) else to
