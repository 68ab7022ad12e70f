"""What a channel would send, and how long that is in the channel's own measure."""

import subprocess
import sys

import msgspec
import pytest

from safetyd.notify.channel import Preview
from safetyd.notify.channel_config import NotificationsConfig
from safetyd.notify.message import Notice
from tests.notify.message_samples import LINK, notice, whole_topic

SETTINGS = NotificationsConfig()


def preview(shown: Notice, settings: NotificationsConfig = SETTINGS) -> Preview:
    return dict(settings.channels())[shown.channel].preview(shown)


def test_mail_is_shown_with_its_subject_as_text_and_as_a_page() -> None:
    shown = preview(notice(channel="email"))

    assert shown.text.startswith("Subject: ")
    assert "git push --force origin main" in shown.text
    assert "<html" in shown.html
    assert shown.size.endswith(" bytes")


@pytest.mark.parametrize(("sender", "said"), [("+15550199", "reply A 4821"), ("safetyd", "code")])
def test_an_sms_asks_for_a_reply_only_if_its_sender_can_be_answered(sender: str, said: str) -> None:
    settings = msgspec.convert({"sms": {"from": sender}}, NotificationsConfig)

    assert said in preview(notice(whole_topic(), channel="sms"), settings).text


@pytest.mark.parametrize("links", [False, True])
def test_a_webhook_is_shown_as_json_with_links_only_if_they_are_wanted(*, links: bool) -> None:
    settings = msgspec.convert({"webhook": {"include_links": links}}, NotificationsConfig)

    shown = preview(notice(channel="webhook"), settings)

    assert msgspec.json.decode(shown.text)["type"] == "permission.requested"
    assert (LINK in shown.text) is links


def test_every_channel_previews_without_the_library_that_sends() -> None:
    script = """
import sys
from safetyd.notify.channel_config import CHANNELS
from tests.notify.message_samples import notice, whole_topic
given = {"apprise": {"name": "team", "url_file": "f"}}
for name, table in CHANNELS.items():
    shown = table(**given.get(name, {})).preview(notice(whole_topic(), channel=name))
    assert "push" in shown.text and shown.size, name
print(*sys.modules)
"""
    libraries = {"aiohttp", "aiosmtplib", "apprise", "dbus_fast", "twilio"}

    loaded = subprocess.check_output([sys.executable, "-c", script], text=True, timeout=60)

    assert not libraries & set(loaded.split())
