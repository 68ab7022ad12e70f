"""What a mail says, without any server."""

from email import message_from_bytes, policy
from email.message import EmailMessage

import msgspec
import pytest

from safetyd.cards.note_cards import SummaryCard
from safetyd.cards.request_card import RequestCard
from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.email.mail_channel import MAX_BYTES, mail
from safetyd.notify.message import Notice
from safetyd.notify.sanitize import harmless, one_line
from safetyd.notify.shortening import DIGEST_LINES
from tests.notify.message_samples import (
    CODE,
    DELIVERY,
    HOSTILE,
    LINK,
    LIST_LINK,
    REQUEST,
    alert_topic,
    notice,
    report_topic,
    request_topic,
)


def made(of: Notice) -> EmailMessage:
    return mail(of, "safetyd@example.com", "box.example.com")


def text(of: Notice) -> str:
    return part(made(of), "plain")


def part(message: EmailMessage, kind: str) -> str:
    body = message.get_body((kind,))
    assert body is not None
    content = body.get_content()
    assert isinstance(content, str)
    return content


def test_the_code_is_in_no_link() -> None:
    message = made(notice())

    links = [word for word in part(message, "html").split('"') if word.startswith("https://")]
    assert set(links) == {LINK, f"{LINK}?i=a", f"{LINK}?i=d"}
    assert all(CODE not in link for link in links)


def test_no_line_of_an_agent_passes_for_ours() -> None:
    said = text(notice(request_topic(text="ok\n\nCode: 0000", why="y" * 200)))

    assert "  | ok\n  |\n  | Code: 0000\n" in said
    assert f"  | {'y' * 72}\n  + {'y' * 72}\n  + {'y' * 56}\n" in said


def test_links_that_open_here_only_say_so() -> None:
    here = {"here_only": True, "machine": "box"}

    assert "box" in notice(**here).reach
    assert notice(request_topic(), alert_topic(), list_link="", **here).reach
    assert notice(here_only=True).reach
    assert not notice(machine="box").reach
    assert not notice(alert_topic(), **here).reach


@pytest.mark.parametrize(
    ("of", "subject"),
    [
        (notice(), "HIGH: push by code: git push --force origin main"),
        (notice(request_topic(urgency="low")), "push by code: git push --force origin main"),
        (
            notice(request_topic(kind="last_call")),
            "HIGH: Last call: push by code: git push --force origin main",
        ),
        (
            notice(request_topic(kind="expired")),
            "Expired: push by code: git push --force origin main",
        ),
        (notice(alert_topic(count=3)), "CRITICAL: error rate of code (3 times)"),
        (notice(alert_topic(kind="test", title="A test")), "[TEST] A test"),
        (
            notice(*[request_topic()] * 20, more=3),
            "HIGH: 20 requests: push \N{MULTIPLICATION SIGN}20; 3 more",
        ),
        (
            notice(*[request_topic(urgency="low")] * 2, quiet=True),
            "After quiet hours: 2 requests: push \N{MULTIPLICATION SIGN}2",
        ),
        (
            notice(request_topic(urgency="low"), *[alert_topic(urgency="low")] * 2, more=7),
            "1 request: push; 2 alerts, 7 more",
        ),
        (
            notice(request_topic(urgency="low"), alert_topic(), more=7),
            "CRITICAL: error rate of code, and 8 more",
        ),
        (
            notice(report_topic(), request_topic(urgency="low")),
            "RED: daily report of 2026-03-01 (UTC), and 1 more",
        ),
        (notice(report_topic(), request_topic()), "HIGH: 1 request: push; 1 summary"),
        (notice(privacy="minimal"), "HIGH: 1 request"),
        (notice(alert_topic(), privacy="minimal"), "1 alert"),
    ],
)
def test_the_subject_says_what_it_is_about(of: Notice, subject: str) -> None:
    assert made(of)["Subject"] == subject


def test_headers_let_programs_thread_and_keep_quiet() -> None:
    message = made(notice())

    wanted = {
        "From": "safetyd <safetyd@example.com>",
        "To": "alice@example.com",
        "Date": "Mon, 02 Mar 2026 14:02:00 -0500",
        "Message-ID": f"<{DELIVERY}@box.example.com>",
        "In-Reply-To": f"<{REQUEST}@box.example.com>",
        "References": f"<{REQUEST}@box.example.com>",
        "Importance": "high",
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        "List-Id": "safetyd <safetyd.box.example.com>",
    }
    assert {name: str(message[name]) for name in wanted} == wanted
    named = mail(notice(), "Gate <gate@example.com>", "box")
    assert named["From"] == "Gate <gate@example.com>"


def test_a_batch_is_in_no_thread() -> None:
    message = made(notice(request_topic(), request_topic(), urgency="normal"))

    assert message["References"] is None
    assert message["Importance"] is None


@pytest.mark.req("S3.30")
def test_a_batch_tells_of_each_and_of_how_many_more() -> None:
    cards = [request_topic(agent=f"code-{number}") for number in range(19)]
    said = text(notice(*cards, request_topic(kind="reminder", code=""), more=3))

    assert all(f"push by code-{number}" in said for number in range(19))
    assert '- push by code: "git push --force origin main"\n' in said
    assert said.count(f"  {LINK}\n") == 20
    assert "3 more follow in the next message." in said
    assert f"\n  {LIST_LINK}\n" in said


def test_each_of_several_is_kept_short_and_then_offers_no_approval() -> None:
    said = text(notice(request_topic(text="a\n" * 2000), request_topic()))

    assert said.count("\n") < DIGEST_LINES
    assert '- push by code: "a a a' in said
    assert said.count(f"Code to approve: {CODE}") == 1


def test_a_report_among_others_is_told_whole() -> None:
    lines = "\n".join(f"RED rule {number} held." for number in range(40))
    report = msgspec.structs.replace(report_topic(), text=lines)

    message = made(notice(alert_topic(urgency="normal"), report))

    assert "RED rule 39 held." in part(message, "plain")
    assert "API cost today" in part(message, "html")
    assert "more characters" not in part(message, "plain")


@pytest.mark.req("S3.42")
def test_the_summary_of_a_session_is_sent_whole() -> None:
    lines = [f"{number:3}. push      approved" for number in range(120)]
    said = "\n".join(lines)
    summary = SummaryCard(id="note_1", title="Session nightly of code", text=said, urgency="low")

    message = made(notice(summary, urgency="low"))

    assert message["Subject"] == "Session nightly of code"
    assert all(f"  {line.strip()}\n" in part(message, "plain") for line in lines)
    assert "119. push&nbsp; &nbsp; &nbsp; approved" in part(message, "html")


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("count", [1, 20])
def test_hostile_words_neither_break_a_mail_nor_make_it_large(said: str, count: int) -> None:
    line, shown = one_line(said, 160), harmless(said).text
    card = request_topic(type=line, text=shown, target=line, why=shown, session=line)
    message = made(notice(*[card] * count))

    sent = message.as_bytes()
    assert len(sent) <= MAX_BYTES
    assert sent.isascii()
    assert message["Bcc"] is None
    assert all(len(line) <= 998 for line in sent.split(b"\r\n"))
    assert "evil.example" not in part(message, "plain")


def test_a_mail_that_would_be_too_large_drops_fields_and_names_them() -> None:
    card = request_topic(text="&" * 50_000, why="'" * 50_000)

    one, many = made(notice(card)), made(notice(*[card] * 20))

    assert len(one.as_bytes()) <= MAX_BYTES
    assert len(many.as_bytes()) <= MAX_BYTES
    assert "characters of the exact text" in part(one, "plain")
    assert CODE not in part(one, "plain")


@pytest.mark.req("S3.32")
@pytest.mark.parametrize(
    ("config", "server", "username"),
    [
        ({"smtp_host": "mail.example.com"}, ("mail.example.com", 587), ""),
        ({"smtp_host": "a.example", "smtp_port": 465, "username": "u"}, ("a.example", 465), "u"),
        ({"provider": "sendgrid"}, ("smtp.sendgrid.net", 587), "apikey"),
        (
            {"provider": "ses", "region": "eu-west-1", "username": "AK"},
            ("email-smtp.eu-west-1.amazonaws.com", 587),
            "AK",
        ),
    ],
)
def test_providers_are_servers_with_a_name(
    config: dict[str, object], server: tuple[str, int], username: str
) -> None:
    read = msgspec.convert(config, EmailConfig)

    assert read.server == server
    assert read.login_name == username


def replied_to(*cards: RequestCard) -> EmailMessage:
    """Return a mail that can be answered, as it arrives."""
    marks = lambda _delivery, ref: ref[-8:]  # noqa: E731
    sent = mail(notice(*cards), "safetyd@example.com", "box", "replies@example.com", marks)
    assert b"Message-ID: <dlv_" in sent.as_bytes()
    arrived = message_from_bytes(sent.as_bytes(), policy=policy.default)
    assert isinstance(arrived, EmailMessage)
    return arrived


def test_the_id_of_a_mail_marks_each_request_whose_code_it_shows() -> None:
    cards = [request_topic(id=f"req_{n:08}", code=f"{n:04}") for n in range(3)]
    shown, hidden = request_topic(), request_topic(code="")

    assert replied_to(shown)["Message-ID"] == f"<{DELIVERY}.{REQUEST[-8:]}@box>"
    assert replied_to(hidden)["Message-ID"] == f"<{DELIVERY}@box>"
    several = str(replied_to(*cards)["Message-ID"])
    assert several == f"<{DELIVERY}.{'.'.join(f'{n:08}' for n in range(3))}@box>"
    assert made(notice())["Message-ID"] == f"<{DELIVERY}@box.example.com>"


def test_a_mail_says_how_to_reply_if_a_reply_can_approve() -> None:
    can, cannot = replied_to(request_topic()), replied_to(request_topic(code=""))

    assert 'reply with "approve" or "deny"' in part(can, "plain")
    assert "To answer by mail" in part(can, "html")
    assert can["Reply-To"] == cannot["Reply-To"] == "replies@example.com"
    assert "Replies to this mail are not read." in part(cannot, "plain")
    assert made(notice())["Reply-To"] is None
