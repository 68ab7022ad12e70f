"""Rehearsals: virtual time, the same day twice, people, outages, and the command."""

import asyncio
import json
from pathlib import Path
from typing import Final

import anyio
import pytest

from safetyd.core.recipients import QuietHours
from safetyd.core.rota import Rota, RotaPolicy
from safetyd.rehearsal.rehearsed_people import RehearsedPerson
from safetyd.rehearsal.story_file import PersonInStory
from safetyd.rehearsal.story_times import StoryTimes
from safetyd.rehearsal.virtual_time import run_on_virtual_time
from tests.console.console_rig import here
from tests.days.written_day import at

CONFIG: Final = """
[notifications]
timezone = "UTC"
[notifications.email]
enabled = true
from = "safetyd@example.com"
smtp_host = "smtp.example.com"
[notifications.ntfy]
enabled = true
url = "https://ntfy.example.com/topic"
[notifications.desktop]
enabled = false
[[recipients]]
name = "alice"
email = "alice@example.com"
[[recipients]]
name = "bob"
email = "bob@example.com"
"""
STORY: Final = """
title = "A short day"
start = "2026-03-10 08:00"
lasts = "6h"
config = "safetyd.toml"
{more}
[words]
branch = ["main", "docs", "search"]
[[people]]
name = "alice"
answers_after = ["2m", "9m"]
{alice}
[[people]]
name = "bob"
ignores = 1.0
reads = ["ntfy"]
[[agents]]
name = "coder"
count = 2
[[agents.does]]
action = {{ type = "read_file", paths = ["/srv/{{branch}}-{{n}}.md"] }}
every = "10m"
[[agents.does]]
action = {{ type = "push", text = "git push origin {{branch}}-{{agent}}", wait = {wait} }}
at = ["09:00"]
{agents}
{end}
"""


def written(folder: Path, **parts: str) -> Path:
    """Write a story with its configuration."""
    (folder / "safetyd.toml").write_text(CONFIG)
    given = {"more": "", "alice": "", "wait": "false", "agents": "", "end": "", **parts}
    path = folder / "short.story.toml"
    path.write_text(STORY.format(**given))
    return path


def played(path: Path, *options: str) -> dict[str, object]:
    said = here("notify", "rehearse", str(path), "--json", *options)
    assert said.returncode in {0, 1}, said.stderr
    found = json.loads(said.stdout)
    assert isinstance(found, dict)
    assert found["ok"] is (said.returncode == 0)
    return found


def rows(found: dict[str, object], kind: str) -> list[dict[str, object]]:
    timeline = found["timeline"]
    assert isinstance(timeline, list)
    return [row for row in timeline if row["kind"] == kind]


def minutes(row: dict[str, object]) -> float:
    """Return when a row happened, in minutes since 08:00."""
    clock = str(row["at"])[11:19]
    hours, minute, second = map(int, clock.split(":"))
    return (hours - 8) * 60 + minute + second / 60


# Virtual time


def test_a_year_of_virtual_time_passes_at_once() -> None:
    """If it slept, this test would never end."""
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await anyio.sleep(seconds)
        woken.append(asyncio.get_running_loop().time())

    async def year() -> None:
        async with anyio.create_task_group() as tasks:
            for seconds in (365 * 86_400.0, 60.0, 3600.0):
                tasks.start_soon(sleeper, seconds)

    run_on_virtual_time(year)
    assert woken == pytest.approx([60.0, 3600.0, 365 * 86_400.0])


def test_a_task_that_waits_for_nothing_is_an_error_and_does_not_hang() -> None:
    async def never() -> None:
        await anyio.Event().wait()

    with pytest.raises(RuntimeError, match="every task waits"):
        run_on_virtual_time(never)


# The same day


def test_the_same_story_gives_the_same_day(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert played(path) == played(path)


def test_another_seed_gives_another_day(tmp_path: Path) -> None:
    first = played(written(tmp_path))
    assert first != played(written(tmp_path, more="seed = 2"))


# The record


def test_a_request_is_notified_and_answered_in_a_rehearsal(tmp_path: Path) -> None:
    found = played(written(tmp_path))
    asked, answered = rows(found, "request"), rows(found, "approved") + rows(found, "denied")
    assert sorted(str(row["who"]) for row in asked) == ["coder-1", "coder-2"]
    assert all(str(row["what"]).startswith("push: git push origin") for row in asked)
    assert {row["who"] for row in answered} == {"alice"}
    first = rows(found, "message")[0]
    assert first["who"] == "alice"
    assert first["about"] == [row["about"][0] for row in asked if isinstance(row["about"], list)]
    assert minutes(first) == pytest.approx(61, abs=0.1)
    assert (first["why"], first["waited_s"]) == ("batch", pytest.approx(61, abs=4))


def test_nobody_answers_what_they_were_not_notified_of(tmp_path: Path) -> None:
    config = written(tmp_path).parent / "safetyd.toml"
    config.write_text(CONFIG.replace('name = "alice"', 'name = "alice"\nagents = ["coder-1"]'))
    found = played(tmp_path / "short.story.toml")
    answered = rows(found, "approved") + rows(found, "denied")
    assert [row["what"] for row in answered if "coder-2" in str(row["what"])] == []
    assert len(answered) == 1


def test_a_message_waits_for_the_end_of_an_outage(tmp_path: Path) -> None:
    outage = '[[incidents]]\nat = "08:50"\nlasts = "40m"\nchannel = "email"'
    found = played(written(tmp_path, end=outage))
    mails = [row for row in rows(found, "message") if row["channel"] == "email"]
    assert minutes(mails[0]) > 90
    assert mails[0]["why"] == "email failed or was busy"
    assert [row["what"] for row in rows(found, "incident") if row["who"] == "email"]
    assert minutes(rows(found, "message")[0]) < 62  # ntfy works


def test_a_dependency_that_is_down_fails_its_calls(tmp_path: Path) -> None:
    calls = """
[[agents.does]]
action = { type = "web_fetch", text = "https://a.example/{n}", dependency = "a" }
every = "30s"
"""
    down = '[[incidents]]\nat = "10:00"\nlasts = "40m"\ndependency = "a"'
    before, after = played(written(tmp_path, agents=calls)), None
    after = played(written(tmp_path, agents=calls, end=down))
    alerts = [
        r for r in rows(after, "message") if isinstance(r["shows"], dict) and "alert" in r["shows"]
    ]
    assert alerts
    assert not [
        r for r in rows(before, "message") if isinstance(r["shows"], dict) and "alert" in r["shows"]
    ]


def test_an_emergency_stop_of_a_story(tmp_path: Path) -> None:
    stop = '[[incidents]]\nat = "08:55"\nlasts = "20m"\nstop = "a drill"\nby = "alice"'
    found = played(written(tmp_path, end=stop))
    assert [row["what"] for row in rows(found, "incident")] == [
        "stops everything: a drill",
        "resumes everything",
    ]
    assert rows(found, "request") == []  # what they propose at 09:00 is blocked


def test_a_waiting_agent_acts_after_its_answer(tmp_path: Path) -> None:
    found = played(written(tmp_path, wait="true", alice="approves = 1.0"))
    assert len(rows(found, "approved")) == 2


def test_an_agent_asks_again_after_a_denial(tmp_path: Path) -> None:
    path = written(tmp_path, alice="approves = 0.0", agents='again = "1h"\ntries = 3')
    proposals = played(path)["proposals"]
    assert isinstance(proposals, int)
    assert proposals == played(written(tmp_path, alice="approves = 0.0"))["proposals"] + 4  # type: ignore[operator]


# People


def person(shifts: RotaPolicy | None = None, **told: object) -> RehearsedPerson:
    times = StoryTimes("2026-03-10 06:00", "48h", "UTC")
    behaviour = PersonInStory(name="lena", **told)  # type: ignore[arg-type]
    return RehearsedPerson(behaviour, QuietHours(), times, Rota(shifts or RotaPolicy()))


def test_people_sleep_in_the_quiet_hours_of_the_configuration() -> None:
    assert person().sleeps(at(19 * 60)) == at(25 * 60)  # at 01:00, until 07:00
    assert person().sleeps(at(60 * 6)) is None


def test_a_story_can_say_when_people_sleep() -> None:
    owl = person(asleep=("04:00-11:00",))
    assert owl.sleeps(at(19 * 60)) is None
    assert owl.sleeps(at(60)) == at(5 * 60)
    assert owl.at_night(at(19 * 60))  # the quiet hours of the configuration
    assert owl.at_night(at(60))
    assert not owl.at_night(at(6 * 60))


def test_shifts_of_a_story_are_duty() -> None:
    nurse = person(on_duty=("06:00-14:00",))
    assert nurse.has_duty
    assert not nurse.off_duty(at(60))
    assert nurse.off_duty(at(10 * 60))
    assert not person().has_duty
    assert not person().off_duty(at(60))


# Errors


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"alice": "answer_after = 3"}, "did you mean answers_after?"),
        ({"alice": 'woken_by = ["emial"]'}, "did you mean email?"),
        ({"end": '[[incidents]]\nat = "08:50"\nchannel = "nfty"'}, "did you mean ntfy?"),
        ({"end": "[goals]\nat_night = { alise = 2 }"}, "did you mean alice?"),
        ({"end": '[[people]]\nname = "bop"'}, "did you mean bob?"),
        ({"end": '[[incidents]]\nat = "08:50"'}, "needs one of `stop`, `channel`"),
        ({"end": '[[incidents]]\nat = "Foo 08:50"\nstop = "x"'}, "Foo is not a weekday"),
        ({"agents": 'every = "3m"'}, "needs either `at` or `every`"),
        ({"more": 'timezone = "Mars/Base"'}, "must be an IANA name"),
        ({"end": '[[agents]]\nname = "a b"'}, "may have only letters"),
        ({"more": "="}, "not TOML"),
    ],
)
def test_mistakes_in_a_story_are_explained(
    tmp_path: Path, parts: dict[str, str], error: str
) -> None:
    said = here("notify", "rehearse", str(written(tmp_path, **parts)))
    assert said.returncode == 1
    assert said.stdout == ""
    assert error in said.stderr


def test_a_story_that_does_not_exist(tmp_path: Path) -> None:
    assert "did you mean coding-team?" in here("notify", "rehearse", "codeing-team").stderr
    missing = here("notify", "rehearse", str(tmp_path / "missing.toml"))
    assert "cannot read the file" in missing.stderr


def test_a_configuration_that_notifies_nobody(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "safetyd.toml").write_text("[notifications.desktop]\nenabled = false\n")
    assert "the configuration notifies nobody" in here("notify", "rehearse", str(path)).stderr


# The command


def test_the_shipped_stories_are_listed() -> None:
    assert [line.split()[0] for line in here("notify", "rehearse").stdout.splitlines()[1:]] == [
        "coding-team",
        "deployments",
        "home",
    ]
    listed = json.loads(here("notify", "rehearse", "--json").stdout)
    assert listed["stories"]["home"] == "A home"


def test_a_story_without_a_configuration_uses_that_of_the_data_directory(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('config = "safetyd.toml"\n', ""))
    assert rows(played(path, "--data-dir", str(tmp_path)), "message")


def test_own_recipients_take_the_parts_of_a_shipped_story(tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text(CONFIG)
    said = here("notify", "rehearse", "home", "--config", str(config), "--table")
    assert "alice behaves like mara\nbob behaves like mara\n" in said.stdout
    assert "alice: mails a day" in said.stdout
    assert "bob: at night" in said.stdout
    assert "mara:" not in said.stdout


@pytest.mark.parametrize("width", [80, 120])
def test_the_timeline_fits_the_terminal(tmp_path: Path, width: int) -> None:
    outage = '[[incidents]]\nat = "08:50"\nlasts = "40m"\nchannel = "email"'
    path = written(tmp_path, end=outage)
    page = here("notify", "rehearse", str(path), COLUMNS=str(width)).stdout
    timeline = page[: page.index("MEASURE")]
    assert max(map(len, timeline.splitlines())) <= width
    assert "Tue 10 Mar, 09:00\n" in timeline
    assert "09:00:00  ? coder-1" in timeline
    assert "requests" in timeline.splitlines()[3]
    assert "email failed or was busy" in timeline
    assert "  ! email" in timeline


def test_the_table_alone(tmp_path: Path) -> None:
    page = here("notify", "rehearse", str(written(tmp_path)), "--table").stdout
    assert "MEASURE" in page
    assert "? asks" not in page


def test_the_exit_code_says_whether_a_goal_is_missed(tmp_path: Path) -> None:
    strict = written(tmp_path, end="[goals]\nmail_per_day = 0\nmail_worst_hour = 0")
    said = here("notify", "rehearse", str(strict), "--table")
    assert said.returncode == 1
    assert "MISSED" in said.stdout
    assert "2 goals missed." in said.stdout  # both for alice, because bob gets no mail
    kind = here("notify", "rehearse", str(written(tmp_path, end="[goals]\nmail_per_day = 60")))
    assert kind.returncode == 0
    assert "No goal is missed." in kind.stdout
