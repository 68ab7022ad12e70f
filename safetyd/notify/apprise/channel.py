"""Settings of chats that apprise knows."""

from typing import Annotated, ClassVar

from msgspec import Meta

from safetyd.notify.channel import Channel, ChannelContext, ChannelTable, Preview
from safetyd.notify.message import Notice


class AppriseConfig(ChannelTable, frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,32}$")]
    url_file: str  # an address on each line
    enabled: bool = True

    rank: ClassVar[int] = 60
    repeated: ClassVar[bool] = True
    secret_files: ClassVar[tuple[str, ...]] = ("url_file",)

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        from safetyd.notify.apprise.apprise_channel import Chat, addresses  # noqa: PLC0415

        return Chat(self, addresses(context.secret(self.url_file)))

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.apprise.apprise_channel import written  # noqa: PLC0415

        said = written(notice, marked=False)
        return Preview(text=f"{said.title}\n\n{said.body}", size=f"{len(said.body)} characters")


CHANNEL = AppriseConfig
