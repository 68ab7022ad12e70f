"""Shifts in calendars as Google and Outlook write them, and in malformed ones."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from safetyd.extras.rota.calendar_shifts import (
    MAX_ENTRIES,
    CalendarShifts,
    Period,
    UnusableCalendar,
    shifts_in,
)

CALENDARS = Path(__file__).parent / "calendars"
BERLIN = "Europe/Berlin"
PEOPLE = {"alice": ("alice@example.com",), "bob": ("+15550100", "bob@example.com"), "carol": ()}
OCTOBER = Period(
    starts=datetime(2026, 10, 19, tzinfo=UTC),
    ends=datetime(2026, 10, 27, tzinfo=UTC),
    timezone=BERLIN,
)


def calendar(*entries: str) -> bytes:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN"]
    for number, entry in enumerate(entries):
        lines += ["BEGIN:VEVENT", f"UID:{number}", *entry.split("\n"), "END:VEVENT"]
    return "\r\n".join((*lines, "END:VCALENDAR", "")).encode()


def entry(title: str, *more: str) -> str:
    times = "DTSTART:20261020T100000Z", "DTEND:20261020T120000Z"
    return "\n".join((f"SUMMARY:{title}", *times, *more))


def lines(found: CalendarShifts) -> list[str]:
    def shown(at: datetime) -> str:
        return f"{at.astimezone(ZoneInfo(BERLIN)):%d %H:%M %Z}"

    return [f"{one.who:<5} {shown(one.starts)} {shown(one.ends)}" for one in found.shifts]


def names(*entries: str) -> list[str]:
    return [shift.who for shift in shifts_in(calendar(*entries), OCTOBER, PEOPLE).shifts]


def test_a_calendar_of_google_with_exceptions_attendees_and_the_end_of_summer_time() -> None:
    found = shifts_in((CALENDARS / "google.ics").read_bytes(), OCTOBER, PEOPLE)

    assert lines(found) == [
        "bob   19 02:00 CEST 19 10:00 CEST",
        "alice 19 18:00 CEST 20 02:00 CEST",
        "bob   20 02:00 CEST 20 10:00 CEST",
        # alice's evening of the 20th is an exception.
        "bob   21 02:00 CEST 21 10:00 CEST",
        "alice 21 18:00 CEST 22 02:00 CEST",
        "alice 22 03:00 CEST 22 09:00 CEST",  # this night was moved, and alice takes it
        "alice 22 18:00 CEST 23 02:00 CEST",
        "bob   23 02:00 CEST 23 10:00 CEST",
        "alice 23 18:00 CEST 24 02:00 CEST",
        "bob   24 02:00 CEST 24 10:00 CEST",
        "alice 24 18:00 CEST 25 02:00 CEST",
        "carol 25 00:00 CEST 26 00:00 CET",  # a whole day, of 25 hours
        "bob   25 02:00 CEST 25 10:00 CET",
        "alice 25 18:00 CET 26 02:00 CET",
        "bob   26 02:00 CET 26 10:00 CET",
        "alice 26 18:00 CET 27 02:00 CET",
    ]
    assert found.unmatched == ("Team party",)


def test_a_calendar_of_outlook_with_weeks_and_its_own_zones() -> None:
    autumn = Period(
        starts=datetime(2026, 10, 12, tzinfo=UTC),
        ends=datetime(2026, 11, 9, tzinfo=UTC),
        timezone=BERLIN,
    )

    assert lines(shifts_in((CALENDARS / "outlook.ics").read_bytes(), autumn, PEOPLE)) == [
        "alice 12 18:00 CEST 19 18:00 CEST",
        "carol 14 05:30 CEST 14 13:30 CEST",  # 09:00 at +05:30
        "carol 15 09:00 CEST 15 09:30 CEST",  # no zone: that of the rota
        "bob   19 18:00 CEST 26 18:00 CET",
        "carol 19 18:00 CEST 26 18:00 CET",
        "alice 26 18:00 CET 02 18:00 CET",
        "bob   02 18:00 CET 09 18:00 CET",
        "carol 02 18:00 CET 09 18:00 CET",
    ]


@pytest.mark.parametrize(
    ("title", "who"),
    [
        ("alice", ["alice"]),
        ("  ALICE ", ["alice"]),
        ("On call: Alice", ["alice"]),
        ("Alice (primary)", ["alice"]),
        ("alice & bob", ["alice", "bob"]),
        ("Bob and Carol", ["bob", "carol"]),
        ("bob@example.com", ["bob"]),
        # Nobody is on call because a sentence mentions them.
        ("Alice is on vacation", []),
        ("alicedale", []),
        ("", []),
    ],
)
def test_a_title_names_people(title: str, who: list[str]) -> None:
    assert names(entry(title)) == who


def test_attendees_count_if_the_title_names_nobody() -> None:
    invited = "ATTENDEE:mailto:ALICE@example.com", "ATTENDEE:MAILTO:bob@example.com"
    declined = "ATTENDEE;PARTSTAT=DECLINED:mailto:alice@example.com"

    assert names(entry("Shift", *invited)) == ["alice", "bob"]
    assert names(entry("carol", *invited)) == ["carol"]
    assert names(entry("Shift", declined)) == []


def test_an_invalid_entry_is_reported_and_the_others_count() -> None:
    wrong = "SUMMARY:bob\nDTSTART:2026102T100000Z\nDTEND:20261020T120000Z"
    unruly = entry("bob", "RRULE:FREQ=NEVER")

    for bad in (wrong, unruly):
        found = shifts_in(calendar(bad, entry("alice")), OCTOBER, PEOPLE)

        assert [shift.who for shift in found.shifts] == ["alice"]
        assert [title.partition(":")[0] for title in found.unmatched] == ["an invalid entry"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"<html>Sign in</html>", "it is not a valid calendar: "),
        (b"", "it is not a valid calendar: "),
        (b"BEGIN:VCALENDAR\r\n", "it is not a valid calendar: "),
        (calendar("SUMMARY:alice"), "it is not a valid calendar: "),
        (calendar("SUMMARY:x\nDTSTART:00010101T000000Z\nDTEND:99991231T000000Z"), "it is not a "),
        (b"BEGIN:VEVENT\r\n" * (MAX_ENTRIES + 1), f"it has more than {MAX_ENTRIES} entries"),
        (calendar(entry("alice", "RRULE:FREQ=MINUTELY")), "it has more than 1000 shifts"),
    ],
)
def test_a_calendar_that_cannot_be_used_says_why(data: bytes, why: str) -> None:
    with pytest.raises(UnusableCalendar) as refused:
        shifts_in(data, OCTOBER, PEOPLE)

    assert str(refused.value).startswith(why)
