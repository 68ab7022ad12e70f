"""One connection to a D-Bus session bus, and the notifications sent over it.

Only this module imports dbus-fast, which takes a tenth of a second. Import it only when a desktop
is needed.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from typing import Any, Final

import anyio
from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from safetyd.core.messages.proposal import Urgency
from safetyd.notify.desktop.desktop_bus import CLOSE_S, DesktopNotification, Gone, NotShown, Pressed

MOST: Final = 256  # notifications whose buttons work; older ones are forgotten
MOST_UNANSWERED: Final = 16  # with more unanswered calls, the connection is considered broken

NAME: Final = "org.freedesktop.Notifications"
PATH: Final = "/org/freedesktop/Notifications"
BUS: Final = "org.freedesktop.DBus"
_MATCHES: Final = (
    f"type='signal',sender='{NAME}',interface='{NAME}'",
    f"type='signal',sender='{BUS}',member='NameOwnerChanged',arg0='{NAME}'",
)
_URGENCIES: Final[Mapping[Urgency, int]] = {"low": 0, "normal": 1, "high": 2}
_NOBODY: Final = frozenset({f"{BUS}.Error.ServiceUnknown", f"{BUS}.Error.NameHasNoOwner"})


class _Bus(MessageBus):
    """A connection that fails without warnings from asyncio.

    When a write fails, the library leaves two futures with exceptions that nothing retrieves.
    """

    def send(self, msg: Message) -> "asyncio.Future[None]":  # type: ignore[override]
        try:
            return super().send(msg)
        except Exception:
            written = None if self._writer is None else self._writer.fut
            if written is not None and written.done():
                written.exception()
            raise

    def _reply_handler(
        self, future: "asyncio.Future[Message]", reply: Any | None, err: Exception | None
    ) -> None:
        super()._reply_handler(future, reply, err)
        if err and not future.cancelled():
            future.exception()


async def dial(address: str, pressed: Pressed, gone: Gone) -> "SessionBus":
    """Connect, and listen for pressed buttons."""
    line = SessionBus(await _Bus(address).connect(), pressed, gone)
    try:
        await line.listen()
    except BaseException:
        line.hang_up()
        raise
    return line


class SessionBus:
    """One connection to a session's bus, and the notifications shown over it."""

    def __init__(self, bus: MessageBus, pressed: Pressed, gone: Gone) -> None:
        self._bus = bus
        self._pressed = pressed
        self._gone = gone
        self._owner = ""  # the current notification service; signals of others are ignored
        self._markup: bool | None = None  # True if the service renders markup; None: unknown
        self._numbers: dict[str, int] = {}  # numbers of notifications by key, oldest first
        self._asked: dict[int, str | None] = {}  # keys by call serial; None: to be closed
        bus.add_message_handler(self._heard)

    @property
    def alive(self) -> bool:
        return self._bus.connected

    @property
    def used(self) -> bool:
        """True if it shows notifications. Closing the connection would disable their buttons."""
        return bool(self._asked or self._numbers)

    async def listen(self) -> None:
        for rule in _MATCHES:
            await self._call(_message(BUS, "/org/freedesktop/DBus", "AddMatch", "s", [rule]))

    async def show(self, notification: DesktopNotification) -> int:
        if len(self._asked) >= MOST_UNANSWERED:
            raise ConnectionError(f"the desktop has not confirmed {len(self._asked)} notifications")
        if self._markup is None:
            known = await self._call(_message(NAME, PATH, "GetCapabilities"))
            self._owner, self._markup = known.sender, "body-markup" in known.body[0]
        body = escape(notification.body, quote=False) if self._markup else notification.body
        replaced = self._numbers.get(notification.key, 0)
        message = _notify(notification._replace(body=body), replaced)
        message.serial = self._bus.next_serial()
        self._asked[message.serial] = notification.key
        number: int = (await self._call(message)).body[0]
        return number

    async def hide(self, key: str) -> None:
        for serial in [serial for serial, asked in self._asked.items() if asked == key]:
            self._asked[serial] = None
        number = self._numbers.pop(key, None)
        if number is not None:
            await self._call(_close(number))

    def hang_up(self) -> None:
        self._bus.disconnect()

    async def close(self) -> None:
        """Disconnect, and wait until the socket is closed."""
        self.hang_up()
        with anyio.move_on_after(CLOSE_S, shield=True), suppress(Exception):
            await self._bus.wait_for_disconnect()  # type: ignore[no-untyped-call]

    async def _call(self, message: Message) -> Message:
        reply = await self._bus.call(message)
        if reply.error_name in _NOBODY:
            raise NotShown(f"no notification service runs in this session ({NAME} is missing)")
        if reply.error_name:
            raise NotShown(f"{reply.error_name}: {' '.join(map(str, reply.body))}")
        return reply

    def _heard(self, message: Message) -> None:
        if message.message_type is not MessageType.SIGNAL:
            self._settle(message)
        elif message.sender == BUS and message.member == "NameOwnerChanged":
            self._moved(message.body[2])
        elif message.sender == self._owner and message.interface == NAME:
            self._signal(message.member, message.body)

    def _settle(self, reply: Message) -> None:
        """Record a notification that is now shown, even if the call was cancelled."""
        if reply.reply_serial not in self._asked:
            return
        key = self._asked.pop(reply.reply_serial)
        if reply.error_name:
            return
        number: int = reply.body[0]
        if key is None:
            self._bus.send(_close(number))
        else:
            self._keep(key, number)

    def _keep(self, key: str, number: int) -> None:
        before = self._numbers.pop(key, number)
        if before != number:
            self._bus.send(_close(before))
        self._numbers[key] = number
        if len(self._numbers) > MOST:
            del self._numbers[next(iter(self._numbers))]

    def _moved(self, owner: str) -> None:
        # A new service starts numbering at one, so our numbers are no longer valid.
        self._owner, self._markup = owner, None
        lost, self._numbers = self._numbers, {}
        for key in lost:
            self._gone(key)

    def _signal(self, member: str | None, body: list[Any]) -> None:
        key = next((key for key, number in self._numbers.items() if number == body[0]), None)
        if key is None:
            return
        if member == "ActionInvoked":
            self._pressed(key, body[1])
        elif member == "NotificationClosed":
            del self._numbers[key]
            self._gone(key)


def _notify(notification: DesktopNotification, replaced: int) -> Message:
    actions = [word for action in notification.actions for word in action]
    hints = {"urgency": Variant("y", _URGENCIES[notification.urgency])}
    expire_ms = 0 if notification.stays else -1
    shown = [
        "safetyd",
        replaced,
        "",
        notification.summary,
        notification.body,
        actions,
        hints,
        expire_ms,
    ]
    return _message(NAME, PATH, "Notify", "susssasa{sv}i", shown)


def _close(number: int) -> Message:
    return _message(NAME, PATH, "CloseNotification", "u", [number])


def _message(
    name: str, path: str, member: str, signature: str = "", body: list[Any] | None = None
) -> Message:
    return Message(
        destination=name,
        path=path,
        interface=name,
        member=member,
        signature=signature,
        body=body or [],
    )
