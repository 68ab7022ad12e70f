"""Settings of webhooks."""

from typing import ClassVar

import msgspec

from safetyd.core.recipients import ChannelKind
from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    ChannelTable,
    Preview,
    Problems,
    needed,
    url_problems,
)
from safetyd.notify.message import Notice


class WebhookConfig(ChannelTable, frozen=True, kw_only=True):
    url: str = ""
    secret_file: str = ""  # a key on each line; every key signs, so that keys can be rotated
    include_links: bool = False

    kind: ClassVar[ChannelKind] = "webhook"
    rank: ClassVar[int] = 40
    secret_files: ClassVar[tuple[str, ...]] = ("secret_file",)

    def problems(self) -> Problems:
        yield from url_problems("url", self.url)
        yield from needed(secret_file=self.secret_file)

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        from safetyd.notify.webhook.webhook_channel import Webhook, signing_keys  # noqa: PLC0415

        return Webhook(self, signing_keys(context.secret(self.secret_file)))

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.webhook.webhook_channel import document  # noqa: PLC0415

        body = document(notice, links=self.include_links)
        text = msgspec.json.format(body, indent=2).decode()
        return Preview(text=text, size=f"{len(body)} bytes")


CHANNEL = WebhookConfig
