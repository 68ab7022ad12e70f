"""Notifications, and the channels that deliver them.

Do not change the words of alerts: checkpoints contain them, and older journals must replay alike.
"""

from typing import Final

from safetyd.core.catalogue.entry import Alert, Choice, Entry, Notice, because
from safetyd.core.events import notification_events as events

_FAILED: Final = Notice("NOTIFICATION_FAILED", "high", "{channel} did not deliver a message")
_LOST: Final = {
    "dead": "It was given up. To see more: safetyd notify outbox --state dead",
    "undelivered": "It did not arrive. To see more: safetyd notify outbox --state undelivered",
}


def outage_key(channel: str) -> str:
    return f"channel {channel}"


def loss_key(channel: str) -> str:
    return f"message {channel}"


def _up_key(channel: str) -> str:
    return f"channel_up {channel}"


def _lost(event: events.NotTold) -> Alert | None:
    """Return the alert about a lost message, unless an operator dropped the message."""
    if event.by:
        return None
    if event.state == "parked":
        return _outage(event.channel, event.error)
    lost = _LOST.get(event.state)
    if lost is None:
        return None
    title = because(f"NOT TOLD: {event.channel} did not deliver a message", event.error)
    return _of_channel(event.channel, loss_key(event.channel), title, lost)


def _outage(channel: str, why: str) -> Alert:
    title = because(f"CHANNEL DOWN: {channel} takes no messages", why)
    text = f"They wait. Once it is mended: safetyd notify retry --channel {channel}"
    return _of_channel(channel, outage_key(channel), title, text)


def _of_channel(channel: str, key: str, title: str, text: str) -> Alert:
    """Return an alert about a failing channel. It is sent on other channels."""
    return Alert(key=key, urgency="high", title=title, text=text, not_on=(channel,))


def _moved(event: events.ChannelMoved) -> Alert:
    channel = event.channel
    if not event.up:
        return _outage(channel, event.why)
    return Alert(
        key=_up_key(channel),
        urgency="normal",
        title=f"CHANNEL UP: {channel} takes messages again",
        text="What waited for it is told now.",
        not_on=(channel,),
        clears=(outage_key(channel),),
    )


def _over(event: events.ChannelMoved) -> tuple[str, ...]:
    channel = event.channel
    return (loss_key(channel), outage_key(channel)) if event.up else (_up_key(channel),)


def _round(round_: events.Round) -> str:
    return f"{len(round_.request_ids)} requests for {round_.recipient}"


ENTRIES: Final = (
    Entry(
        events.Due,
        says="message {delivery} to {recipient} on {channel} is due",
        follows=True,
        compared=True,
        by_time=True,
    ),
    Entry(events.Told, says="{channel} accepted message {delivery}: {state}", routine=True),
    Entry(
        events.NotTold,
        says="message {delivery} on {channel} is {state}: {error}",
        notice=Choice("state", dict.fromkeys(("dead", "undelivered", "parked"), _FAILED)),
        reason="{error}",
        facts="channel delivery state",
        alert=_lost,
    ),
    Entry(events.Unparked, says=lambda event: f"{event.by} retried {', '.join(event.deliveries)}"),
    Entry(
        events.ChannelMoved,
        notice=Choice(
            lambda event: "up" if event.up else "down",
            {
                "up": Notice("CHANNEL_UP", "low"),
                "down": Notice("CHANNEL_DOWN", "high", "{channel} accepts no messages"),
            },
        ),
        reason=lambda event: f"{event.channel} accepts messages again" if event.up else event.why,
        facts="channel",
        alert=_moved,
        ends=_over,
    ),
    Entry(
        events.Climbed,
        says=lambda event: f"reminders are due: {', '.join(item.ref for item in event.steps)}",
        follows=True,
        by_time=True,
    ),
    Entry(
        events.RoundDue,
        says=lambda event: f"reminders are due: {', '.join(map(_round, event.rounds))}",
        follows=True,
        by_time=True,
        routine=True,
    ),
    Entry(events.LinkOpened, says="{recipient} opened a link", routine=True),
    Entry(events.Announced, says="announced: {note.title}", routine=True),
    Entry(events.LinkRevoked, says="{recipient}'s link to {request_id} was revoked: {why}"),
)
