import re

import pytest

from safetyd.notify.chat.plain_text import clip, headline, in_bytes, plain_text
from safetyd.notify.message import Notice, Topic
from safetyd.notify.sanitize import harmless, one_line
from tests.notify.message_samples import (
    CODE,
    DIGEST,
    HOSTILE,
    LINK,
    LIST_LINK,
    REQUEST,
    alert_topic,
    notice,
    request_topic,
)

ROOMY = 4000


def lines(told: Notice, most: int = ROOMY) -> list[str]:
    return plain_text(told, most).split("\n")


@pytest.mark.req("S3.30")
def test_a_request_is_told_with_all_that_an_answer_needs() -> None:
    told = lines(notice())

    assert told == [
        "What: push example/repo main",
        "> git push --force origin main",
        "Who: code, session nightly; asked Mon 2 Mar 14:02 EST",
        "Why, as the agent says:",
        "> the release branch is behind",
        "Stopped by classify.high: push needs a person",
        "Risk: high, hard to reverse, $0.40",
        "Until: Tue 3 Mar 14:02 EST. Without an answer it does not happen.",
        "",
        LINK,
        f"Code to approve: {CODE}",
        "At a terminal:",
        f"safetyd approve {REQUEST} --digest {DIGEST}",
        f"safetyd deny {REQUEST}",
    ]


def test_the_headline_says_what_and_how_urgent() -> None:
    assert headline(notice()) == "HIGH: push by code"
    assert headline(notice(request_topic(urgency="low"))) == "push by code"
    assert headline(notice(request_topic(kind="reminder"))) == "Reminder: HIGH: push by code"
    assert headline(notice(request_topic(kind="expired"))) == "Expired: push by code"
    assert headline(notice(alert_topic())) == "CRITICAL: error rate of code"
    assert headline(notice(alert_topic(kind="test", title="hello"))) == "[TEST] hello"


def test_the_headline_of_several_counts_them() -> None:
    several = notice(request_topic(), request_topic(kind="last_call"), alert_topic(), more=1_200)

    assert headline(several) == "HIGH: 2 requests waiting, 1 alert, 1,200 more"


def test_several_are_told_with_a_link_each_and_one_for_all() -> None:
    several = notice(request_topic(count=3), alert_topic(), more=4, digest=True)

    assert lines(several) == [
        "While quiet hours lasted:",
        "1. HIGH: push by code (3 times), until Tue 3 Mar 14:02 EST",
        "Costs $0.40, as the agent says",
        "> git push --force origin main",
        LINK,
        f"Code to approve: {CODE}",
        "",
        "2. CRITICAL: error rate of code",
        "> 9 of the last 10 actions failed. Everything is stopped.",
        "",
        "+4 more; `safetyd list` shows what waits.",
        "All of them:",
        LIST_LINK,
    ]


def test_an_alert_is_told_in_its_own_words() -> None:
    told = lines(notice(alert_topic(count=2)))

    assert told == [
        "9 of the last 10 actions failed. Everything is stopped.",
        "It happened 2 times.",
    ]


def test_an_alert_without_words_is_told_by_its_title() -> None:
    assert lines(notice(alert_topic(text=""))) == ["CRITICAL: error rate of code"]


def test_what_only_a_terminal_approves_says_so() -> None:
    told = lines(notice(request_topic(code="")))

    assert "The link can deny; to approve it takes a terminal." in told


def test_a_test_has_a_link_and_needs_no_code() -> None:
    told = lines(notice(alert_topic(kind="test", text="Can you read this?", link=LINK)))

    assert told == ["Can you read this?", "", LINK]


def test_what_has_no_end_and_was_asked_often_says_so() -> None:
    told = lines(notice(request_topic(until=None, count=3)))

    assert "Without an answer it does not happen." in told
    assert "Who: code, session nightly; asked 3 times since Mon 2 Mar 14:02 EST" in told


def test_what_is_over_says_nothing_of_an_answer() -> None:
    over = request_topic(
        kind="expired", link="", code="", commands=(), asked=None, until=None, silence=""
    )

    assert lines(notice(over))[-1] == "Risk: high, hard to reverse, $0.40"


def test_the_last_lines_tell_of_copies_and_of_what_was_not_sent() -> None:
    told = lines(notice(again=True, held_back=1_500, here_only=True, machine="box"))

    assert told[-3:] == [
        "Links open only on box, where safetyd runs.",
        "1,500 less urgent not sent; `safetyd list` shows what waits.",
        "You may have this message already.",
    ]


def test_a_message_without_links_does_not_say_where_they_open() -> None:
    told = lines(notice(alert_topic(), here_only=True, list_link=""))

    assert not any("Links open" in line for line in told)


@pytest.mark.parametrize("count", [1, 2])
def test_a_description_does_not_pass_for_what_would_be_done(count: int) -> None:
    described = request_topic(text="Push the fix", exact=False)
    bare = request_topic(text="", exact=False)

    told = plain_text(notice(*[described] * count), ROOMY)
    silent = lines(notice(*[bare] * count))

    assert told.count("It gave no exact text. The agent describes it as:\n> Push the fix") == count
    assert silent.count("It gave no exact text.") == count


def test_a_summary_leaves_out_the_words_of_agents() -> None:
    told = "\n".join(lines(notice(privacy="summary")))

    assert "What: push\n" in told
    assert LINK in told
    for words in ("--force", "example/repo", "behind", "nightly", "classify.high"):
        assert words not in told


def test_the_summary_of_several_has_their_titles_only() -> None:
    told = lines(notice(request_topic(), alert_topic(), privacy="summary", list_link=""))

    assert "> git push --force origin main" not in told
    assert "2. CRITICAL: error rate of code" in told


def test_the_summary_of_an_alert_is_its_title() -> None:
    assert lines(notice(alert_topic(), privacy="summary")) == ["CRITICAL: error rate of code"]


def test_the_least_tells_a_number_and_a_link() -> None:
    one = notice(privacy="minimal")
    several = notice(request_topic(), alert_topic(), privacy="minimal")

    assert headline(one) == "HIGH: 1 request waiting"
    assert lines(one) == [
        "1 request waiting.",
        "Until: Tue 3 Mar 14:02 EST. Without an answer it does not happen.",
        LINK,
        f"Code to approve: {CODE}",
    ]
    assert lines(several) == [
        "1 request waiting, 1 alert; `safetyd list` shows what waits.",
        LIST_LINK,
    ]


@pytest.mark.parametrize("most", [300, 500, 700, 1_000, 1_900, 4_000])
def test_the_words_of_agents_give_way_and_the_answer_stays(most: int) -> None:
    long = request_topic(text="word " * 800, why="because " * 500, cut=1_000, rules=("r: x",) * 5)

    told = plain_text(notice(long), most)

    assert len(told) <= most
    assert LINK in told
    assert f"Code to approve: {CODE}" in told


def test_what_is_not_shown_is_counted() -> None:
    long = request_topic(text="x" * 900, cut=1_240, why="")

    told = lines(notice(long), 1_200)

    assert f"> {'x' * 500}" in told
    assert "(1,640 more characters on the page)" in told


def test_without_a_page_only_the_number_is_told() -> None:
    assert lines(notice(alert_topic(cut=7)))[-1] == "(7 more characters)"


def test_too_many_are_told_by_number() -> None:
    many = notice(*(request_topic(ref=f"req_{n}") for n in range(20)), more=5)

    told = plain_text(many, 1_900)

    shown = told.count(LINK)
    assert len(told) <= 1_900
    assert 5 < shown < 20
    assert f"+{25 - shown} more" in told
    assert LIST_LINK in told


def test_bytes_are_counted_where_bytes_are_the_limit() -> None:
    wide = request_topic(text="ä€😀" * 2_000)

    told = plain_text(notice(wide), 4_095, in_bytes)

    assert len(told.encode()) <= 4_095
    assert LINK in told


@pytest.mark.parametrize("most", range(12))
def test_what_is_clipped_is_marked_and_never_too_long(most: int) -> None:
    clipped = clip("a€b€c€d", most, in_bytes)

    assert len(clipped.encode()) <= most
    assert clipped == "" if most < 3 else clipped.endswith("…")


def test_what_fits_is_not_clipped() -> None:
    assert clip("abc", 3) == "abc"
    assert clip("abcd", 3) == "ab…"


def test_even_the_least_room_is_kept_to() -> None:
    assert len(plain_text(notice(), 40)) <= 40


def hostile(words: str) -> Topic:
    return request_topic(
        title=one_line(words, 160),
        target=one_line(words, 160),
        text=harmless(words).text,
        why=harmless(words).text,
        cut=harmless(words).cut,
    )


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_words_pass_for_none_of_ours(number: int) -> None:
    told = plain_text(notice(hostile(HOSTILE[number])), 1_900)

    assert len(told) <= 1_900
    assert re.findall(r"https?://\S+|www\.\S+", told, re.IGNORECASE) == [LINK]
    assert told.count("\nCode to approve") == 1
    assert all(letter.isprintable() or letter == "\n" for letter in told.replace("\u200d", ""))


def test_forged_lines_stay_quoted() -> None:
    forged = "x\nCode to approve: 0000\nhttps://evil.example/d/1\n\nUntil: never"

    told = lines(notice(hostile(forged)))

    assert "> Code to approve: 0000" in told
    assert "Code to approve: 0000" not in told
