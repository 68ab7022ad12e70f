"""The rota and its calendar."""

from typing import Final

from safetyd.core.catalogue.entry import MAIL_AND_CHAT, Alert, Entry, Notice
from safetyd.core.events import rota_events as events


def calendar_key(calendar: str) -> str:
    return f"rota {calendar}"


def read_key(calendar: str) -> str:
    return f"rota_read {calendar}"


def _unread(event: events.RotaUnread) -> Alert:
    return Alert(
        key=calendar_key(event.calendar),
        urgency="normal",
        kinds=MAIL_AND_CHAT,
        title=f"ON CALL: {event.calendar} cannot be read",
        text=f"{event.why}.\n"
        "The shifts that were read before still apply. Where nobody is on duty, everybody is "
        "notified. To see the shifts: safetyd rota",
    )


def _read(event: events.RotaRead) -> Alert:
    return Alert(
        key=read_key(event.calendar),
        urgency="normal",
        kinds=MAIL_AND_CHAT,
        title=f"ON CALL: {event.calendar} can be read again",
        text=f"{_contents(event)}.",
        clears=(calendar_key(event.calendar),),
    )


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nobody"


def _contents(event: events.RotaRead) -> str:
    unmatched = ", ".join(repr(entry) for entry in event.unmatched)
    ignored = f"; entries that name no recipient: {unmatched}" if unmatched else ""
    return f"{len(event.shifts)} shifts until {event.until:%Y-%m-%d}{ignored}"


ENTRIES: Final = (
    Entry(
        events.RotaRead,
        notice=Notice("ROTA_READ", "low", "{calendar} was read"),
        reason=_contents,
        facts="calendar",
        alert=_read,
        ends=lambda event: (calendar_key(event.calendar), read_key(event.calendar)),
    ),
    Entry(
        events.RotaUnread,
        notice=Notice("ROTA_UNREAD", "medium", "{calendar} cannot be read"),
        reason="{why}",
        facts="calendar",
        alert=_unread,
    ),
    Entry(
        events.DutyChanged,
        notice=Notice("DUTY_CHANGED", "low"),
        reason=lambda event: f"on call now: {_names(event.on)}",
        facts="on off",
        follows=True,
        by_time=True,
    ),
)
