"""What a mail says, without any server."""

from datetime import timedelta
from email.message import EmailMessage

import msgspec
import pytest

from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.email.mail_channel import MAX_BYTES, mail
from safetyd.notify.message import Notice, Topic
from safetyd.notify.sanitize import harmless, one_line
from tests.notify.message_samples import (
    AT,
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


def hostile_topic(said: str) -> Topic:
    shown, cut = harmless(said)
    line = one_line(said, 160)
    return request_topic(
        title=line, target=line, text=shown, cut=cut, why=shown, rules=(line,) * 5, session=line
    )


@pytest.mark.req("S3.30")
def test_a_request_says_what_who_why_until_when_and_how() -> None:
    said = text(notice())

    for words in (
        "push by code needs you.",
        "What        push example/repo main",
        "Who         code, session nightly",
        "Risk        high, hard to reverse",
        "Urgency     high",
        "Cost        $0.40, as the agent says",
        "Stopped by  classify.high: push needs a person",
        "Until       Tue 3 Mar 2026, 14:02 EST (in 24 hours).",
        "it does not happen.",
        "Exactly this would be done:\n  | git push --force origin main",
        "Why, the agent says:\n  | the release branch is behind",
        f"  {LINK}\n  Code: {CODE}\n",
        f"  safetyd approve {REQUEST} --digest 9f3c1a20b7de\n  safetyd deny {REQUEST}\n",
    ):
        assert words in said


def test_the_code_is_in_no_link() -> None:
    message = made(notice())

    links = [word for word in part(message, "html").split('"') if word.startswith("https://")]
    assert set(links) == {LINK, f"{LINK}?i=a", f"{LINK}?i=d"}
    assert all(CODE not in link for link in links)


def test_what_a_terminal_alone_can_approve_says_so() -> None:
    said = text(notice(request_topic(code="")))

    assert "This can be approved at a terminal only. The page shows and denies it." in said
    assert "Code" not in said


def test_no_line_of_an_agent_passes_for_ours() -> None:
    said = text(notice(request_topic(text="ok\n\nCode: 0000", why="y" * 200)))

    assert "  | ok\n  | \n  | Code: 0000\n" in said
    assert f"  | {'y' * 72}\n  + {'y' * 72}\n  + {'y' * 56}\n" in said


def test_what_is_left_out_is_counted() -> None:
    assert "(1,240 more characters on the review page)" in text(notice(request_topic(cut=1240)))
    assert "(1,240 more characters not shown)" in text(notice(alert_topic(cut=1240)))


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (timedelta(days=3, hours=5), "(in 3 days)"),
        (timedelta(hours=47), "(in 47 hours)"),
        (timedelta(minutes=90), "(in 90 min)"),
        (timedelta(days=7, seconds=-1), "(in 7 days)"),
        (timedelta(hours=8, seconds=-1), "(in 8 hours)"),
        (timedelta(minutes=1), "(in 1 min)"),
        (timedelta(seconds=59), "(in less than a minute)"),
        (timedelta(seconds=-5), "(in less than a minute)"),
    ],
)
def test_the_time_left_is_rounded_as_at_a_terminal(left: timedelta, said: str) -> None:
    assert said in text(notice(request_topic(until=AT + left)))


def test_a_request_may_have_no_end() -> None:
    said = text(notice(request_topic(until=None, silence="Without an answer it stays paused.")))

    assert "Until       no end. Without an answer it stays paused." in said


def test_links_that_open_here_only_say_so() -> None:
    words = "Links open only on box, where safetyd runs."
    here = {"here_only": True, "machine": "box"}

    assert words in text(notice(**here))
    assert words in text(notice(request_topic(), alert_topic(), list_link="", **here))
    assert "Links open only on the machine where safetyd runs." in text(notice(here_only=True))
    assert words not in text(notice(machine="box"))
    assert words not in text(notice(alert_topic(), list_link="", **here))


@pytest.mark.parametrize(
    ("of", "subject"),
    [
        (notice(), "[safetyd] HIGH: push by code needs you"),
        (notice(request_topic(urgency="low")), "[safetyd] push by code needs you"),
        (notice(request_topic(kind="reminder")), "Re: [safetyd] HIGH: push by code needs you"),
        (
            notice(request_topic(kind="last_call")),
            "[safetyd] HIGH: Last call: push by code needs you",
        ),
        (
            notice(request_topic(kind="expired")),
            "[safetyd] Expired without an answer: push by code",
        ),
        (notice(alert_topic()), "[safetyd] CRITICAL: error rate of code"),
        (notice(alert_topic(kind="test", title="A test")), "[safetyd] [TEST] A test"),
        (notice(*[request_topic()] * 20), "[safetyd] HIGH: 20 requests wait for you"),
        (
            notice(*[request_topic(urgency="low")] * 20, more=1480),
            "[safetyd] 1,500 requests wait for you",
        ),
        (
            notice(request_topic(), request_topic(), urgency="low", digest=True),
            "[safetyd] While it was quiet: 2 requests wait for you",
        ),
        (
            notice(request_topic(urgency="low"), *[alert_topic(urgency="low")] * 2, more=7),
            "[safetyd] 1 request, 2 alerts and 7 more",
        ),
        (
            notice(request_topic(), alert_topic(urgency="low"), alert_topic(), more=7),
            "[safetyd] CRITICAL: error rate of code, and 1 request, 1 more alert and 7 more",
        ),
        (
            notice(request_topic(), alert_topic(), request_topic()),
            "[safetyd] CRITICAL: error rate of code, and 2 requests",
        ),
        (
            notice(alert_topic(urgency="low"), alert_topic(urgency="normal", title="LOUD"), more=1),
            "[safetyd] LOUD, and 2 more alerts",
        ),
        (notice(alert_topic(), more=7), "[safetyd] CRITICAL: error rate of code, and 7 more"),
        (notice(alert_topic(), alert_topic(), privacy="minimal"), "[safetyd] HIGH: 2 alerts"),
        (notice(topics=(), urgency="low", more=3), "[safetyd] 3 more"),
        (
            notice(alert_topic(kind="summary", urgency="low"), alert_topic(kind="expired")),
            "[safetyd] 1 summary and 1 expired request",
        ),
        (notice(*[alert_topic(kind="summary")] * 2, urgency="low"), "[safetyd] 2 summaries"),
        (notice(privacy="minimal"), "[safetyd] HIGH: 1 request waits for you"),
        (
            notice(request_topic(kind="reminder"), privacy="minimal"),
            "[safetyd] HIGH: 1 request waits for you",
        ),
        (notice(alert_topic(), privacy="minimal"), "[safetyd] 1 alert"),
        (notice(request_topic(title="a\r\nBcc: b")), "[safetyd] HIGH: a Bcc: b needs you"),
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


def test_a_batch_is_in_no_thread() -> None:
    message = made(notice(request_topic(), request_topic(), urgency="normal"))

    assert message["References"] is None
    assert message["Importance"] is None


def test_a_sender_may_have_a_name() -> None:
    message = mail(notice(), "Gate <gate@example.com>", "box")

    assert message["From"] == "Gate <gate@example.com>"


@pytest.mark.req("S3.30")
def test_a_batch_tells_of_each_and_of_how_many_more() -> None:
    topics = [request_topic(title=f"push by code-{number}") for number in range(19)]
    said = text(notice(*topics, request_topic(kind="reminder", code="", why=""), more=3))

    assert all(f"{number + 1}. HIGH: push by code-{number}\n" in said for number in range(19))
    assert "20. HIGH: Reminder: push by code\n" in said
    assert said.count(f"  {LINK}\n") == 20
    assert said.count(f"  Code to approve: {CODE}\n") == 19
    assert said.count(f"  safetyd approve {REQUEST} --digest 9f3c1a20b7de\n") == 20
    assert f"+3 more\n\nAll of them on one page:\n  {LIST_LINK}\n" in said
    assert "At a terminal:\n  safetyd list\n" in said


def test_a_batch_tells_of_each_how_dangerous_it_is_and_what_stopped_it() -> None:
    bold = request_topic(rules=("gate.irreversible: it deletes", "classify.high: it writes"))

    message = made(notice(request_topic(reversibility="irreversible"), bold, alert_topic()))

    for said in (part(message, "plain"), part(message, "html")):
        flat = " ".join(said.split())
        costs = "costs $0.40, as the agent says;"
        risks = (f"Risk: high, irreversible; {costs}", f"Risk: high, hard to reverse; {costs}")
        assert f"{risks[0]} stopped by classify.high: push needs a person" in flat
        assert f"{risks[1]} stopped by gate.irreversible: it deletes (and 1 more rule)" in flat
        assert flat.count("Risk:") == 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_description_does_not_pass_for_what_would_be_done(count: int) -> None:
    described = request_topic(text="Push the fix", exact=False)
    bare = request_topic(text="", exact=False)

    messages = made(notice(*[described] * count)), made(notice(*[bare] * count))

    for kind in ("plain", "html"):
        told, silent = (part(message, kind) for message in messages)
        assert "Exactly this" not in f"{told}{silent}"
        assert told.count("It gave no exact text. The agent describes it as:") == count
        assert told.count("Push the fix") == count
        assert silent.count("It gave no exact text.") == count
        assert "describes it as" not in silent


def test_own_words_are_broken_between_words_and_commands_not_at_all() -> None:
    lead = "The server of the mails refuses every message that it is given since a while."
    command = "safetyd notify retry --channel email"
    quoted = "`safetyd resume --agent nightly`"
    alert = alert_topic(
        text=f"{lead} Now: {command}\n{lead} Until {quoted}.\n{' ' * 99}\n{'x' * 90}"
    )

    lines = text(notice(alert)).splitlines()

    assert all(len(line) <= 76 for line in lines if "x" * 90 not in line)
    assert "  | The server of the mails refuses every message that it is given since a" in lines
    assert f"  + while. Now: {command}" in lines
    assert f"  + while. Until {quoted}." in lines
    assert f"  | {'x' * 90}" in lines


def test_only_who_is_asked_is_shown_the_list() -> None:
    alerts = [alert_topic()] * 2

    assert "At a terminal" not in text(notice(*alerts, list_link=""))
    assert "At a terminal:\n  safetyd status\n" in text(notice(*alerts, more=3))
    assert "At a terminal:\n  safetyd list\n" in text(notice(*alerts, request_topic()))


def test_each_of_several_is_kept_short() -> None:
    long = request_topic(text="a\n" * 200, cut=5)

    said = text(notice(long, request_topic()))

    assert said.count("  | a\n") == 6
    assert "(394 more characters on the review page)" in said


def test_a_report_among_others_is_told_whole_and_leads_the_subject() -> None:
    lines = "\n".join(f"RED rule {number} held." for number in range(40))
    report = msgspec.structs.replace(report_topic(), urgency="normal", text=lines)
    calm = alert_topic(urgency="normal")

    message = made(notice(calm, report, request_topic(urgency="normal"), urgency="normal"))

    words = part(message, "plain")
    assert message["Subject"] == (
        "[safetyd] RED: daily report of 2026-03-01 (UTC), and 1 alert and 1 request"
    )
    assert "  | RED rule 39 held." in words
    assert "more characters" not in words


def test_a_report_does_not_lead_before_what_is_urgent() -> None:
    report = msgspec.structs.replace(report_topic(), urgency="normal")

    message = made(notice(report, request_topic(urgency="high"), urgency="high"))

    assert message["Subject"].startswith("[safetyd] HIGH: ")
    assert "RED" not in message["Subject"]


@pytest.mark.parametrize(("length", "cut"), [(199, 0), (200, 40)])
def test_nothing_is_cut_to_save_a_few_characters(length: int, cut: int) -> None:
    words = text(notice(alert_topic(text="€" * length), alert_topic()))

    assert words.count("€") == length - cut
    assert (f"({cut} more characters not shown)" in words) == bool(cut)


def test_an_alert_is_told_in_its_own_words() -> None:
    said = text(notice(alert_topic(count=3)))

    assert said.startswith("CRITICAL: error rate of code.\n")
    assert "Who         code\nWhen        Mon 2 Mar 2026, 14:02 EST\nTimes       3\n" in said
    assert "  | 9 of the last 10 actions failed." in said
    assert "At a terminal" not in said


@pytest.mark.req("S3.42")
def test_the_summary_of_a_session_is_sent_whole() -> None:
    lines = [f"{number:3}. push      approved" for number in range(120)]
    summary = alert_topic(kind="summary", title="Session nightly of code", text="\n".join(lines))

    message = made(notice(summary, urgency="low"))

    assert message["Subject"] == "[safetyd] Session nightly of code"
    assert all(f"  | {line}\n" in part(message, "plain") for line in lines)
    assert "119. push&nbsp; &nbsp; &nbsp; approved" in part(message, "html")


def test_a_test_message_opens_a_page() -> None:
    said = text(notice(alert_topic(kind="test", link=LINK)))

    assert f"To open it:\n  {LINK}\n" in said
    assert "To approve" not in said


def test_the_small_print_says_what_else_is_to_be_known() -> None:
    said = text(notice(again=True, held_back=1200))

    assert "Held back because it is less urgent: 1,200 (safetyd list)" in said
    assert "You may have received this message before." in said


@pytest.mark.parametrize("topics", [(request_topic(),), (request_topic(), request_topic())])
def test_a_channel_of_less_trust_hears_who_wants_what_sort_of_thing(
    topics: tuple[Topic, ...],
) -> None:
    message = made(notice(*topics, privacy="summary"))

    for said in (part(message, "plain"), part(message, "html")):
        assert "push by code" in said
        assert LINK in said
        assert CODE in said
        assert "--force" not in said
        assert "release branch" not in said
        assert "example/repo" not in said
        assert "nightly" not in said


@pytest.mark.parametrize("topics", [(request_topic(),), (request_topic(), request_topic())])
def test_a_channel_of_least_trust_hears_how_many_wait(topics: tuple[Topic, ...]) -> None:
    message = made(notice(*topics, privacy="minimal"))

    for said in (part(message, "plain"), part(message, "html")):
        assert "for you" in said
        assert (LINK if len(topics) == 1 else LIST_LINK) in said
        assert "safetyd " in said
        assert "push" not in said
        assert "code," not in said


def test_what_is_not_told_can_be_looked_up() -> None:
    message = made(notice(alert_topic(), privacy="minimal"))

    assert "error rate" not in message.as_string()
    assert "At a terminal:\n  safetyd status\n" in part(message, "plain")


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("count", [1, 20])
def test_hostile_words_neither_break_a_mail_nor_make_it_large(said: str, count: int) -> None:
    message = made(notice(*[hostile_topic(said)] * count))

    sent = message.as_bytes()
    assert len(sent) <= MAX_BYTES
    assert sent.isascii()
    assert message["Bcc"] is None
    assert all(len(line) <= 998 for line in sent.split(b"\r\n"))
    assert "evil.example" not in part(message, "plain")


def test_a_mail_that_would_be_too_large_says_less() -> None:
    topic = request_topic(text="&" * 50_000, why="'" * 50_000, rules=("<" * 9_000,) * 5)

    one, many = made(notice(topic)), made(notice(*[topic] * 20))

    assert len(one.as_bytes()) <= MAX_BYTES
    assert len(many.as_bytes()) <= MAX_BYTES
    assert "(49,500 more characters on the review page)" in part(one, "plain")


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


@pytest.mark.parametrize("kind", ["plain", "html"])
def test_the_parts_of_a_command_are_told_where_the_channel_is_trusted(kind: str) -> None:
    topic = request_topic(parts=("rm x: deletes x", "and 2 more"))

    full, guarded = (made(notice(topic, privacy=privacy)) for privacy in ("full", "summary"))

    assert "rm x: deletes x" in part(full, kind)
    assert "rm x: deletes x" not in part(guarded, kind)
