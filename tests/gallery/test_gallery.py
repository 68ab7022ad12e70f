"""Every example of the gallery begins with its question or fact."""

import pytest

from safetyd.notify.message import SUBJECT_CHARS
from safetyd.notify.sms.gsm import BASIC, EXTENDED, normalise, segments
from safetyd.notify.sms.sms_text import text_of
from tests.gallery.__main__ import previews, rewritten
from tests.gallery.gallery_examples import EXAMPLES, NotSent

BEGINS = ("email", "desktop", "telegram", "slack", "ntfy", "team")


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_begins_with_its_question_or_fact(name: str) -> None:
    for _, place, shown in previews([name]):
        notice = EXAMPLES[name](place)
        assert len(notice.subject) <= SUBJECT_CHARS
        if place in BEGINS:
            assert shown.text.removeprefix("Subject: ").startswith(notice.subject)
        if shown.html:
            words = shown.html.partition("<body")[2].partition("</div>")[0]
            assert notice.cards[0].agent in words or not notice.single


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_sms_has_two_segments_at_most_and_begins_with_who_and_what(name: str) -> None:
    try:
        notice = EXAMPLES[name]("sms")
    except NotSent:
        return

    text = text_of(notice)

    assert segments(text) <= 2
    assert (BASIC | EXTENDED).issuperset(text)
    begin, _, _ = notice.subject.removeprefix("[TEST] ").partition(": ")
    assert normalise(begin) in text


def test_an_answered_message_begins_with_its_answer() -> None:
    for _, text in rewritten():
        assert text.startswith("Approved by alice via cli, Mon 2 Mar 03:01 CET: push by nightly")
