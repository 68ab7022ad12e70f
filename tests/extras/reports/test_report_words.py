"""A report in each of its forms: Markdown, HTML, and a message."""

import re
from datetime import date
from pathlib import Path

import msgspec
import pytest

from safetyd.console.decisions.show_report import report_text
from safetyd.core.daily_report.day_numbers import DayNumbers, PersonNumbers, Question
from safetyd.core.daily_report.day_report import DailyReport, ReportScope, report_of_numbers
from safetyd.core.policy import Policy
from safetyd.core.recipients import TellingConfig
from safetyd.extras.reports.day_reading import DayReading
from safetyd.extras.reports.report_maker import ReportDays, report_of
from safetyd.extras.reports.report_page import page
from safetyd.extras.reports.report_words import markdown, note_sheet, note_text, note_title
from safetyd.journal.audit_reading import Rests
from tests.core.daily_report.day_events import FIRST, SECOND
from tests.extras.reports.audit_story import AuditFolder, rich_day
from tests.snapshot import check_snapshot

GOLDEN = Path(__file__).with_name("rich_day.md")
HOSTILE = "<script>`x`</script>\n## GREEN \x1b[2J | *all is well*"


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> DailyReport:
    folder = AuditFolder(tmp_path_factory.mktemp("data"))
    folder.write(rich_day())
    days = ReportDays(FIRST, FIRST, date(2026, 3, 9))
    return report_of(DayReading(folder.path, FIRST, FIRST), days, Rests(0.0))


def hostile() -> DailyReport:
    question = Question(agent="shop", type=HOSTILE, text=HOSTILE, remedy=HOSTILE, asked=2)
    numbers = DayNumbers(
        events=1,
        questions={"k": question},
        restricting={HOSTILE: 1},
    )
    return report_of_numbers({FIRST: numbers}, ReportScope(FIRST, FIRST, Policy(), broken=HOSTILE))


@pytest.mark.req("S2.44")
def test_a_rich_day_as_markdown(rich: DailyReport) -> None:
    """`rich_day.md` beside this test is how it looks."""
    check_snapshot(GOLDEN, markdown(rich))


def test_a_page_has_all_that_markdown_has(rich: DailyReport) -> None:
    html = page(rich)

    for said in (
        "Overall Health",
        "Layer 3: Version History",
        "$15.00 (75%)",
        "Repeated requests",
        "Calibration",
        "safetyd grant add",
    ):
        assert said in html, said


def test_a_message_has_the_colour_its_rules_and_five_numbers(rich: DailyReport) -> None:
    assert note_title(rich) == "RED: daily report of 2026-03-01 (Europe/Berlin)"
    rules, numbers, more = note_text(rich).split("\n\n")
    assert [line.split()[0] for line in rules.splitlines()] == [each.colour for each in rich.found]
    assert numbers.splitlines() == [
        "Executed: 4 without approval, 3 after approval",
        "Blocked: 1; failed: 1 (25.0%)",
        "Requests: 4 new, 1 pending",
        "Cost: $5.00, $15.00 of the budget left",
        "Anomalies: 4",
        "Messages: none",
    ]
    assert more.endswith("safetyd report --date 2026-03-01")


def test_a_message_without_a_limit_names_no_budget(rich: DailyReport) -> None:
    endless = msgspec.structs.replace(rich.limits, budget_left_usd=None)

    text = note_text(msgspec.structs.replace(rich, limits=endless))

    assert "Cost: $5.00\n" in text


def test_a_day_without_events_says_so_in_every_form() -> None:
    empty = report_of_numbers({}, ReportScope(FIRST, FIRST, Policy(), so_far=True))

    for said in (markdown(empty), page(empty), note_text(empty)):
        assert "nothing was recorded" in said
    assert "(UTC, so far)" in markdown(empty)


def test_several_days_have_a_table() -> None:
    several = report_of_numbers(
        {FIRST: DayNumbers(events=1), SECOND: DayNumbers(events=1, stops=1)},
        ReportScope(FIRST, SECOND, Policy()),
    )

    said = markdown(several)

    assert "| 2026-03-01 | GREEN | 0 | 0 | 0 | $0.00 | - |" in said
    assert "| 2026-03-02 | RED | 0 | 0 | 0 | $0.00 | emergency stop |" in said
    assert "Safety Net Report - 2026-03-01 to 2026-03-02" in page(several)


def test_only_the_day_that_goes_on_is_called_today() -> None:
    days = {FIRST: DayNumbers(events=1), SECOND: DayNumbers(events=1)}
    so_far, past, several = (
        markdown(report_of_numbers(days, ReportScope(since, SECOND, Policy(), so_far=so_far)))
        for since, so_far in ((SECOND, True), (SECOND, False), (FIRST, True))
    )

    assert ("API cost today" in so_far, "today" in past, "today" in several) == (True, False, False)


def test_a_page_draws_decisions_and_cost_by_the_hour_and_confidence(
    rich: DailyReport,
) -> None:
    drawn = page(rich)

    assert drawn.count("<svg ") == 3
    assert re.search(r'<rect class="blocked" [^>]*><title>13:00 1 blocked</title>', drawn)
    assert re.search(r'<rect class="cost" [^>]*><title>13:00 \$[0-9.]+ cost</title>', drawn)
    assert "<script" not in drawn


def test_words_of_agents_are_markup_in_no_form() -> None:
    made = hostile()

    for said in (markdown(made), page(made)):
        assert "\x1b" not in said
    assert "<script>" not in page(made)
    assert "\n## GREEN" not in markdown(made)
    assert "`x`" not in markdown(made).replace("\\`", "")


def test_messages_and_changes_are_in_every_form() -> None:
    people = {"alice": PersonNumbers(messages=4, channels={"email": 4}, entries=4, echoes=3)}
    numbers = DayNumbers(events=1, people=people)
    policy = Policy(telling=TellingConfig(strategy="all"))
    made = report_of_numbers({FIRST: numbers}, ReportScope(FIRST, FIRST, policy))

    for said in (markdown(made), page(made), report_text(made)):
        assert "Changes that would have spared the most" in said
        assert "Use a further channel only if the first one fails (3 messages)" in said
        assert "strategy = " in said
        assert "4 (email 4)" in said
    assert "\nMessages: 4, at most 0 to one person in an hour\n" in note_text(made)
    assert "Messages" in {section.title for section in note_sheet(made).sections}
