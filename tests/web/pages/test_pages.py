"""The pages behind links. Words of agents are shown whole and never act."""

import base64
import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.cards.request_card import request_card
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import Paused, Stopped
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.policy import Policy
from safetyd.core.text.visible_text import pieces
from safetyd.html_templates import seen
from safetyd.notify.links.sent_links import SentLink
from safetyd.notify.links.tokens import Signer
from safetyd.web.link_view import MAX_LISTED, LinkView, look
from safetyd.web.pages.page_frame import POLICY, STYLE
from safetyd.web.pages.request_page import FormDraft, about, request_page
from safetyd.web.pages.result_pages import ago, list_page, moment, pairing_page, told_page
from tests.core.approvals.queue_story import QueueStory
from tests.story import NOON, at
from tests.web.link_site import KEY
from tests.web.pages.page_reader import Reader, view

HOSTILE = (
    "</pre><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><h1>Approved</h1>",
    "<form action=https://evil.example><button>Approve</button></form>",
    "\u202egnp.exe\u202c \u2066x\u2069",
    "\x1b[31m\x00\x07\r\n\u2028\u2029\u200b\ufeff\U000e0041\u3164\u2800\ufe0f",
    "'; -- `id` $(id)",
    "&lt;b&gt; &#x3c;",
    "Z̸̢̛a̷l̶g̵o̴",
)


def paused(source: Literal["operator", "anomaly", "budget"]) -> Paused:
    return Paused(at=at(0), t=0.0, agent="code", source=source, by="bob", reason="loops")


def stopped() -> Stopped:
    return Stopped(at=at(0), t=0.0, source="operator", by="bob", reason="drill", epoch=1)


def card(**fields: object) -> Reader:
    """Return the page of a request for such a proposal."""
    queue = QueueStory()
    request_id = queue.asks(0, **fields).request_id  # type: ignore[arg-type]
    return Reader(request_page(view(queue, request_id), FormDraft("nonce")))


@pytest.mark.req("S3.30")
def test_card_has_everything_a_person_should_see_before_answering() -> None:
    queue = QueueStory()
    before = queue.asks(0, "p0", text="git push origin old").request_id
    queue.answers(2, before, "denied", words="not on a Friday")
    request_id = queue.asks(
        3,
        text="git push origin main",
        description="Push the release",
        rationale="The tests pass",
        rollback="git revert",
        cost_usd=0.4,
        paths=("src/a.py",),
        cwd="/srv/shop",
        context=msgspec.Raw(b'{"diff": "-old\\n+new", "tests": {"passed": 12}, "tags": [1, "x"]}'),
        extra=msgspec.Raw(b'{"ticket": "OPS-12"}'),
    ).request_id
    seen_now = view(queue, request_id)

    page = Reader(request_page(seen_now, FormDraft("nonce")))

    for field in request_card(seen_now.request, UTC, seen_now.at).fields:
        assert field.title in page.text
        assert field.text in (page.boxes if field.agent else page.text)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (paused("operator"), "code was paused at 12:00Z by bob: loops."),
        (stopped(), "emergency stop is active since 12:00Z by bob: drill."),
    ],
)
def test_page_says_before_an_answer_that_an_approval_would_be_held(event: Event, why: str) -> None:
    queue = QueueStory()
    request_id = queue.asks(0).request_id
    before = request_page(view(queue, request_id), FormDraft("n"))
    queue.happens(event)

    page = request_page(view(queue, request_id), FormDraft("n"))

    held = f"An approval takes effect only after this ends: {why}"
    assert "is recorded and held" not in before
    assert held in page
    assert page.index(held) < page.index("<button")


def test_page_does_not_wait_for_the_end_of_a_pause_that_its_answer_ends() -> None:
    queue = QueueStory(Policy(budget=BudgetConfig(session_usd=1.0)))
    asked = queue.asks(0, cost_usd=2.0)
    queue.happens(paused("budget"))

    seen_now = view(queue, asked.request_id)

    request = queue.engine.approvals.find(asked.request_id or "")
    assert request is not None
    assert (request.pauses, seen_now.holds) == ("budget", "")


def test_form_asks_for_the_code_as_telephones_like_it() -> None:
    page = card()

    for attribute in (
        ("method", "post"),
        ("inputmode", "numeric"),
        ("autocomplete", "one-time-code"),
        ("maxlength", "400"),
        ("value", "nonce"),
    ):
        assert attribute in page.attributes
    values = [value for name, value in page.attributes if name == "value"]
    assert values == ["nonce", "approve", "deny"]
    assert "action" not in dict(page.attributes)


def test_nothing_that_would_be_approved_is_cut() -> None:
    text = "\n".join(f"line {n}" for n in range(900))
    context = msgspec.json.encode({"diff": "x" * 30_000})

    page = card(text=text, context=msgspec.Raw(context))

    assert page.boxes[0] == text
    assert page.boxes[1] == "x" * 30_000


def test_a_refused_form_keeps_its_comment() -> None:
    queue = QueueStory()
    request_id = queue.asks(0).request_id
    draft = FormDraft("nonce", "No <code>.", "</textarea><script>x</script>", "a")

    page = Reader(request_page(view(queue, request_id), draft))

    no_markup(page)
    assert "No <code>." in page.text
    assert "</textarea><script>x</script>" in page.text


def no_markup(page: Reader) -> None:
    assert not {"script", "img", "iframe", "object", "link", "base", "svg"} & set(page.tags)
    assert page.tags.count("form") <= 1
    assert not any(name.startswith("on") or name == "style" for name, _ in page.attributes)


@pytest.mark.parametrize("words", HOSTILE)
@pytest.mark.parametrize("field", ["text", "description", "rationale", "rollback", "session"])
def test_hostile_words_are_shown_and_do_nothing(field: str, words: str) -> None:
    page = card(**{field: words})

    no_markup(page)
    assert "".join(part for part, _ in pieces(words)) in page.boxes
    assert not set("\u202e\u202c\u2066\u2069\x1b\x00\u200b\ufeff\u2028") & set(page.text)


@given(st.text())
def test_any_text_keeps_a_page_in_order(words: str) -> None:
    page = Reader(told_page(words, words, tone="bad", command=words, about=f"x{words}"))

    no_markup(page)
    assert page.text.count("".join(part for part, _ in pieces(words))) >= 4


def test_spelt_out_parts_look_different_from_the_same_letters_written() -> None:
    assert seen("\u202e") == '<span class="odd">\\u202e</span>'
    assert seen("\\u202e<") == "\\u202e&lt;"


def listed(count: int, **fields: object) -> LinkView:
    queue = QueueStory()
    ids = []
    for n in range(count):
        agent = f"agent-{n % 7}"
        asked = queue.asks(0, f"p{n}", agent=agent, text=f"<b> push {n}", **fields)
        ids.append(asked.request_id or "")
    link = SentLink("dlv_1", "", "alice", "email", at(0), tuple(ids))
    return look(queue.engine, Moment(at(100), 100.0), link, Signer([KEY]))


@pytest.mark.req("S3.30")
@pytest.mark.parametrize(
    ("count", "heading"),
    [(0, "No pending requests"), (1, "1 pending request"), (3, "3 pending requests")],
)
def test_list_says_how_many_wait(count: int, heading: str) -> None:
    page = Reader(list_page(listed(count)))

    assert heading in page.text
    assert page.boxes == [f"<b> push {n}" for n in range(count)]
    assert page.tags.count("a") == count
    assert page.text.count("24 h left") == count
    assert page.text.count("high risk") == count
    assert page.text.count("irreversible; classify.high: push cannot be") == count


def test_long_list_ends_with_a_number() -> None:
    page = Reader(list_page(listed(MAX_LISTED + 3)))

    assert f"{MAX_LISTED + 3} pending requests" in page.text
    assert "3 more: run safetyd list." in page.text
    assert page.tags.count("a") == MAX_LISTED


def test_pairing_page_has_one_button_and_harmless_names() -> None:
    page = Reader(pairing_page("<alice>", "nonce"))

    no_markup(page)
    assert "Pair this browser for <alice>?" in page.text
    assert [value for name, value in page.attributes if name == "value"] == ["nonce", "pair"]


def test_style_is_the_one_that_the_policy_permits() -> None:
    (style,) = re.findall("<style>(.*)</style>", told_page("x"), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert style == STYLE
    assert f"style-src 'sha256-{digest}';" in POLICY
    assert "url(" not in STYLE


def test_short_form_of_a_request_is_cut_and_says_so() -> None:
    queue = QueueStory()
    long = view(queue, queue.asks(0, text="x" * 1000).request_id).request
    bare = view(queue, queue.asks(0, "p2", text="").request_id).request

    assert about(long) == f"code: push\n{'x' * 300} … (1,000 characters)"
    assert about(bare) == "code: push"


@pytest.mark.parametrize(
    ("when", "shown"),
    [
        (NOON, "13:00 CET"),
        (datetime(2026, 3, 1, 23, 30, tzinfo=UTC), "Mon 2 Mar 00:30 CET"),
        (datetime(2026, 7, 1, 12, tzinfo=UTC), "Wed 1 Jul 14:00 CEST"),
    ],
)
def test_times_have_their_day_unless_it_is_today(when: datetime, shown: str) -> None:
    assert moment(when, ZoneInfo("Europe/Berlin"), NOON) == shown


def test_how_long_ago_something_was() -> None:
    assert ago(NOON, NOON + timedelta(seconds=7199)) == "1 h ago"


def test_the_parts_of_a_command_that_do_not_pass_are_marked_and_listed() -> None:
    queue = QueueStory(Policy(profile="coding"))
    text = "ls; rm -rf ~/'<b>'; echo ok"
    request_id = queue.asks(0, type="run_shell", text=text).request_id

    html = request_page(view(queue, request_id), FormDraft("nonce"))

    assert Reader(html).boxes[0] == text
    assert html.count("<mark>") == html.count("<dd>`rm") == 1
    assert '<pre class="said">ls; <mark>rm -rf ~/&#39;&lt;b&gt;&#39;</mark>; echo ok</pre>' in html
