"""Show desktop notifications (freedesktop.org) over the D-Bus of a session.

The connection is opened for the first notification, and reopened if it breaks. A notification that
appears after the timeout still counts: its buttons work, and the next notification with the same
key replaces it.
"""

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.to_thread

from safetyd.core.messages.proposal import Urgency
from safetyd.notify.channel import Unavailable

if TYPE_CHECKING:  # it imports dbus-fast
    from safetyd.notify.desktop.dbus_session import SessionBus

PATIENCE_S: Final = 2.5  # less than the deadline of an attempt, so that the error can be reported
CLOSE_S: Final = 1.0
MAX_WHY_CHARS: Final = 200
DEFAULT: Final = "default"  # the action of a click on the notification itself

_LINES: Final = "safetyd.notify.desktop.dbus_session"

Pressed = Callable[[str, str], None]  # takes a notification's key and the name of an action
Gone = Callable[[str], None]


class DesktopNotification(NamedTuple):
    """The content of a notification. Each key has one notification at a time."""

    key: str
    summary: str
    body: str
    actions: tuple[tuple[str, str], ...] = ()  # names and labels
    urgency: Urgency = "normal"
    stays: bool = False  # until the user closes it


class NotShown(Exception):
    """The bus works, but its notification service is missing or returned an error."""


class DesktopBus:
    """Shows the notifications of one program in one session.

    `pressed` is called when a button is pressed, and `gone` when a notification is closed or
    expires, which is not an answer. The connection's reader calls both, so they must not block.
    """

    def __init__(self, address: str, pressed: Pressed, gone: Gone) -> None:
        self._address = address
        self._pressed = pressed
        self._gone = gone
        self._line: SessionBus | None = None
        self._dialling = anyio.Lock()

    async def show(self, notification: DesktopNotification) -> int:
        """Show a notification and return the desktop's number for it, or raise `Unavailable`."""
        try:
            with anyio.fail_after(PATIENCE_S):
                return await (await self._connected()).show(notification)
        except TimeoutError:
            if self._line is not None and not self._line.used:
                self._hang_up()
            silence = f"the desktop did not answer within {PATIENCE_S:g} s"
            raise Unavailable(silence, ambiguous=True) from None
        except NotShown as exc:
            raise Unavailable(str(exc)[:MAX_WHY_CHARS]) from exc
        except Exception as exc:  # dbus-fast passes on every error of its socket
            self._hang_up()
            why = f"the session's bus cannot be used: {str(exc) or type(exc).__name__}"
            raise Unavailable(why[:MAX_WHY_CHARS]) from exc

    async def hide(self, key: str) -> None:
        """Hide a notification, if it is shown and the connection works."""
        if self._line is None or not self._line.alive:
            return
        with anyio.move_on_after(CLOSE_S), suppress(Exception):
            await self._line.hide(key)

    async def close(self) -> None:
        """Disconnect; notifications stay, but their buttons no longer work."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _connected(self) -> "SessionBus":
        async with self._dialling:
            if self._line is None or not self._line.alive:
                # The import is slow, so it must not block the event loop.
                library = await anyio.to_thread.run_sync(importlib.import_module, _LINES)
                self._line = await library.dial(self._address, self._pressed, self._gone)
            return self._line

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.hang_up()
