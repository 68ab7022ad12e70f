"""What is wrong with the tables that say who is told, although each value has the right shape."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from safetyd.notify.address_book import EVERYONE, KINDS, Tables, persons
from safetyd.notify.channel_config import (
    EmailConfig,
    NotificationsConfig,
    NtfyConfig,
    RecipientConfig,
    SmsConfig,
    WebhookConfig,
)
from safetyd.notify.email.mail_channel import username_of

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
NEEDED: Final = "is empty; with enabled = true it is needed"

Problems = Iterator[tuple[str, str]]  # a key, and what is wrong with it


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
    yield from _recipients(tables.recipients)


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
    if email.security == "none" and email.smtp_host not in LOOPBACK:
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
    elif parts.scheme == "http" and parts.hostname not in LOOPBACK:
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


def _recipients(recipients: Sequence[RecipientConfig]) -> Problems:
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
