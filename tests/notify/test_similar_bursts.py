"""A burst of similar requests, played through the outbox and the channels on virtual time."""

from pathlib import Path
from typing import Final

import pytest

from safetyd.console.daemon_config import read_config
from safetyd.rehearsal.day_facts import DayFacts
from safetyd.rehearsal.day_measures import measures
from safetyd.rehearsal.day_rehearsal import rehearse
from safetyd.rehearsal.story_file import load_story

CONFIG: Final = """
[notifications]
timezone = "UTC"
[notifications.email]
enabled = true
from = "safetyd@example.com"
smtp_host = "smtp.example.com"
[notifications.desktop]
enabled = false
[[recipients]]
name = "alice"
email = "alice@example.com"
"""
STORY: Final = """
title = "A burst"
start = "2026-03-10 08:00"
lasts = "3h"
[[people]]
name = "alice"
answers_after = ["2h", "2h"]
[[agents]]
name = "ops"
[[agents.does]]
action = {{ {action} }}
at = ["09:00"]
burst = 20
within = "40s"
"""


@pytest.mark.parametrize(
    "action",
    [
        'type = "db_write", text = "UPDATE items SET stock = stock - 1 WHERE sku = \'mug-{n}\'"',
        'type = "run_shell", text = "kubectl drain node-{n} --ignore-daemonsets"',
        'type = "run_shell", text = "certbot renew --cert-name shop-{n}.example.com"',
        'type = "delete_file", paths = ["/home/mara/Mail/newsletter-{n}.eml"]',
    ],
)
def test_a_burst_of_twenty_is_at_most_two_messages_with_at_most_three_entries(
    action: str, tmp_path: Path
) -> None:
    config, story = tmp_path / "safetyd.toml", tmp_path / "burst.story.toml"
    config.write_text(CONFIG)
    story.write_text(STORY.format(action=action))

    record = rehearse(load_story(story), read_config(config), config, None)

    value = {measure.name: measure.value for measure in measures(DayFacts(record))}
    (name,) = {name.rpartition(":")[0] for name in value if name.startswith("burst of 20")}
    messages, entries = value[f"{name}: messages"], value[f"{name}: entries"]
    assert value["requests"] == 20
    assert messages is not None
    assert entries is not None
    assert 1 <= messages <= 2
    assert 1 <= entries <= 3
    assert value["shown only as a count"] == 0
    assert (value["lines of the longest digest"] or 0) <= 80
