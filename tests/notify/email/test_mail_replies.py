"""People answer by replying to a mail; nobody else can."""

import random
from email.message import EmailMessage
from pathlib import Path

import pytest

from safetyd.notify.email.mail_replies import SAID
from tests.dovecot_server import Dovecot
from tests.notify.email.mail_servers import Received
from tests.notify.email.reply_rig import ALICE, SERVER, alice, code_in, reply_to
from tests.servers import until


@pytest.mark.parametrize(
    ("word", "answer"), [("approve", "approved"), ("YES", "approved"), ("no", "denied")]
)
async def test_a_reply_answers_and_is_confirmed_in_its_thread(
    dovecot: Dovecot, tmp_path: Path, word: str, answer: str
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        reply = reply_to(mail, f"{word} {code_in(mail)}")
        await person.sends(reply)
        confirmed = await person.mail(2)

    (recorded,) = person.answers()
    assert (recorded.answer, recorded.by, recorded.via) == (answer, "operator", "link:email")
    assert recorded.assurance == "code"
    assert recorded.peer.startswith("mail ")
    assert recorded.delivery in str(mail.message["Message-ID"])
    assert confirmed.text == f"{answer.capitalize()}.\n"
    assert confirmed.recipients == (ALICE,)
    assert confirmed.message["Subject"] == reply["Subject"]
    assert confirmed.message["In-Reply-To"] == reply["Message-ID"]
    assert confirmed.message["Auto-Submitted"] == "auto-replied"
    assert person.refused() == 0


async def test_a_mail_says_how_to_reply_only_if_a_reply_can_approve(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        bought = await person.asked("p2", type="purchase", text="a domain", cost_usd=12.0)
        await person.sends(reply_to(bought, f"approve {code_in(mail)}"))

    how, not_read = "To answer by mail", "Replies to this mail are not read."
    assert [how in mail.text, how in mail.page] == [True, True]
    assert mail.message["Reply-To"] == person.user
    assert not_read in bought.text
    assert person.answers() == []
    assert person.smtp.received[-1].text.strip() == SAID["closed"]


ATTACKS = {
    "a forged sender": {"From": "Mallory <mallory@example.com>"},
    "a display name that looks like the address": {"From": f'"{ALICE}" <mallory@evil.example>'},
    "a right-to-left display name": {"From": "=?utf-8?q?=E2=80=AEecila?= <ecila@example.com>"},
    "a domain in look-alike letters": {"From": "Alice <alice@\u0435\u0445ample.com>"},
    "no result of DKIM": {"Authentication-Results": ""},
    "a failed signature": {"Authentication-Results": f"{SERVER}; dkim=fail header.d=example.com"},
    "the result of another server": {
        "Authentication-Results": "mx.evil.example; dkim=pass header.d=example.com"
    },
    "a valid signature of another domain": {
        "Authentication-Results": f"{SERVER}; dkim=pass header.d=evil.example"
    },
    "a result in a comment": {
        "Authentication-Results": f"{SERVER}; dkim=none (; dkim=pass header.d=example.com)"
    },
}


@pytest.mark.parametrize("headers", ATTACKS.values(), ids=ATTACKS)
async def test_a_forged_reply_is_refused_counted_and_not_answered(
    dovecot: Dovecot, tmp_path: Path, headers: dict[str, str]
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        forged = reply_to(mail, f"approve {code_in(mail)}")
        raw = _with_headers(forged, headers)
        await person.sends(raw)
        refused = person.refused()
        await person.sends(reply_to(mail, f"deny {code_in(mail)}"))
        await person.mail(2)

    assert [recorded.answer for recorded in person.answers()] == ["denied"]
    assert refused == 1
    assert len(person.smtp.received) == 2  # the request and the confirmation of the denial


def _with_headers(reply: EmailMessage, headers: dict[str, str]) -> bytes:
    """Replace headers by raw values, as an attacker can."""
    for name in headers:
        del reply[name]
    lines = [f"{name}: {value}\r\n".encode() for name, value in headers.items() if value]
    return b"".join(lines) + reply.as_bytes()


async def test_only_the_topmost_result_of_the_own_server_counts(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        reply = reply_to(mail, f"approve {code_in(mail)}").as_bytes()
        failed = f"Authentication-Results: {SERVER}; dkim=fail header.d=example.com\r\n".encode()
        other = b"Authentication-Results: relay.example; dkim=fail header.d=example.com\r\n"
        await person.sends(failed + reply)
        before = person.answers()
        await person.sends(other + reply)

    assert before == []
    assert [recorded.answer for recorded in person.answers()] == ["approved"]


async def test_two_senders_are_none(dovecot: Dovecot, tmp_path: Path) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        reply = reply_to(mail, f"approve {code_in(mail)}").as_bytes()
        await person.sends(b"From: mallory@evil.example\r\n" + reply)

    assert person.answers() == []
    assert person.refused() == 1


async def test_a_code_of_another_mail_does_not_count(dovecot: Dovecot, tmp_path: Path) -> None:
    async with alice(dovecot, tmp_path) as person:
        first = await person.asked("p1")
        other = await person.asked("p2", text="git push --force origin main")
        await person.sends(reply_to(first, f"approve {code_in(other)}"))
        explained = await person.mail(3)

        assert person.answers() == []
        assert explained.text.startswith("NOT recorded: the mail that you replied to does not")
        await person.sends(reply_to(other, f"approve {code_in(other)}"))

    assert [recorded.answer for recorded in person.answers()] == ["approved"]


async def test_an_id_without_its_mark_approves_nothing(dovecot: Dovecot, tmp_path: Path) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        id_ = str(mail.message["Message-ID"])
        begins, _, host = id_.partition("@")
        delivery = begins.partition(".")[0]
        for forged in (f"{delivery}@{host}", f"{delivery}.AAAAAAAA@{host}"):
            await person.sends(
                reply_to(mail, f"approve {code_in(mail)}", In_Reply_To=forged, References=forged)
            )
        await person.sends(reply_to(mail, f"deny {code_in(mail)}"))

    assert [recorded.answer for recorded in person.answers()] == ["denied"]


async def test_a_replayed_reply_changes_nothing_and_is_answered_once(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        reply = reply_to(mail, f"approve {code_in(mail)}")
        for _ in range(3):
            await person.sends(reply)
        await person.sends(reply_to(mail, f"deny {code_in(mail)}"))
        last = await person.mail(3)

    assert [recorded.answer for recorded in person.answers()] == ["approved"]
    assert last.text.strip() == SAID["repeated"]
    assert len(person.smtp.received) == 3


UNCLEAR = {
    "a word before": "not approve {code}",
    "a word after": "approve {code} please",
    "a longer number": "approve {code}{code}",
    "no code": "approve",
    "two codes": "approve {code} {other}",
    "two answers": "approve {code}\n\ndeny {code}",
    "a sentence that goes on": "approve {code}\nonly if the tests pass",
    "only a quote": "> approve {code}",
    "after a greeting": "Hello,\n\napprove {code}",
    "a signature": "-- \napprove {code}",
    "look-alike letters": "\u0430pprove {code}",
}


@pytest.mark.parametrize("text", UNCLEAR.values(), ids=UNCLEAR)
async def test_what_is_unclear_is_answered_once_an_hour(
    dovecot: Dovecot, tmp_path: Path, text: str
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        said = text.format(code=code_in(mail), other="9999")
        await person.sends(reply_to(mail, said))
        explained = await person.mail(2)
        await person.sends(reply_to(mail, said))
        person.rig.wired.clock.t += 3601
        await person.sends(reply_to(mail, said))
        await person.mail(3)

    assert person.answers() == []
    assert explained.text.strip() == SAID["unclear"]
    assert code_in(mail) not in explained.text
    assert len(person.smtp.received) == 3


AUTOMATIC = {
    "an automatic reply": {"Auto-Submitted": "auto-replied"},
    "a bulk mail": {"Precedence": "bulk"},
    "a mailing list": {"List-Id": "<all.example.com>"},
    "a null sender": {"Return-Path": "<>"},
    "a bounced mail": {"From": "MAILER-DAEMON@example.com"},
}


@pytest.mark.parametrize("headers", AUTOMATIC.values(), ids=AUTOMATIC)
async def test_automatic_mails_never_answer_and_get_no_reply(
    dovecot: Dovecot, tmp_path: Path, headers: dict[str, str]
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        for text in (f"approve {code_in(mail)}", "I am on holiday"):
            await person.sends(_with_headers(reply_to(mail, text), headers))

    assert person.answers() == []
    assert len(person.smtp.received) == 1


async def test_an_answering_machine_gets_at_most_one_explanation_an_hour(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    """It answers everything and says nowhere that it is a machine."""
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        for _ in range(3):
            await person.sends(reply_to(mail, "I am on holiday"))
            mail = person.smtp.received[-1]

    assert len(person.smtp.received) == 2


async def test_forwards_attachments_and_html_do_not_answer(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        yes = f"approve {code_in(mail)}"
        forwarded = reply_to(mail, yes, Subject=f"Fwd: {mail.message['Subject']}")
        attached = reply_to(mail, "see the attachment")
        attached.add_attachment(yes, filename="answer.txt")
        page = reply_to(mail, "x")
        page.set_content(f"<p>{yes}</p>", subtype="html")
        inside = reply_to(mail, "x")
        inside.clear_content()
        inside.add_attachment(reply_to(mail, yes))
        for each in (forwarded, attached, page, inside):
            await person.sends(each)

    assert person.answers() == []


async def test_huge_and_nested_mails_are_not_answers_and_block_nothing(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        yes = f"approve {code_in(mail)}"
        reply = reply_to(mail, yes).as_bytes()
        huge = reply + b"x" * 76 * 400_000
        head = reply.partition(b"\n\n")[0].replace(b"Content-Type", b"X-Type")
        part = b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"
        for bomb in (huge, head + b"\n" + part * 4000 + b"\n" + yes.encode()):
            await person.sends(bomb)
        nothing = person.answers()
        await person.sends(reply)

    assert nothing == []
    assert [recorded.answer for recorded in person.answers()] == ["approved"]


async def test_garbage_with_the_right_id_blocks_nothing(dovecot: Dovecot, tmp_path: Path) -> None:
    chance = random.Random(7)
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        begin = f"In-Reply-To: {mail.message['Message-ID']}\r\nFrom: {ALICE}\r\n".encode()
        words = (
            b"\r\n",
            b"\r\n\r\n",
            b"Content-Type: ",
            b"multipart/mixed; boundary=x",
            b"--x\r\n",
        )
        for _ in range(20):
            parts = (chance.choice((chance.randbytes(9), *words)) for _ in range(60))
            await person.puts(begin + b"".join(parts).replace(b"\0", b"0"))
        await person.sends(reply_to(mail, f"approve {code_in(mail)}"))

    assert [recorded.answer for recorded in person.answers()] == ["approved"]


async def test_mails_that_are_no_replies_stay_unread(dovecot: Dovecot, tmp_path: Path) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        newsletter = await person.puts(reply_to(mail, "hello", In_Reply_To="", References="<a@b>"))
        await person.sends(reply_to(mail, f"deny {code_in(mail)}"))
        seen = await person.seen()

    assert newsletter not in seen
    assert len(person.answers()) == 1


async def test_five_wrong_codes_revoke_the_code_and_alert(dovecot: Dovecot, tmp_path: Path) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        wrong = f"{(int(code_in(mail)) + 1) % 10_000:04}"
        for _ in range(5):
            await person.sends(reply_to(mail, f"deny {wrong}"))
        await person.sends(reply_to(mail, f"deny {code_in(mail)}"))

    assert person.answers() == []
    assert person.refused() >= 5
    kinds = [type(event).__name__ for event in person.rig.wired.queue.journal]
    assert kinds.count("LinkRevoked") == 1
    assert "Announced" in kinds


async def test_wrong_codes_of_pages_and_replies_count_together(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        (request,) = person.rig.wired.engine.approvals.pending()
        for _ in range(4):
            person.rig.notifier.links.wrong_codes.left(request.id, "operator")
        wrong = f"{(int(code_in(mail)) + 1) % 10_000:04}"
        await person.sends(reply_to(mail, f"approve {wrong}"))

    kinds = [type(event).__name__ for event in person.rig.wired.queue.journal]
    assert kinds.count("LinkRevoked") == 1


async def test_after_five_wrong_codes_approvals_are_ignored_but_not_denials(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mails = [await person.asked(f"p{n}", text=f"git push origin b{n}") for n in range(2)]
        first, second = mails
        wrong = f"{(int(code_in(first)) + 1) % 10_000:04}"
        for _ in range(5):
            await person.sends(reply_to(first, f"approve {wrong}"))
        await person.sends(reply_to(second, f"approve {code_in(second)}"))
        ignored = person.answers()
        await person.sends(reply_to(second, f"deny {code_in(second)}"))

    assert ignored == []
    assert [recorded.answer for recorded in person.answers()] == ["denied"]


async def test_a_reply_to_a_mail_about_several_requests_answers_the_one_of_its_code(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked(*(f"p{n}" for n in range(4)))
        codes = _codes(mail)
        await person.sends(reply_to(mail, f"deny {codes[1]}"))
        await person.sends(reply_to(mail, f"approve {codes[3]}"))
        confirmed = await person.mail(3)

    assert str(mail.message["Message-ID"]) in str(confirmed.message["References"])
    assert [recorded.answer for recorded in person.answers()] == ["denied", "approved"]
    assert len({recorded.request_id for recorded in person.answers()}) == 2
    assert len(codes) == 4


def _codes(mail: Received) -> list[str]:
    return [line.split()[-1] for line in mail.text.splitlines() if "Code to approve:" in line]


async def test_a_reply_after_a_week_is_too_late(dovecot: Dovecot, tmp_path: Path) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        person.rig.wired.clock.t += 7 * 86_400
        await person.sends(reply_to(mail, f"approve {code_in(mail)}"))
        told = await person.mail(2)

    assert person.answers() == []
    assert told.text.strip() == SAID["too_late"]


async def test_without_a_server_that_reports_the_address_is_enough_if_you_say_so(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path, "trust_unsigned = true") as person:
        mail = await person.asked()
        text = f"approve {code_in(mail)}"
        await person.sends(reply_to(mail, text, From="bob@example.com", Authentication_Results=""))
        before = person.answers()
        await person.sends(reply_to(mail, text, Authentication_Results=""))

    assert before == []
    assert [recorded.answer for recorded in person.answers()] == ["approved"]


async def test_a_mailbox_that_cannot_be_read_is_shown_and_read_later(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        mail = await person.asked()
        await person.sends(reply_to(mail, "hm"))
        assert person.reads() == f"read from INBOX of {person.user} at 127.0.0.1"
        dovecot.stop()
        try:
            await until(lambda: "cannot be read" in person.reads())
            while_down = person.reads()
        finally:
            dovecot.start()
        await person.sends(reply_to(mail, f"deny {code_in(mail)}"))

    assert while_down.startswith("cannot be read: 127.0.0.1:")
    assert [recorded.answer for recorded in person.answers()] == ["denied"]


async def test_one_reply_approves_similar_requests_and_only_exactly_those_shown(
    dovecot: Dovecot, tmp_path: Path
) -> None:
    async with alice(dovecot, tmp_path) as person:
        wired = person.rig.wired
        ids = [wired.asks(f"p{n}", text=f"restart app-{n}") for n in range(3)]
        wired.passes()
        mail = await person.mail(1)
        others = [wired.asks(f"q{n}", text=f"restart db-{n}") for n in range(3)]
        wired.passes()
        second = await person.mail(2)
        wired.answers(others[0])
        ended = len(person.answers())
        await person.sends(reply_to(second, f"approve {code_in(second)}"))
        changed = await person.mail(3)
        none = len(person.answers())
        await person.sends(reply_to(mail, f"approve {code_in(mail)}"))
        await person.mail(4)
        await person.sends(reply_to(second, f"deny {code_in(second)}"))
        await person.mail(5)

    assert none == ended
    assert changed.text.strip() == SAID["changed"]
    said = [(each.request_id, each.answer) for each in person.answers()[ended:]]
    approved, denied = [(i, "approved") for i in ids], [(i, "denied") for i in others[1:]]
    assert said == [*approved, *denied]
