"""A digest has at most 80 lines of text, and names or links everything that it is about."""

import pytest

from safetyd.cards.digest_lines import MAX_LINES, line_of, merged
from safetyd.cards.note_cards import DigestCard, SingleCard
from safetyd.notify.compose import LISTED
from safetyd.notify.email.mail_channel import mail
from safetyd.notify.message import Notice
from safetyd.notify.ntfy.channel import MAX_BYTES, publication
from safetyd.notify.shortening import DIGEST_LINES, of_lines, versions
from tests.notify.message_samples import (
    LIST_LINK,
    alert_topic,
    notice,
    report_topic,
    request_topic,
)


def digest(count: int, agents: int, text: str = "git push", *notes: SingleCard) -> Notice:
    """Return a message about so many requests of so many agents, as it is composed."""
    cards = [
        request_topic(
            id=f"req_{n}",
            agent=f"agent-{n % agents}",
            text=f"{text} {n}",
            link=f"https://safety.example.com/d/{n}",
        )
        for n in range(count)
    ]
    shown = (*notes, *cards[:LISTED])
    lines = merged([line_of(card) for card in cards[LISTED:]], LIST_LINK)
    return notice(*shown, card=DigestCard(cards=shown, lines=lines, list_link=LIST_LINK))


def plain(made: Notice) -> str:
    return made.rendered("mail.txt", replies=False)


def refs(made: Notice) -> list[str]:
    return [ref for entry in (*made.cards, *made.lines) for ref in entry.refs]


def text(made: Notice) -> str:
    parts = mail(made, "safetyd@example.com", "host").iter_parts()
    return str(next(iter(parts)).get_content())


@pytest.mark.parametrize("agents", [1, 7, 100])
@pytest.mark.parametrize("count", [2, 5, 20, 21, 60, 100])
def test_a_digest_has_at_most_eighty_lines_and_loses_nothing(count: int, agents: int) -> None:
    made = digest(count, agents)

    short = of_lines(made, plain)
    said = text(made)

    assert said.count("\n") <= DIGEST_LINES
    assert sorted(refs(short)) == sorted(refs(made))
    assert all(entry.link for entry in (*short.cards, *short.lines))
    assert short.cards
    for card in short.cards:
        assert card in made.cards  # whole, with its code
    for line in short.lines:
        assert line.title in said
        assert line.link in said


def test_a_long_request_gets_a_line_and_the_others_keep_their_cards() -> None:
    long = request_topic(id="req_long", text="x\n" * 500)
    made = notice(long, *digest(3, 3).cards)

    short = of_lines(made, plain)

    assert [card.id for card in short.cards] == ["req_0", "req_1", "req_2"]
    assert [line.refs for line in short.lines] == [("req_long",)]


def test_alerts_and_reports_keep_their_cards() -> None:
    alert = alert_topic(text="why\n" * 90)
    made = digest(20, 5, "git push", alert, report_topic())

    short = of_lines(made, plain)

    assert [card.id for card in short.cards[:2]] == [alert.id, report_topic().id]
    assert plain(short).count("\n") < DIGEST_LINES
    assert sorted(refs(short)) == sorted(refs(made))


def test_one_request_is_never_cut_by_its_lines() -> None:
    made = notice(request_topic(text="x\n" * 500))

    assert of_lines(made, plain) is made


def test_every_shorter_version_of_a_digest_names_everything() -> None:
    made = digest(60, 9)

    for version in versions(made, MAX_BYTES):
        assert sorted(refs(version)) == sorted(refs(made))
    posted = publication(made, "topic", lambda *_: "")
    assert "requests: push by" in posted.message
    assert len(posted.message.encode()) <= MAX_BYTES


def test_too_many_lines_are_joined_by_agent_and_type_then_by_agent_then_all() -> None:
    def joined(agents: int, types: int) -> list[str]:
        cards = [
            request_topic(id=f"req_{n}", agent=f"a{n % agents}", type=f"t{n % types}")
            for n in range(60)
        ]
        lines = merged([line_of(card) for card in cards], LIST_LINK)
        assert {line.link for line in lines} == {LIST_LINK}
        assert sorted(ref for line in lines for ref in line.refs) == sorted(c.id for c in cards)
        assert len(lines) <= MAX_LINES
        return [line.title for line in lines]

    assert joined(1, 2) == ["30 requests: t0 by a0", "30 requests: t1 by a0"]
    assert joined(2, 60)[0] == "30 requests: 30 types by a0"
    assert joined(60, 60) == ["60 requests: 60 types by 60 agents"]


def test_a_line_has_the_beginning_of_the_text_and_says_if_it_is_over() -> None:
    line = line_of(request_topic(text="a" * 100, project="shop"))
    over = line_of(request_topic(kind="expired", text=""))

    assert line.title == f'push by code in shop: "{"a" * 59}…"'
    assert (line.kind, over.kind) == ("request", "expired")
    assert line_of(alert_topic()).title == "CRITICAL: error rate of code"
