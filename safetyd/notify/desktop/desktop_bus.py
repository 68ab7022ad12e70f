"""What a desktop shows: the notifications of freedesktop.org, over the D-Bus of a session.

The connection is made when something is to be shown, and made anew when it is no good. What
comes up too late, since whoever shows it stood still, is ours all the same: its buttons work,
and another with the same key takes its place.
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

PATIENCE_S: Final = 2.5  # less than a try has, so that what is wrong can be said
CLOSE_S: Final = 1.0
MAX_WHY_CHARS: Final = 200
DEFAULT: Final = "default"  # the action of a click on the notification itself

_LINES: Final = "safetyd.notify.desktop.dbus_session"

Pressed = Callable[[str, str], None]  # a notification's key and the name of an action
Gone = Callable[[str], None]


class DesktopNotification(NamedTuple):
    """What is shown. There is one notification of a key at a time."""

    key: str
    summary: str
    body: str
    actions: tuple[tuple[str, str], ...] = ()  # names and labels
    urgency: Urgency = "normal"
    stays: bool = False  # until somebody closes it


class NotShown(Exception):
    """There is a bus, but its notification service is not there or says no."""


class DesktopBus:
    """What one program shows in one session.

    `pressed` hears of buttons, `gone` of those that were closed or expired, which is no answer.
    Both are called from the reading end of the connection and must not wait.
    """

    def __init__(self, address: str, pressed: Pressed, gone: Gone) -> None:
        self._address = address
        self._pressed = pressed
        self._gone = gone
        self._line: SessionBus | None = None
        self._dialling = anyio.Lock()

    async def show(self, notification: DesktopNotification) -> int:
        """Return the desktop's number of it once it is up, else raise `Unavailable`."""
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
        except Exception as exc:  # dbus-fast passes on whatever its socket raised
            self._hang_up()
            why = f"the session's bus cannot be used: {str(exc) or type(exc).__name__}"
            raise Unavailable(why[:MAX_WHY_CHARS]) from exc

    async def hide(self, key: str) -> None:
        """Take a notification away, if it is there and somebody listens."""
        if self._line is None or not self._line.alive:
            return
        with anyio.move_on_after(CLOSE_S), suppress(Exception):
            await self._line.hide(key)

    async def close(self) -> None:
        """Hang up; what is shown stays, without effect."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    async def _connected(self) -> "SessionBus":
        async with self._dialling:
            if self._line is None or not self._line.alive:
                # The import takes time, for which nothing else should stand still.
                library = await anyio.to_thread.run_sync(importlib.import_module, _LINES)
                self._line = await library.dial(self._address, self._pressed, self._gone)
            return self._line

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.hang_up()
