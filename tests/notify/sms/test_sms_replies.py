from datetime import UTC, datetime, timedelta

import pytest
from multidict import MultiDict
from twilio.request_validator import RequestValidator  # type: ignore[import-untyped]

from safetyd.notify.code_replies import CodeAnswer, Patience
from safetyd.notify.sms.gsm import ONE, normalise, septets
from safetyd.notify.sms.sms_replies import (
    HELP,
    SAID,
    STOP_WORDS,
    Reply,
    parse,
    signed,
    twiml,
)
from tests.notify.sms.twilio_stand_in import AUTH_TOKEN

URL = "https://safety.example.com/sms/in"
FORM = {"From": "+15550100", "Body": "A 4821", "AccountSid": "AC0", "To": "", "Ünï": "cödé €"}


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ("A 4821", CodeAnswer(approve=True, code="4821")),
        ("D 4821", CodeAnswer(approve=False, code="4821")),
        (" a4821\n", CodeAnswer(approve=True, code="4821")),
        ("d\u00a0482157", CodeAnswer(approve=False, code="482157")),
    ],
)
@pytest.mark.req("S3.25")
def test_a_letter_and_a_code_are_an_answer(body: str, meant: Reply) -> None:
    assert parse(body) == meant


@pytest.mark.parametrize(
    "body",
    [
        "",
        "YES",
        "START",
        "approve 4821",
        "4821",
        "A",
        "A 482",
        "A 4821577",
        "A 4821 D 4821",
        "A 4821 please",
        "AD 4821",
        "A ٤٨٢١",
        "А 4821",  # noqa: RUF001 - Cyrillic
        "do not A 4821",
        "stop it",
    ],
)
def test_nothing_else_is_an_answer(body: str) -> None:
    assert parse(body) == "unclear"


@pytest.mark.parametrize("word", [*sorted(STOP_WORDS), "stop", " Stop\n"])
def test_words_that_opt_out_stop(word: str) -> None:
    assert parse(word) == "stop"


@pytest.mark.parametrize("text", [HELP, *SAID.values()])
def test_what_is_said_in_return_is_one_segment(text: str) -> None:
    assert normalise(text) == text
    assert septets(text) <= ONE


def test_no_advice_is_a_word_that_carriers_keep() -> None:
    said = {word.strip(".,;:").upper() for text in (HELP, *SAID.values()) for word in text.split()}

    assert not said & (STOP_WORDS | {"YES", "START", "UNSTOP"})


def minute(number: float) -> datetime:
    return datetime(2026, 3, 2, 22, tzinfo=UTC) + timedelta(minutes=number)


MORNING = minute(9 * 60)


def test_who_tries_codes_is_ignored_until_morning() -> None:
    patience = Patience()

    for number in range(5):
        assert not patience.ignores("+15550100", minute(number))
        patience.failed("+15550100", minute(number), MORNING)

    assert patience.ignores("+15550100", minute(5))
    assert not patience.ignores("+15550101", minute(5))
    assert not patience.ignores("+15550100", MORNING)


def test_a_slip_now_and_then_is_forgiven() -> None:
    patience = Patience()

    for number in range(20):
        patience.failed("+15550100", minute(number * 15), MORNING)

    assert not patience.ignores("+15550100", minute(300))


def test_a_right_code_makes_up_for_wrong_ones() -> None:
    patience = Patience()

    for number in range(20):
        if number % 4 == 0:
            patience.answered("+15550100")
        patience.failed("+15550100", minute(number), MORNING)

    assert not patience.ignores("+15550100", minute(20))


def test_two_machines_do_not_write_to_each_other_for_ever() -> None:
    patience = Patience()

    replied = [patience.may_reply("+15550100") for _ in range(7)]
    patience.answered("+15550100")

    assert replied == [True] * 5 + [False] * 2
    assert patience.may_reply("+15550100")


def test_an_answer_to_twilio_is_escaped() -> None:
    assert "<Message>a &lt;b&gt; &amp; c</Message>" in twiml("a <b> & c")
    assert twiml().endswith("<Response></Response>")


@pytest.mark.parametrize(
    "url",
    [
        URL,
        URL + "?a=1&b=%20",
        "https://safety.example.com:8443/sms/in",
        "http://127.0.0.1:8080/sms/in",
        "http://[::1]:8080/sms/in",
    ],
)
@pytest.mark.parametrize("form", [FORM, {}])
def test_what_twilio_signed_is_believed(url: str, form: dict[str, str]) -> None:
    signature = RequestValidator(AUTH_TOKEN).compute_signature(url, form)

    assert signed(AUTH_TOKEN, url, form, signature)


@pytest.mark.parametrize(
    ("known", "used"),
    [
        (URL, "https://safety.example.com:443/sms/in"),
        ("https://safety.example.com:443/sms/in", URL),
        ("http://safety.example.com/in", "http://safety.example.com:80/in"),
        ("https://safety.example.com:8443/in", "https://safety.example.com/in"),
    ],
)
def test_a_port_may_be_left_out_of_what_is_signed(known: str, used: str) -> None:
    validator = RequestValidator(AUTH_TOKEN)
    signature = validator.compute_signature(used, FORM)

    assert validator.validate(known, FORM, signature)
    assert signed(AUTH_TOKEN, known, FORM, signature)


def test_all_values_of_a_field_are_signed() -> None:
    form = MultiDict([("b", "2"), ("b", "1"), ("a", "x"), ("b", "2")])
    signature = RequestValidator(AUTH_TOKEN).compute_signature(URL, form)

    assert signed(AUTH_TOKEN, URL, form, signature)
    form.add("b", "3")
    assert not signed(AUTH_TOKEN, URL, form, signature)


@pytest.mark.parametrize(
    ("token", "url", "form"),
    [
        ("another", URL, FORM),
        (AUTH_TOKEN, URL.replace("https", "http"), FORM),
        (AUTH_TOKEN, URL + "/", FORM),
        (AUTH_TOKEN, URL, FORM | {"Body": "A 4822"}),
        (AUTH_TOKEN, URL, FORM | {"More": "x"}),
        (AUTH_TOKEN, URL, {}),
    ],
)
def test_what_was_signed_otherwise_is_not_believed(
    token: str, url: str, form: dict[str, str]
) -> None:
    signature = RequestValidator(AUTH_TOKEN).compute_signature(URL, FORM)

    assert not signed(token, url, form, signature)


@pytest.mark.parametrize("signature", ["", "x", "ünsigned", "\ud83d"])
def test_what_is_no_signature_is_not_believed(signature: str) -> None:
    assert not signed(AUTH_TOKEN, URL, FORM, signature)
