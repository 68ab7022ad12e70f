"""Who is told and where: the operator's tables as the outbox and the channels need them.

Without `[[recipients]]` there is one called `operator`, and others after them for further addresses
in `to`. A single recipient has every channel. Of several, each has their own addresses, and what is
nobody's own (a desktop, a webhook, a chat) is told to `everyone`. What is wrong with tables whose
values have the right shape is said here too.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from safetyd.core.recipients import ChannelKind, QuietHours, Recipient, TellingConfig
from safetyd.host import is_this_machine
from safetyd.notify.channel_config import (
    EmailConfig,
    NotificationsConfig,
    NtfyConfig,
    RecipientConfig,
    SmsConfig,
    To,
    WebhookConfig,
)
from safetyd.notify.email.mail_channel import username_of
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
NEEDED: Final = "is empty; with enabled = true it is needed"
Problems = Iterator[tuple[str, str]]  # a key, and what is wrong with it


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


def report_readers(tables: Tables) -> tuple[str, ...]:
    """Return who wants the daily report."""
    usual = tables.notifications.daily_report
    named = tuple(
        person.name
        for person in persons(tables)
        if (usual if person.daily_report is None else person.daily_report)
    )
    return (*named, EVERYONE) if usual else named


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


def problems(tables: Tables) -> Problems:
    settings = tables.notifications
    for name, found in (
        ("email", _email(settings.email)),
        ("sms", _sms(settings.sms)),
        ("webhook", _webhook(settings.webhook)),
        ("ntfy", _ntfy(settings.ntfy)),
    ):
        if getattr(settings, name).enabled:
            yield from ((f"notifications.{name}.{key}", why) for key, why in found)
    yield from _names(settings)
    yield from _addresses(tables)
    yield from _recipient_problems(tables.recipients)


def warnings(tables: Tables) -> Iterator[str]:
    """Yield what is legal and probably not meant."""
    settings = tables.notifications
    if settings.quiet_start == settings.quiet_end:
        yield "notifications.quiet_start equals quiet_end, so there are no quiet hours"
    for name in ("email", "sms", "webhook", "ntfy"):
        table = getattr(settings, name)
        if not table.enabled and table != type(table)():
            yield f"[notifications.{name}] is filled in, but enabled is not true: it is not used"
    for name, to in (("email", settings.email.to), ("sms", settings.sms.to)):
        if to and tables.recipients:
            yield f"notifications.{name}.to is not used: [[recipients]] have addresses of their own"


def _email(email: EmailConfig) -> Problems:
    if not email.from_:
        yield "from", NEEDED
    if not email.smtp_host and email.provider == "smtp":
        yield "smtp_host", NEEDED
    if email.smtp_host.count(":") == 1:
        yield "smtp_host", f"is {email.smtp_host!r}; the port belongs into smtp_port"
    if email.security == "none" and not is_this_machine(email.smtp_host):
        yield "security", 'is "none"; without encryption mail goes to this machine only'
    if username_of(email) and not email.password_file:
        yield "password_file", "is empty; who logs in needs one"


def _sms(sms: SmsConfig) -> Problems:
    needed = {
        "from": sms.from_,
        "account_sid": sms.account_sid,
        "auth_token_file": sms.auth_token_file,
    }
    yield from ((name, NEEDED) for name, value in needed.items() if not value)
    if sms.api_url:
        yield from (("api_url", why) for _, why in _url(sms.api_url))


def _webhook(webhook: WebhookConfig) -> Problems:
    yield from _url(webhook.url)
    if not webhook.secret_file:
        yield "secret_file", NEEDED


def _ntfy(ntfy: NtfyConfig) -> Problems:
    yield from _url(ntfy.url)


def _url(url: str) -> Problems:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    # What comes after the host may be a secret, and is not repeated.
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        yield "url", "must be an address that begins with https://"
    elif parts.scheme == "http" and not is_this_machine(parts.hostname):
        yield "url", "begins with http://; without encryption only this machine may be told"


def _names(settings: NotificationsConfig) -> Problems:
    names = Counter((*KINDS, *(chat.name for chat in settings.apprise)))
    for name, times in names.items():
        if times > 1:
            yield "notifications.apprise", f"{name!r} is already the name of a channel"
    for name in settings.order:
        if name not in names:
            yield "notifications.order", f"{name!r} is not one of {', '.join(sorted(names))}"


def _addresses(tables: Tables) -> Problems:
    settings, people = tables.notifications, persons(tables)
    for channel, enabled in (("email", settings.email.enabled), ("sms", settings.sms.enabled)):
        if enabled and not any(getattr(person, channel) for person in people):
            whose = "no [[recipients]] has an address" if tables.recipients else "is empty"
            yield f"notifications.{channel}.to", whose
    for person in people:
        if person.email and not _is_mail_address(person.email):
            yield "notifications.email.to", f"{person.email!r} is not a mail address"
        if person.sms and not (person.sms.startswith("+") and person.sms[1:].isdigit()):
            yield "notifications.sms.to", f"{person.sms!r} is not a number such as +15550100"


def _is_mail_address(address: str) -> bool:
    return "@" in address and address.isascii() and address.isprintable() and " " not in address


def _recipient_problems(recipients: Sequence[RecipientConfig]) -> Problems:
    names = Counter((EVERYONE, *(person.name for person in recipients)))
    zones = available_timezones() if any(person.timezone for person in recipients) else frozenset()
    for person in recipients:
        key = f"recipients.{person.name}"
        if names[person.name] > 1:
            yield key, "is the name of somebody else already"
        if person.backup and (person.backup not in names or person.backup == person.name):
            yield f"{key}.backup", f"{person.backup!r} is not another recipient"
        if person.timezone and person.timezone not in zones:
            yield f"{key}.timezone", f"{person.timezone!r} is not an IANA name; Europe/Berlin is"
