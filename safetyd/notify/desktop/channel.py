"""Settings of desktop notifications."""

from typing import ClassVar

from safetyd.core.recipients import ChannelKind
from safetyd.host import session_bus
from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    ChannelTable,
    Hints,
    Limits,
    Preview,
)
from safetyd.notify.message import Notice


class DesktopConfig(ChannelTable, frozen=True, kw_only=True):
    enabled: bool = True
    helper: bool = False  # `safetyd desktop` shows them in the operator's session

    kind: ClassVar[ChannelKind] = "desktop"
    rank: ClassVar[int] = 10
    hints: ClassVar[Hints] = (("helper", "run `safetyd desktop` in the recipient's session"),)

    @property
    def usable(self) -> bool:
        return self.enabled and (self.helper or bool(session_bus()))

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        from safetyd.notify.desktop.desktop_buttons import DesktopButtons  # noqa: PLC0415
        from safetyd.notify.desktop.desktop_channel import Desktop, DesktopHelpers  # noqa: PLC0415

        if self.helper:
            return DesktopHelpers(context.publish)
        return Desktop(session_bus(), DesktopButtons(context.mailbox, context.waits))

    def limits(self) -> Limits:
        from safetyd.notify.desktop.desktop_channel import LIMITS  # noqa: PLC0415 - see above

        return LIMITS

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.desktop.desktop_content import rendered  # noqa: PLC0415

        shown = rendered(notice)
        text = f"{shown.summary}\n{shown.body}\n[{'] ['.join(shown.actions)}]"
        size = f"{len(shown.summary)} and {len(shown.body)} characters"
        return Preview(subject=shown.summary, text=text, size=size)


CHANNEL = DesktopConfig
