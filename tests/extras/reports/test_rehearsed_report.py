"""The daily report and a rehearsal measure the same day alike."""

from pathlib import Path

from safetyd.console.daemon_config import read_config
from safetyd.core.daily_report.day_report import ReportScope, report_of_numbers
from safetyd.core.daily_report.report_fold import ReportFold
from safetyd.core.policy import Policy
from safetyd.rehearsal.day_facts import DayFacts
from safetyd.rehearsal.day_measures import measures
from safetyd.rehearsal.day_rehearsal import rehearse
from safetyd.rehearsal.story_file import load_story

CONFIG = """
[notifications]
timezone = "UTC"
[notifications.email]
enabled = true
from = "safetyd@example.com"
smtp_host = "localhost"
[[recipients]]
name = "ann"
email = "ann@example.com"
"""
STORY = """
title = "a day of pushes"
start = "2026-03-02 06:00"
lasts = "17h"
[[people]]
name = "ann"
answers_after = ["10m", "3h"]
ignores = 0.4
[[agents]]
name = "coder"
[[agents.does]]
action = { type = "push", text = "git push origin main" }
every = "40m"
timeout = "6h"
"""


def test_a_report_counts_messages_and_repeats_as_a_rehearsal_does(tmp_path: Path) -> None:
    story, config = tmp_path / "day.toml", tmp_path / "safetyd.toml"
    story.write_text(STORY)
    config.write_text(CONFIG)
    record = rehearse(load_story(story), read_config(config), config, tmp_path / "data")
    measured = {measure.name: measure for measure in measures(DayFacts(record))}
    fold = ReportFold()
    for event in record.events:
        fold.fold(event)

    day = record.times.start.date()
    part = report_of_numbers(fold.days, ReportScope(day, day, Policy())).messages
    numbers = fold.days[day].people["ann"]

    assert part.entries > part.messages
    assert part.messages == measured["ann: messages by email"].value
    assert part.worst_hour == measured["ann: mails, worst hour"].value
    assert f"{part.repeats} of {part.entries} entries" == measured["repeats"].detail
    assert numbers.only_reminders == measured["messages with only reminders"].value
    assert numbers.only_summaries == measured["messages with only summaries"].value
