"""What a channel would send, to be looked at before anything is sent."""

import msgspec

from safetyd.notify.channel_config import NotificationsConfig
from safetyd.notify.chat.apprise_channel import written
from safetyd.notify.chat.ntfy import publication
from safetyd.notify.chat.webhook import document
from safetyd.notify.desktop.desktop_content import rendered
from safetyd.notify.email.mail_channel import mail
from safetyd.notify.message import Notice
from safetyd.notify.sms.gsm import segments, septets
from safetyd.notify.sms.sms_channel import takes_replies
from safetyd.notify.sms.sms_text import text_of


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    size: str  # in the channel's own measure
    html: str = ""


def preview(notice: Notice, settings: NotificationsConfig) -> Preview:
    """Return what a message looks like on its channel."""
    match notice.channel:
        case "email":
            return _mail(notice, settings)
        case "sms":
            text = text_of(notice, replies=takes_replies(settings.sms.from_))
            size = f"{septets(text)} septets, {segments(text)} SMS"
            return Preview(text=text, size=size)
        case "desktop":
            shown = rendered(notice)
            text = f"{shown.summary}\n{shown.body}\n[{'] ['.join(shown.actions)}]"
            return Preview(text=text, size=f"{len(shown.summary)} and {len(shown.body)} characters")
        case "webhook":
            body = document(notice, links=settings.webhook.include_links)
            text = msgspec.json.format(body, indent=2).decode()
            return Preview(text=text, size=f"{len(body)} bytes")
        case "ntfy":
            message = publication(notice, "topic")
            text = f"{message.title}\n\n{message.message}"
            return Preview(text=text, size=f"{len(message.message.encode())} bytes")
    said = written(notice, marked=False)
    return Preview(text=f"{said.title}\n\n{said.body}", size=f"{len(said.body)} characters")


def _mail(notice: Notice, settings: NotificationsConfig) -> Preview:
    message = mail(notice, settings.email.from_ or "safetyd@localhost", "localhost")
    text, page = (part.get_content() for part in message.iter_parts())
    return Preview(
        text=f"Subject: {message['Subject']}\n\n{text}",
        size=f"{len(message.as_bytes())} bytes",
        html=page,
    )
