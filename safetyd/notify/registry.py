"""Opening every channel that is configured: secrets are read and libraries loaded here.

A channel that cannot be opened is there all the same, and says why to whoever wants to use it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread

from safetyd.host import NoSecret, read_secret
from safetyd.notify.channel import Channel, Limits, Misconfigured, Receipt
from safetyd.notify.channel_config import AppriseConfig, NotificationsConfig
from safetyd.notify.message import Notice

log = logging.getLogger("safetyd.notify")

Read = Callable[[str], str]  # a file that the configuration names


class ChannelSurroundings(NamedTuple):
    """What channels need that no table says."""

    host: str  # the name of this machine
    session_bus: str
    sms_callback: str  # where Twilio reports; empty: nowhere
    answered: Callable[[str, bool, str], None]  # a button on the desktop was pressed
    opened: Callable[[str], None] | None  # opens a page; None: nothing here can
    publish: Callable[[dict[str, object]], None]  # to helpers on desktops
    directories: tuple[Path, ...]  # where files that are named without a path are looked for


class BrokenChannel:
    """Stands for a channel that cannot be opened."""

    limits = Limits(deadline_s=1.0)

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why

    async def send(self, notice: Notice) -> Receipt:  # noqa: ARG002 - it goes nowhere
        raise Misconfigured(self.why)

    async def close(self) -> None:
        """There is nothing to close."""


async def open_channels(
    names: Iterable[str], settings: NotificationsConfig, around: ChannelSurroundings
) -> dict[str, Channel]:
    """Return every channel by its name."""
    return {name: await _open(name, settings, around) for name in names}


async def _open(name: str, settings: NotificationsConfig, around: ChannelSurroundings) -> Channel:
    chats = {chat.name: chat for chat in settings.apprise}
    try:
        if name in chats:
            return _chat(chats[name], around)
        return await _OPENERS[name](settings, around)
    except Misconfigured as exc:
        log.warning("channel %s cannot be used: %s", name, exc)
        return BrokenChannel(name, str(exc))


async def _email(settings: NotificationsConfig, around: ChannelSurroundings) -> Channel:
    from safetyd.notify.email.mail_channel import open_mail  # noqa: PLC0415 - only where it is configured

    config = settings.email
    password = secret(config.password_file, around.directories) if config.password_file else ""
    return await anyio.to_thread.run_sync(open_mail, config, password, around.host)


async def _sms(settings: NotificationsConfig, around: ChannelSurroundings) -> Channel:
    from safetyd.notify.sms.sms_channel import open_sms  # noqa: PLC0415 - only where it is configured

    token = secret(settings.sms.auth_token_file, around.directories)
    return await open_sms(settings.sms, token, callback=around.sms_callback)


async def _desktop(settings: NotificationsConfig, around: ChannelSurroundings) -> Channel:
    from safetyd.notify.desktop.desktop_channel import Desktop, DesktopHelpers  # noqa: PLC0415 - see above

    if settings.desktop.helper:
        return DesktopHelpers(around.publish)
    return Desktop(around.session_bus, around.answered, around.opened)


async def _webhook(settings: NotificationsConfig, around: ChannelSurroundings) -> Channel:
    from safetyd.notify.chat.webhook import Webhook, signing_keys  # noqa: PLC0415 - see above

    keys = signing_keys(secret(settings.webhook.secret_file, around.directories))
    return Webhook(settings.webhook, keys)


async def _ntfy(settings: NotificationsConfig, around: ChannelSurroundings) -> Channel:
    from safetyd.notify.chat.ntfy import Ntfy  # noqa: PLC0415 - see above

    file = settings.ntfy.token_file
    return Ntfy(settings.ntfy, secret(file, around.directories) if file else "")


def _chat(config: AppriseConfig, around: ChannelSurroundings) -> Channel:
    from safetyd.notify.chat.apprise_channel import Chat, addresses  # noqa: PLC0415 - see above

    return Chat(config, addresses(secret(config.url_file, around.directories)))


_OPENERS: Final[
    Mapping[str, Callable[[NotificationsConfig, ChannelSurroundings], Awaitable[Channel]]]
] = {
    "email": _email,
    "sms": _sms,
    "desktop": _desktop,
    "webhook": _webhook,
    "ntfy": _ntfy,
}


def missing_secrets(
    settings: NotificationsConfig, directories: Iterable[Path]
) -> Iterator[tuple[str, str]]:
    """Yield the setting and the reason of each file that a channel needs and that has no secret."""
    looked_in = tuple(directories)
    tables = (
        ("email.password_file", settings.email.enabled, settings.email.password_file),
        ("sms.auth_token_file", settings.sms.enabled, settings.sms.auth_token_file),
        ("webhook.secret_file", settings.webhook.enabled, settings.webhook.secret_file),
        ("ntfy.token_file", settings.ntfy.enabled, settings.ntfy.token_file),
        *((f"apprise.{chat.name}.url_file", True, chat.url_file) for chat in settings.apprise),
    )
    for setting, enabled, file in tables:
        if enabled and file:
            try:
                secret(file, looked_in)
            except Misconfigured as exc:
                yield f"notifications.{setting}", str(exc)


def secret(file: str, directories: Iterable[Path]) -> str:
    """Return what stands in a file, looked for in these directories if it has no full path."""
    try:
        return read_secret(file, directories)
    except NoSecret as exc:
        raise Misconfigured(str(exc)) from None
