"""Reading mails that may be replies, however hostile."""

import base64
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.notify.code_replies import CodeAnswer
from safetyd.notify.email.reply_mail import MAX_BYTES, ReplyMail, answer_in, read_reply

YES, NO = CodeAnswer(approve=True, code="4821"), CodeAnswer(approve=False, code="4821")
HEAD = b"From: alice@example.com\r\n"


def read(raw: bytes) -> ReplyMail:
    return read_reply(raw, len(raw))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("approve 4821", YES),
        ("  Approve   4821.\r\n", YES),
        ("\n\nYES 4821\n\nSent from my phone", YES),
        ("A\u00a04821!", YES),
        ("deny 4821\n-- \nAlice", NO),
        ("no 4821\n> approve 4821", NO),
        ("D 4821", NO),
        ("> earlier\n\nyes 4821", YES),
        ("approve 4821\n\nOn Thu, safetyd wrote:\n> approve 4821", YES),
        ("approve 4821\n\napprove 4821", YES),
        ("", None),
        ("approve", None),
        ("4821", None),
        ("a4821", None),
        ("not approve 4821", None),
        ("approve 4821 5932", None),
        ("approve 4821\ndeny 4821", None),
        ("approve 4821\n\n\ndeny 4821", None),
        ("approve 4821\nif the tests pass", None),
        ("approve 482", None),
        ("approve 4821345", None),
        ("disapprove 4821", None),
        ("ye\u017f 4821", None),  # a long s, which equals an s if case is ignored
        ("approve \u0664\u0668\u0662\u0661", None),
        ("approve\u200b 4821", None),
        ("approve\u20284821", None),
        ("Hi,\napprove 4821", None),
        ("> approve 4821", None),
        ("-----Original Message-----\napprove 4821", None),
    ],
)
def test_only_the_first_line_is_an_answer(text: str, meant: CodeAnswer | None) -> None:
    assert answer_in(text) == meant


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("7bit", b"approve 4821"),
        ("base64", base64.b64encode("approve 4821\n\nGr\u00fc\u00dfe".encode())),
        ("quoted-printable", b"approve=204821=\r\n\r\n\r\n=C3=BC"),
    ],
)
@pytest.mark.parametrize("charset", ["utf-8", "ISO-8859-1", "windows-1252"])
def test_usual_encodings_are_read(coding: str, body: bytes, charset: str) -> None:
    head = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {coding}\n\n"

    assert read(HEAD + head.encode() + body).said == YES


@pytest.mark.parametrize(
    "charset", ["utf-7", "utf-16", "idna", "punycode", "unicode_escape", "zlib", "rot13", "x", '"']
)
def test_odd_charsets_are_not_read(charset: str) -> None:
    head = f"Content-Type: text/plain; charset={charset}\n\n"

    assert read(HEAD + head.encode() + b"approve 4821").said is None


def test_the_first_part_counts_if_it_is_plain_text() -> None:
    mail = EmailMessage()
    mail.set_content("approve 4821\n")
    mail.add_alternative("<p>deny 4821</p>", subtype="html")
    mail.add_attachment(b"x" * 100, maintype="image", subtype="png", filename="logo.png")
    page_first = EmailMessage()
    page_first.set_content("<p>approve 4821</p>", subtype="html")
    page_first.add_alternative("approve 4821\n")
    attached = EmailMessage()
    attached.make_mixed()
    attached.add_attachment("approve 4821\n")

    assert read(mail.as_bytes()).said == YES
    assert read(page_first.as_bytes()).said is None
    assert read(attached.as_bytes()).said is None


@pytest.mark.parametrize(
    "mail",
    [
        HEAD + b"Content-Type: multipart/mixed\n\napprove 4821",
        HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\napprove 4821",  # no end
        HEAD + b"Content-Type: multipart/digest; boundary=b\n\n--b\n\napprove 4821\n--b--\n",
        HEAD + b"Content-Type: text/html\n\napprove 4821",
        HEAD + b"Content-Type: text/plain\nContent-Type: text/html\n\napprove 4821",
        HEAD + b"Content-Transfer-Encoding: x-uuencode\n\napprove 4821",
        HEAD + b"no header\n\napprove 4821",
        HEAD + b"Subject: Fwd: [safetyd]\n\napprove 4821",
        HEAD + b"Subject: =?utf-8?q?WG=3A?= [safetyd]\n\napprove 4821",
        HEAD + b"Resent-From: alice@example.com\n\napprove 4821",
        HEAD + b"X: 1\n" * 600 + b"\napprove 4821",
        HEAD + b"X: " + b"y" * 70_000 + b"\n\napprove 4821",
    ],
)
def test_what_is_not_a_plain_reply_has_no_answer(mail: bytes) -> None:
    assert read(mail).said is None


def test_a_part_with_other_parts_inside_is_read_to_a_limit() -> None:
    def nested(depth: int) -> bytes:
        begin = b"".join(
            b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(depth)
        )
        end = b"".join(b"\n--b%d--\n" % n for n in reversed(range(depth)))
        return HEAD + begin + b"\napprove 4821\n" + end

    assert read(nested(4)).said == YES
    assert read(nested(5)).said is None


def test_a_mail_larger_than_the_limit_has_no_answer() -> None:
    mail = HEAD + b"\napprove 4821\n\n"

    assert read_reply(mail, MAX_BYTES).said == YES
    assert read_reply(mail, MAX_BYTES + 1).said is None


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("alice@example.com", "alice@example.com"),
        ("Alice <alice@example.com>", "alice@example.com"),
        ('"Alice, Ops <x@y>" <alice@example.com>', "alice@example.com"),
        ("<alice@example.com>", "alice@example.com"),
        ("=?utf-8?q?=E2=80=AE?= <alice@example.com>", "alice@example.com"),
        ("alice@example.com, mallory@evil.example", ""),
        ("alice@example.com <mallory@evil.example>", ""),
        ("<alice@example.com> <mallory@evil.example>", ""),
        ("alice@example.com)(,<mallory@evil.example>", ""),
        ("Group: alice@example.com;", ""),
        ("alice@\u0435xample.com", ""),
        ("a" * 2000 + "@example.com", ""),
        ("", ""),
    ],
)
def test_a_sender_is_one_plain_address(value: str, address: str) -> None:
    assert read(f"From: {value}\n\nx".encode()).sender == address


def test_the_nearest_earlier_mail_is_named_first() -> None:
    mail = read(HEAD + b"References: <a@x> <b@x>\r\n <c@x>\r\nIn-Reply-To: <c@x> (of Thu)\r\n\r\n")

    assert mail.refers_to == ("c@x", "b@x", "a@x")


def test_a_subject_is_one_harmless_line() -> None:
    mail = read(HEAD + b"Subject: Re: =?utf-8?q?a=0D=0AFrom:_b=E2=80=AE?=\n\nx")

    assert mail.subject.isprintable()
    assert "\n" not in mail.subject


_words = st.sampled_from(
    [
        b"\r\n", b"\n", b"\r", b" ", b"--b", b"--", b": ", b"From", b"Subject", b"Content-Type",
        b"multipart/mixed; boundary=b", b"text/plain; charset=", b"=?utf-8?b?", b"?=", b'"',
        b"Content-Transfer-Encoding", b"base64", b"quoted-printable", b"approve 4821", b"<a@b>",
        b"charset*0*=x''%", b"References", b"=\n", b"(", b"@", b";", b"\xff",
    ]
)  # fmt: skip


@given(st.binary(max_size=2000) | st.lists(_words, max_size=80).map(b"".join))
def test_nothing_is_too_odd_to_be_read(raw: bytes) -> None:
    mail = read(raw)

    assert mail.subject.replace(" ", "").isprintable()
    assert mail.said is None or b"4821" in raw
