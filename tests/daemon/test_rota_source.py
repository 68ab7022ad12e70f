"""The rota of a configuration: mistakes in it, its zone, and warnings about gaps."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from safetyd.core.rota import RotaPolicy, WeeklyShift
from safetyd.daemon.config import Config, ConfigError, parse
from safetyd.daemon.config_warnings import config_warnings
from safetyd.daemon.rota_source import calendar_request, rota_of

PEOPLE = """
[notifications]
timezone = "Asia/Kolkata"
[[recipients]]
name = "alice"
email = "alice@example.com"
wake_for = ["deploy", "DB write", "irreversible"]
[[recipients]]
name = "bob"
sms = "+15550100"
telegram = "12345"
"""
WHOLE_WEEK = """
[[people.rota.shifts]]
who = "alice"
from = "08:00"
to = "20:00"
[[people.rota.shifts]]
who = "bob"
days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
from = "20:00"
to = "08:00"
"""
ENTRY = """BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\nBEGIN:VEVENT\r\nUID:1\r
SUMMARY:alice\r\nDTSTART;VALUE=DATE:20200101\r\nRRULE:FREQ=DAILY\r\nEND:VEVENT\r
BEGIN:VEVENT\r\nUID:2\r\nSUMMARY:Party\r\nDTSTART;VALUE=DATE:20200101\r\nRRULE:FREQ=DAILY\r
END:VEVENT\r\nEND:VCALENDAR\r\n"""


def config(text: str = "") -> Config:
    return parse(PEOPLE + text, "safetyd.toml")


def warnings(text: str, data_dir: Path) -> list[str]:
    return [said for said in config_warnings(config(text), data_dir) if "rota" in said]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "[[people.rota.shifts]]\nwho = 'alcie'",
            "people.rota.shifts[0].who: 'alcie' is not a recipient; did you mean alice?",
        ),
        (
            "[[people.rota.shifts]]\nwho = 'everyone'",
            "people.rota.shifts[0].who: 'everyone' is not a recipient; known are alice, bob",
        ),
        ("[[people.rota.shifts]]\nfrom = '09:00'", "people.rota.shifts[0].who is missing; "),
        (
            "[[people.rota.shifts]]\nwho = 'bob'\nfrom = '24:00'",
            'people.rota.shifts[0].from is "24:00"; it must be a time of day such as "23:00"',
        ),
        (
            "[people.rota]\ntimezone = 'Berlin'",
            "people.rota.timezone: 'Berlin' is not an IANA time zone such as Europe/Berlin",
        ),
        (
            "[people.rota]\ncalendar = 'https://calendar.example.com/oncall.ics'",
            (
                "people.rota.calendar must be a file or an address of this machine, such as "
                "oncall.ics or http://127.0.0.1:8080/oncall.ics"
            ),
        ),
        ("[people.rota]\nhandovr = true", "people.rota.handovr is not a setting; did you mean "),
        (
            "[[recipients]]\nname = 'carol'\nwake_for = ['deplyo']",
            "recipients.carol.wake_for: 'deplyo' is not an action type; did you mean deploy?",
        ),
    ],
)
def test_a_mistake_in_the_rota_is_named(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(text)

    assert [said.removeprefix("safetyd.toml: ")[: len(error)] for said in caught.value.errors] == [
        error
    ]


def test_the_rota_has_the_zone_of_notifications_and_known_names_of_actions() -> None:
    own = "[people.rota]\ntimezone = 'Europe/Berlin'\nhandover = false\n"

    assert rota_of(config()) == RotaPolicy(
        timezone="Asia/Kolkata", wake_for={"alice": ("deploy", "db_write", "irreversible")}
    )
    assert rota_of(config(own + "[[people.rota.shifts]]\nwho = 'bob'")) == RotaPolicy(
        timezone="Europe/Berlin",
        handover=False,
        shifts=(WeeklyShift(who="bob"),),
        wake_for={"alice": ("deploy", "db_write", "irreversible")},
    )


def test_people_are_known_by_all_their_addresses(tmp_path: Path) -> None:
    at = datetime(2026, 7, 1, tzinfo=UTC)
    asked = calendar_request(config("[people.rota]\ncalendar = 'a.ics'"), tmp_path, at)

    assert asked is not None
    assert asked.people == {"alice": ("alice@example.com",), "bob": ("+15550100", "12345")}
    assert (asked.place, asked.timezone) == (f"{tmp_path}/a.ics", "Asia/Kolkata")
    assert calendar_request(config(), tmp_path, at) is None


def test_times_without_anyone_on_duty_are_a_warning(tmp_path: Path) -> None:
    (gaps,) = warnings("[[people.rota.shifts]]\nwho = 'bob'\nto = '18:00'", tmp_path)

    assert warnings("", tmp_path) == warnings(WHOLE_WEEK, tmp_path) == []
    assert gaps.startswith("people.rota: nobody is on duty ")
    assert gaps.count(" IST to ") == 3
    assert gaps.endswith(" more times in the next four weeks. Then urgent requests go to everybody")


def test_a_calendar_is_read_for_warnings(tmp_path: Path) -> None:
    text = "[people.rota]\ncalendar = 'oncall.ics'"
    (missing,) = warnings(text, tmp_path)
    (tmp_path / "oncall.ics").write_text(ENTRY)
    found = warnings(text, tmp_path)

    assert missing == ("people.rota.calendar: oncall.ics cannot be used: No such file or directory")
    assert found == ["people.rota.calendar: entries that name no recipient are ignored: 'Party'"]
