"""Notifications as text: results of tests, the outbox, channels and previews."""

from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.console.render.layout import Columns, indented, names, table, when
from safetyd.console.terminal_text import plain, several
from safetyd.core.text.time_words import duration
from safetyd.core.text.visible_text import visible
from safetyd.notify.channel_config import CHANNELS
from safetyd.operators.contract.notification_contract import (
    ChannelRow,
    ChannelsAnswer,
    DeliveryRow,
    LaneRow,
    LaneWaiting,
    OutboxAnswer,
    PreviewAnswer,
    PreviewRow,
    RecipientRow,
)

ARRIVED: Final = frozenset({"accepted", "delivered"})
MEANS: Final = {
    "accepted": "accepted by the server{took}; delivery not confirmed",
    "delivered": "delivered{took}",
    "open": "not sent yet; safetyd will retry",
    "parked": "NOT sent; safetyd will retry when the channel is fixed",
    "undelivered": "NOT delivered",
    "dead": "NOT sent; safetyd will not retry",
}
_UNREADABLE: Final = (
    "put the secret into that file and make the file readable by the daemon's user, or set another "
    "file in the channel's section. Then run `safetyd reload`"
)
# If an error message contains the first text, the second says what to do. Channels add their own.
HINTS: Final = (
    ("contains no secret", _UNREADABLE),
    ("cannot read", _UNREADABLE),
    ("timed out", "check the host, the port, and firewalls"),
    ("name or service", "check the host name"),
    ("name resolution", "check the host name"),
    ("refused", "check host and port: no server is listening there"),
    ("connect call failed", "check host and port: no server is listening there"),
    ("401", "check the token or secret in the file"),
    ("403", "check the token or secret in the file"),
    ("404", "check the address"),
    ("not permitted", "systemd's IPAddressDeny may block it. See `safetyd docs operations`"),
)


def arrived(row: DeliveryRow) -> bool:
    return row.state in ARRIVED


def went_well(row: DeliveryRow, click_wanted: bool) -> bool:  # noqa: FBT001 - one of two claims
    return arrived(row) and (not click_wanted or bool(row.opened_at))


def tested(rows: Sequence[DeliveryRow], *, waited_for_click: bool) -> str:
    """Return the result of each test message, and what to do about errors."""
    lines: list[str] = []
    for row in rows:
        lines.append(f"{_lane(row)}: {_became(row)}")
        if row.error:
            lines.append(f"  {plain(row.error)}")
            lines += [f"  {hint}" for hint in _hints(row)]
        if waited_for_click and arrived(row):
            opened = f"confirmed at {when(row.opened_at)}" if row.opened_at else "not confirmed"
            lines.append(f"  its link was {opened}")
    return "\n".join(lines) or "No test message was sent. See `safetyd notify channels`."


def _lane(row: LaneRow | DeliveryRow) -> str:
    return f"{plain(row.channel)} to {plain(row.recipient)}"


def _became(row: DeliveryRow) -> str:
    took = "" if row.took_s is None else f" in {row.took_s:.1f} s"
    said = MEANS.get(row.state, plain(row.state)).format(took=took)
    return f"{said} ({plain(row.provider_id)})" if arrived(row) and row.provider_id else said


def _hints(row: DeliveryRow) -> Iterator[str]:
    channel, lowered = CHANNELS.get(row.channel), row.error.lower()
    known = (*(channel.hints if channel else ()), *HINTS)
    yield from [hint for words, hint in known if words in lowered][:1]


def _items(row: DeliveryRow) -> str:
    kinds = "/".join(row.kinds)
    return f"{kinds} {row.refs[0]}" if row.items == 1 else f"{row.items} x {kinds}"


def _success(row: ChannelRow) -> str:
    ago = row.last_success_s_ago
    return "never" if ago is None else f"{duration(ago)} ago"


def _state(row: ChannelRow) -> str:
    if not row.up:
        return "DOWN, needs fixing" if row.fuse == "parked" else "DOWN, retrying"
    return "failing" if row.failing else "up"


_MESSAGES: Final[Columns[DeliveryRow]] = {
    "id": lambda row: row.id,
    "state": lambda row: row.state,
    "channel": lambda row: row.channel,
    "to": lambda row: row.recipient,
    "about": _items,
    "time": lambda row: row.at,
    "attempts": lambda row: row.attempts,
    "error": lambda row: plain(row.error, 160),
}
_LANES: Final[Columns[LaneWaiting]] = {
    "recipient": lambda row: row.recipient,
    "channel": lambda row: row.channel,
    "items": lambda row: row.items,
    "due": lambda row: row.due,
}
_CHANNELS: Final[Columns[ChannelRow]] = {
    "channel": lambda row: row.name,
    "kind": lambda row: row.kind,
    "state": _state,
    "waiting": lambda row: row.waiting_high + row.waiting_normal,
    "last success": _success,
    "last error": lambda row: plain(row.last_error, 160),
}


def outbox(view: OutboxAnswer) -> str:
    """Return a table of messages, and one of messages that still wait for their batch."""
    parts = []
    if view.deliveries:
        parts.append(table(view.deliveries, _MESSAGES))
    if view.waiting:
        parts.append(table(view.waiting, _LANES))
    if view.unnotified:
        parts.append(f"NOT NOTIFIED: nobody was notified of {several(view.unnotified, 'request')}.")
    return "\n\n".join(parts) or "No messages."


def channels(view: ChannelsAnswer) -> str:
    if not view.channels:
        return "No channel is configured, so nobody is notified. See `safetyd docs notifications`."
    people = [line for person in view.recipients for line in _person(person)]
    reads = [f"replies to {plain(c.name)}: {plain(c.reads, 300)}" for c in view.channels if c.reads]
    return "\n".join((table(view.channels, _CHANNELS), *reads, "", *people))


def _person(person: RecipientRow) -> Iterator[str]:
    yield f"{plain(person.name)} on {names(person.channels)}"
    facts = [("quiet hours", f"{plain(person.quiet)} {plain(person.timezone)}")]
    if person.quiet_until:
        facts.append(("quiet now", f"until {when(person.quiet_until)}"))
    if list(person.agents) != ["*"]:
        facts.append(("agents", names(person.agents)))
    if person.backup:
        facts.append(("backup", plain(person.backup)))
    yield from indented(facts)


def previews(view: PreviewAnswer) -> str:
    """Return the message that each channel would send, and when."""
    if not view.previews:
        return "No channel is configured. See `safetyd docs notifications`."
    return "\n\n".join("\n".join(_preview(shown)) for shown in view.previews)


def _preview(shown: PreviewRow) -> Iterator[str]:
    yield f"== {_lane(shown)}: {plain(shown.size)}"
    yield f"   {plain(shown.when)}"
    if shown.ladder:
        yield f"   then {names(shown.ladder)}"
    yield from (f"   | {visible(line)}" for line in shown.text.splitlines())
