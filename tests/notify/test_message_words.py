"""What each channel says, of a real engine's requests and notes; `words/` has the texts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from safetyd.cards.note_cards import DigestCard
from safetyd.core.action_types import TypeConfig
from safetyd.core.events.guard_events import Paused
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours
from safetyd.notify.channel_config import NotificationsConfig
from safetyd.notify.message import Notice, Privacy
from safetyd.notify.outbox_control import TEST
from tests.cards.card_story import context
from tests.notify.compose_rig import ComposeRig, telling
from tests.notify.message_samples import report_topic
from tests.snapshot import check_snapshot

CHANNELS: Final = ("email", "sms", "desktop", "telegram")
DIFF: Final = "--- a/cart.py\n+++ b/cart.py\n@@ -1 +1 @@\n-total = 0\n+total = tax()\n"
WORDS: Final = Path(__file__).with_name("words")


def rig(channel: str) -> ComposeRig:
    types = {"wire_money": TypeConfig(tier="requires_permission", approve_via=("cli",))}
    return ComposeRig(policy=Policy(telling=telling(channel), types=types))


def single(channel: str, privacy: Privacy = "full", /, **fields: object) -> Notice:
    """Return the message about one request."""
    wired = rig(channel)
    wired.privacy = privacy
    wired.asks(**fields)  # type: ignore[arg-type]
    wired.passes()
    (delivery,) = wired.engine.outbox.deliveries()
    return wired.says(delivery)


def changed(notice: Notice, **fields: object) -> Notice:
    return msgspec.structs.replace(notice, card=msgspec.structs.replace(notice.card, **fields))


def several(channel: str) -> Notice:
    wired = rig(channel)
    for number in range(1, 4):
        wired.asks(f"p{number}", text=f"git push origin {'abc'[number - 1]}-branch")
    (delivery,) = wired.passes()
    return wired.says(delivery)


def alike(channel: str, *others: str) -> Notice:
    """Return the message about twenty similar requests, and about others."""
    wired = rig(channel)
    nodes = [f"kubectl drain node-{number:02}" for number in range(1, 21)]
    for number, command in enumerate((*nodes, *others)):
        wired.asks(f"p{number}", type="run_shell", text=command)
    wired.passes()
    (delivery,) = wired.engine.outbox.deliveries()
    return wired.says(delivery)


def expired(channel: str) -> Notice:
    wired = ComposeRig(telling(channel, quiet=QuietHours()))
    wired.clock.t = 11 * 3600.0  # after noon
    wired.asks(wait=True, timeout_s=600)
    wired.passes(700)
    (delivery,) = wired.passes(8 * 3600)
    return wired.says(delivery)


def paused(channel: str) -> Notice:
    wired = rig(channel)
    why = "Rapid identical requests: create_file 3 times in 10 s"
    event = Paused(at=wired.at, t=wired.clock.t, agent="code", source="anomaly", by="", reason=why)
    (delivery,) = wired.dues(wired.happens(event)) or wired.passes()
    return wired.says(delivery)


def samples(channel: str) -> Iterator[tuple[str, Notice]]:
    """Yield the messages of a channel, each with what it is about."""
    push = single(
        channel,
        text="git push --force origin main",
        project="shop",
        cwd="/srv/shop",
        cost_usd=1.25,
        rationale="The fix is wanted in today's release.",
        timeout_s=3600,
        urgency="high",
    )
    short = single(channel, text="git push")
    asked, note = several(channel), rig(channel)
    card = asked.card
    assert isinstance(card, DigestCard)
    yield "a request", push
    yield "a short request", short
    yield "a reminder", changed(short, kind="reminder")
    yield "a last call", changed(short, kind="last_call")
    yield "expired overnight", expired(channel)
    yield "a diff", single(channel, text="git apply", context=context(diff=DIFF))
    yield "only at a terminal", single(channel, type="wire_money", text="to Bob, $500")
    yield "no exact text", single(channel, text="", description="Tidy up the server")
    yield "a paused agent", paused(channel)
    yield "several", asked
    yield "twenty similar requests", alike(channel)
    yield "twenty similar requests and another", alike(channel, "kubectl drain node-21 --force")
    yield (
        "after quiet hours",
        msgspec.structs.replace(changed(asked, quiet=True, more=1200), held_back=3, again=True),
    )
    yield "links open here only", msgspec.structs.replace(short, here_only=True, machine="box")
    yield "minimal", single(channel, "minimal")
    yield "summary only", single(channel, "summary")
    yield (
        "an alert",
        note.says(note.notes(title="STOPPED by alice: drill", text="Agents may not act.")),
    )
    yield (
        "a test",
        note.says(note.notes(id="note_3", kind="test", title="Test by alice", text=TEST)),
    )
    yield (
        "a session",
        note.says(
            note.notes(
                id="note_4", kind="summary", title="Session s1 of code completed", text="Done:\n- x"
            )
        ),
    )
    yield "the daily report", msgspec.structs.replace(short, card=report_topic(), urgency="normal")


@pytest.mark.req("S3.30")
@pytest.mark.parametrize("channel", CHANNELS)
def test_a_channel_says_what_its_snapshot_says(channel: str) -> None:
    tables = {"apprise": [{"name": "team", "url_file": "f"}], "sms": {"from": "+15550199"}}
    table = dict(msgspec.convert(tables, NotificationsConfig).channels())[channel]
    shown = (f"==== {name}\n{table.preview(of).text}\n" for name, of in samples(channel))

    check_snapshot(WORDS / f"{channel}.txt", "\n".join(shown))
