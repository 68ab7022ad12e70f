"""The examples of messages in notifications.md, from the gallery (`make gallery`)."""

import re
from textwrap import fill
from typing import Final

import msgspec

from safetyd.notify.channel_config import NotificationsConfig
from tests.gallery.gallery_examples import EXAMPLES

WIDTH: Final = 100
# The headings, examples and places.
SHOWN: Final = (
    ("A request by mail", "push", "email"),
    ("The same request by SMS", "push", "sms"),
    ("An SQL statement on the desktop", "sql", "desktop"),
    ("A purchase by SMS", "purchase", "sms"),
    ("A path with hidden characters on the desktop", "unicode-path", "desktop"),
    ("A command of 3,000 characters by SMS", "long-command", "sms"),
    ("A session that is over its budget, by Telegram", "over-budget", "telegram"),
    ("An agent that an anomaly paused, by SMS", "anomaly-pause", "sms"),
    ("An anomaly that stopped everything, by SMS", "anomaly-stop", "sms"),
    ("A used-up budget by mail", "budget-alert", "email"),
)
_between = re.compile(r"(?<=<!-- examples -->\n).*?(?=<!-- end of examples -->)", re.DOTALL).sub


def with_examples(document: str) -> str:
    """Return a document with the examples between its marks."""
    examples = "\n".join(_example(*one) for one in SHOWN)
    return _between(lambda _: f"\n{examples}\n", document)


def _example(heading: str, name: str, place: str) -> str:
    tables = dict(msgspec.convert({"sms": {"from": "+15550199"}}, NotificationsConfig).channels())
    text = tables[place].preview(EXAMPLES[name](place)).text
    rows = (fill(row, WIDTH, break_long_words=False) for row in text.rstrip().split("\n"))
    shown = "\n".join(rows)
    return f"**{heading}**\n\n```text\n{shown}\n```\n"
