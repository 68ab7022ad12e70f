"""Settings of ntfy."""

from typing import ClassVar

from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    ChannelTable,
    Preview,
    Problems,
    url_problems,
)
from safetyd.notify.message import Notice


class NtfyConfig(ChannelTable, frozen=True, kw_only=True):
    url: str = ""  # of the server and topic
    token_file: str = ""
    include_code: bool = False  # everyone who reads the topic could approve

    secret_files: ClassVar[tuple[str, ...]] = ("token_file",)

    @property
    def codes(self) -> bool:
        return self.include_code

    def problems(self) -> Problems:
        yield from url_problems("url", self.url)

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        from safetyd.notify.ntfy.ntfy_channel import Ntfy  # noqa: PLC0415 - only if configured

        return Ntfy(self, context.secret(self.token_file))

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.ntfy.ntfy_channel import publication  # noqa: PLC0415 - see above

        message = publication(notice, "topic")
        text = f"{message.title}\n\n{message.message}"
        return Preview(text=text, size=f"{len(message.message.encode())} bytes")


CHANNEL = NtfyConfig
