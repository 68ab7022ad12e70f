"""Desktop messages, shown by the daemon itself or by the helper `safetyd desktop`."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio

from safetyd.core.events.event import Event
from safetyd.notify.channel import MINUTE_S, Channel, Limits, Rate, Receipt, Unavailable
from safetyd.notify.desktop.desktop_bus import DEFAULT, DesktopBus, DesktopNotification
from safetyd.notify.desktop.desktop_buttons import DesktopButtons
from safetyd.notify.desktop.desktop_content import (
    MAX_SUMMARY,
    DesktopNotice,
    payload,
    rendered,
)
from safetyd.notify.message import Notice
from safetyd.notify.shortening import clip

LIMITS: Final = Limits(deadline_s=3.0, rates=(Rate(10, MINUTE_S),), delays_s=(1.0, 5.0, 15.0))
HELPER_S: Final = 2.9  # less than the deadline of an attempt, so that the error can be reported
HIDE_S: Final = 1.0
MOST: Final = 256  # messages whose buttons work

NOTICE: Final = "DESKTOP_NOTICE"  # the kind of event that helpers read


class Desktop(Channel):
    """The channel of a daemon that runs in the operator's session.

    `buttons` handles the buttons: Approve and Deny answer, Review opens the page.
    """

    name = "desktop"
    limits = LIMITS

    def __init__(self, address: str, buttons: DesktopButtons) -> None:
        self._desktop_bus = DesktopBus(address, self._pressed, self._gone)
        self._buttons = buttons
        self._answered, self._opened = buttons.answered, buttons.opener
        self._shown: dict[str, DesktopNotice] = {}

    async def run(self) -> None:
        await self._buttons.run(self)

    def observe(self, events: Sequence[Event]) -> None:
        self._buttons.observe(events)

    async def send(self, notice: Notice) -> Receipt:
        shown = rendered(notice)
        keep(self._shown, shown)
        number = await self._desktop_bus.show(shown.notification(review=self._opened is not None))
        return Receipt("delivered", str(number))

    async def tell(self, request_id: str, outcome: str) -> None:
        """Replace a request with the outcome of its answer."""
        about = self._shown.pop(request_id, None)
        body = about.summary if about else ""
        await self._desktop_bus.show(
            DesktopNotification(request_id, clip(outcome, MAX_SUMMARY), body)
        )

    async def withdraw(self, request_id: str) -> None:
        """Hide a request that was answered elsewhere."""
        self._shown.pop(request_id, None)
        await self._desktop_bus.hide(request_id)

    async def close(self) -> None:
        # Hide notifications whose buttons no longer work.
        with anyio.move_on_after(HIDE_S, shield=True):
            for key in tuple(self._shown):
                await self._desktop_bus.hide(key)
        await self._desktop_bus.close()

    def _pressed(self, key: str, action: str) -> None:
        notice = self._shown.get(key)
        if notice is None:
            return
        if action == DEFAULT and self._opened is not None:
            self._opened(notice.link)
        elif action in {"approve", "deny"}:
            self._answered(notice.request_id, action == "approve", notice.digest)

    def _gone(self, key: str) -> None:
        self._shown.pop(key, None)


class DesktopHelpers(Channel):
    """The channel of a daemon outside the operator's session: helpers show its messages."""

    name = "desktop"
    limits = LIMITS

    def __init__(self, publish: Callable[[str, object], None]) -> None:
        self._publish = publish
        self._waiting: dict[str, anyio.Event] = {}  # set once a helper shows it

    async def send(self, notice: Notice) -> Receipt:
        arrived = self._waiting.setdefault(notice.delivery, anyio.Event())
        try:
            self._publish(NOTICE, payload(notice))
            with anyio.move_on_after(HELPER_S):
                await arrived.wait()
                return Receipt("delivered")
        finally:
            self._waiting.pop(notice.delivery, None)
        raise Unavailable("no desktop helper is connected; run `safetyd desktop`")

    def shown(self, delivery: str) -> None:
        # A helper's report may arrive late, and several helpers may report the same message.
        if delivery in self._waiting:
            self._waiting[delivery].set()


def keep(shown: dict[str, DesktopNotice], notice: DesktopNotice) -> None:
    """Add a message to those whose buttons work; drop the oldest if there are too many."""
    shown.pop(notice.key, None)
    shown[notice.key] = notice
    if len(shown) > MOST:
        del shown[next(iter(shown))]
