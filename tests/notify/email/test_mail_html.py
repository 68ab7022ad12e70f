from html.parser import HTMLParser

import msgspec
import pytest

from safetyd.core.events.notification_events import NoteSheet
from safetyd.notify.email.mail_content import discreet
from safetyd.notify.email.mail_html import page
from safetyd.notify.message import Notice, Privacy
from safetyd.notify.sanitize import harmless, one_line
from tests.notify.message_samples import (
    CODE,
    HOSTILE,
    LINK,
    LIST_LINK,
    REQUEST,
    alert_topic,
    notice,
    report_topic,
    request_topic,
)

TAGS = {"html", "head", "meta", "title", "style", "body", "table", "tr", "td", "div", "a", "b"}
TAGS |= {"br", "span", "code"}
ATTRIBUTES = {"lang", "charset", "name", "content", "class", "style", "role", "width", "align"}
ATTRIBUTES |= {"cellpadding", "cellspacing", "border", "bgcolor", "href"}


class Reader(HTMLParser):
    """Sees a page as a mail program would."""

    def __init__(self, of: Notice) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.styles: list[str] = []
        self.seen: list[str] = []
        self.feed(page(of))
        self.close()
        assert self.open == []

    @property
    def text(self) -> str:
        return "".join(self.seen).replace("\xa0", " ")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.styles += [value or "" for name, value in attrs if name == "style"]
        if tag == "br":
            self.seen.append("\n")
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.styles if self.open[-1:] == ["style"] else self.seen).append(data)


@pytest.mark.req("S3.30")
def test_a_request_can_be_read_and_answered() -> None:
    topic = request_topic(text="git push\n  --force", cut=1240)

    reader = Reader(notice(topic, here_only=True, machine="box"))

    for words in (
        "HIGH",
        "push by code needs you",
        "Exactly this would be done",
        "git push\n  --force",
        "(1,240 more characters on the review page)",
        "Why, the agent says",
        "the release branch is behind",
        "classify.high: push needs a person",
        "Tue 3 Mar 2026, 14:02 EST (in 24 hours). Without an answer it does not happen.",
        CODE,
        "To approve, the page asks for this code. To deny, it does not.",
        "Links open only on box, where safetyd runs.",
        f"safetyd approve {REQUEST} --digest 9f3c1a20b7de",
    ):
        assert words in reader.text
    assert reader.links == [LINK, f"{LINK}?i=a", f"{LINK}?i=d"]


def test_what_a_terminal_alone_can_approve_has_no_such_button() -> None:
    reader = Reader(notice(request_topic(code="", link=f"{LINK}?x=1")))

    assert reader.links == [f"{LINK}?x=1", f"{LINK}?x=1&i=d"]
    assert "This can be approved at a terminal only." in reader.text


def test_without_a_link_the_terminal_remains() -> None:
    reader = Reader(notice(request_topic(link="", code="")))

    assert reader.links == []
    assert f"safetyd deny {REQUEST}" in reader.text


def test_a_batch_leads_to_the_list_and_to_each() -> None:
    at_a_terminal = request_topic(code="", urgency="low", why="")

    reader = Reader(notice(request_topic(), at_a_terminal, alert_topic(), more=2))

    assert reader.links == [LIST_LINK, LINK, LINK]
    assert "2 alerts" not in reader.text
    for words in ("+2 more", "safetyd list", "CRITICAL: error rate of code", f"code {CODE}"):
        assert words in reader.text.replace("  ", " ")
    assert reader.text.count(f"safetyd approve {REQUEST}") == 1


def test_a_batch_of_alerts_leads_nowhere() -> None:
    reader = Reader(notice(alert_topic(), alert_topic(), list_link=""))

    assert reader.links == []
    assert "safetyd list" not in reader.text


def test_a_test_message_opens_a_page() -> None:
    reader = Reader(notice(alert_topic(kind="test", link=LINK, text="")))

    assert reader.links == [LINK]
    assert "TEST" in reader.text
    assert "At a terminal" not in reader.text


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("count", [1, 3])
def test_hostile_words_are_words(said: str, count: int) -> None:
    shown, line = harmless(said).text, one_line(said, 160)
    topic = request_topic(
        title=line, action=line, target=line, text=shown, why=shown, agent=line, rules=(line,)
    )

    reader = Reader(notice(*[topic] * count))

    assert set(reader.links) <= {LINK, f"{LINK}?i=a", f"{LINK}?i=d", LIST_LINK}
    assert set(reader.tags) <= TAGS
    assert reader.attributes <= ATTRIBUTES
    assert reader.text.count(shown) >= count


@pytest.mark.parametrize(
    "of",
    [
        notice(),
        notice(request_topic(), alert_topic(), more=1),
        notice(alert_topic()),
        notice(report_topic()),
    ],
)
def test_a_page_fetches_nothing_and_runs_nothing(of: Notice) -> None:
    reader = Reader(of)

    assert set(reader.tags) <= TAGS
    assert reader.attributes <= ATTRIBUTES
    assert not any("url(" in style or "@import" in style for style in reader.styles)


# Whole, and as much of a long one as a message shows.
@pytest.mark.parametrize("counts", ["-1,2 +1,2", "-1,90 +1,91"])
def test_lines_of_a_diff_have_a_colour_and_keep_their_signs(counts: str) -> None:
    diff = f"--- a/x\n+++ b/x\n@@ {counts} @@\n-old  <b>\n+new\n same"
    whole = page(notice(request_topic(text=diff)))

    reader = Reader(notice(request_topic(text=diff)))

    assert diff in reader.text
    assert '<span class="removed" style="background:#ffe3e0">-old&nbsp; &lt;b&gt;</span>' in whole
    assert '<span class="added" style="background:#d7f5de">+new</span>' in whole


def test_lists_of_an_agent_are_not_taken_for_a_diff() -> None:
    whole = page(notice(request_topic(text="- one\n+ two", why="- three")))

    assert 'class="added"' not in whole
    assert 'class="removed"' not in whole


@pytest.mark.req("S4.28")
def test_a_daily_report_shows_its_colour_what_to_do_and_the_numbers() -> None:
    text = Reader(notice(report_topic())).text

    for said in (
        "RED: daily report of 2026-03-01 (UTC)",
        "RED 1 rollback of code once",
        "See what was put back: safetyd history.",
        "YELLOW 1 HIGH anomaly",
        "Layer 1: Cooldowns & Limits",
        "safetyd report --date 2026-03-01",
    ):
        assert said in text
    cells = text.replace("\n", "")
    assert "API cost today$5.00" in cells
    assert "Patterns observedcode once" in cells


def test_a_green_report_says_that_nothing_was_found() -> None:
    green = msgspec.structs.replace(report_topic(), sheet=NoteSheet(colour="GREEN"))

    assert "GREEN No rule found anything." in Reader(notice(green)).text


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
def test_words_of_agents_in_a_report_are_no_markup(said: str) -> None:
    shown = one_line(said.encode(errors="replace").decode(), 300)

    reader = Reader(notice(report_topic(shown)))

    assert set(reader.tags) <= TAGS
    assert reader.links == [LIST_LINK] * bool(reader.links)
    assert reader.text.count(shown) >= 2


def test_of_several_things_a_report_is_told_in_short() -> None:
    text = Reader(notice(report_topic(), alert_topic())).text

    assert "RED 1 rollback." in text
    assert "Layer 1" not in text


@pytest.mark.parametrize("privacy", ["summary", "minimal"])
def test_a_report_is_not_laid_out_where_the_channel_is_not_trusted(privacy: Privacy) -> None:
    guarded = discreet(notice(report_topic(), privacy=privacy))

    assert "API cost" not in Reader(guarded).text


def test_times_are_those_of_the_recipient() -> None:
    reader = Reader(notice())

    assert "SinceMon 2 Mar 2026, 14:02 EST" in reader.text.replace("\n", "")
    assert "UTC" not in reader.text
