"""What Twilio calls: replies of people, and whether messages arrived."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path

import aiohttp
import anyio
import anyio.to_thread
import msgspec
import pytest
from aiohttp import web

from safetyd.cards.similar_requests import set_ref
from safetyd.core.approvals.request import Request
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.notification_events import Announced, Due, Item, Told
from safetyd.core.events.request_events import Answered
from safetyd.journal.mailbox import Plan
from safetyd.notify.channel import Answer
from safetyd.notify.code_replies import MAX_FAILURES
from safetyd.notify.links.tokens import Signer
from safetyd.notify.sms.channel import SmsConfig
from safetyd.notify.sms.sms_replies import HELP, SAID
from safetyd.notify.sms.twilio_hooks import FORM
from safetyd.web.engine_gateway import EngineGateway
from tests.notify.channel_context import context
from tests.notify.compose_rig import ComposeRig, telling
from tests.notify.sms.twilio_stand_in import AUTH_TOKEN, send_inbound, send_status
from tests.story import propose, stop
from tests.web.link_site import KEY, serving

PUBLIC = "https://safety.example.com"
ALICE, STRANGER = "+15550100", "+15550999"
SIGNATURE = "X-Twilio-Signature"
TABLES = f"""
[notifications.sms]
enabled = true
from = "+15550199"
account_sid = "AC1"
auth_token_file = "token"

[[recipients]]
name = "alice"
sms = "{ALICE}"
"""
NOTHING = '<?xml version="1.0" encoding="UTF-8"?><Response></Response>'

pytestmark = pytest.mark.req("S3.25")


class Phone:
    """Alice's telephone, and Twilio between it and us."""

    def __init__(self, *channels: str) -> None:
        self.wired = ComposeRig(telling(*channels or ("sms", "email")))
        self.signer = Signer([KEY])
        self.problem = ""
        self.token, self.settings = AUTH_TOKEN, ""  # what Twilio signs with; lines of the table
        self.url, self.secrets = "", Path()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        gateway = EngineGateway(self.wired.mailbox, lambda: self.problem, lambda: False)
        tables = TABLES.replace("\n[[", f"{self.settings}\n\n[[")
        around = context(
            tables=tables, wired=self.wired, public_url=PUBLIC, secrets={"token": self.token}
        )
        self.secrets = around.directories[0]

        async def carry_out(plan: Plan[Answer]) -> Answer:
            return (await gateway.carry_out(plan, lambda _engine, _moment: None))[0]

        app = web.Application(client_max_size=4096)
        for hook in SmsConfig.hooks(around, carry_out):
            app.router.add_post(hook.path, hook.handle)
        async with serving(app) as port, anyio.create_task_group() as tasks:
            self.url = f"http://127.0.0.1:{port}"
            tasks.start_soon(self.wired.work)
            yield
            tasks.cancel_scope.cancel()

    def asked(self, **fields: object) -> str:
        """Return the id of a request that alice was sent."""
        ref = self.wired.asks(**fields)  # type: ignore[arg-type]
        self.wired.passes()
        return ref

    def code(self, ref: str) -> str:
        return self.signer.code(ref, "alice")

    async def says(self, body: str, sender: str = ALICE) -> str:
        """Return what a person is answered, with the frame around it taken off."""
        url, public = f"{self.url}/hooks/sms", f"{PUBLIC}/hooks/sms"
        status, text = await send_inbound(url, body, sender=sender, public_url=public)
        assert status == 200
        return text.partition("<Message>")[2].partition("</Message>")[0] if text != NOTHING else ""

    async def reports(self, sid: str, status: str) -> int:
        url, public = f"{self.url}/hooks/sms/status", f"{PUBLIC}/hooks/sms/status"
        code, _ = await send_status(url, sid, status, public_url=public)
        return code

    def answers(self) -> list[Answered]:
        return [event for event in self.wired.queue.journal if isinstance(event, Answered)]


@pytest.mark.parametrize(("letter", "answer"), [("A", "approved"), ("d", "denied")])
async def test_a_letter_and_the_code_answer_a_request(letter: str, answer: str) -> None:
    phone = Phone()
    ref = phone.asked()

    async with phone.at_work():
        said = await phone.says(f" {letter} {phone.code(ref)}\n")

    (answered,) = phone.answers()
    assert said == f"{answer.capitalize()}."
    assert (answered.request_id, answered.answer, answered.by) == (ref, answer, "alice")
    assert (answered.via, answered.assurance) == ("sms", "code")
    assert phone.wired.queue.request(ref).state == answer
    seen = phone.wired.journalled(PersonSeen)[-1]
    assert isinstance(seen, PersonSeen)
    assert (seen.by, seen.how) == ("alice", "sms")


async def test_what_twilio_did_not_sign_is_refused_and_changes_nothing() -> None:
    phone = Phone()
    ref = phone.asked()

    async with phone.at_work():
        url, body = f"{phone.url}/hooks/sms", f"A {phone.code(ref)}"
        another_token = await send_inbound(
            url, body, sender=ALICE, public_url=f"{PUBLIC}/hooks/sms", token="of somebody else"
        )
        another_url = await send_inbound(url, body, sender=ALICE)
        another_path = await send_status(
            f"{url}/status", "SM1", "delivered", public_url=f"{PUBLIC}/hooks/sms"
        )
        (phone.secrets / "token").write_text(" ")
        no_token = await send_inbound(
            url, body, sender=ALICE, public_url=f"{PUBLIC}/hooks/sms", token=""
        )

    answers = (another_token, another_url, another_path, no_token)
    assert [status for status, _ in answers] == [403] * 4
    assert phone.answers() == []


async def test_an_unknown_number_is_not_answered() -> None:
    phone = Phone()
    ref = phone.asked()

    async with phone.at_work():
        said = await phone.says(f"A {phone.code(ref)}", STRANGER)

    assert said == ""
    assert phone.answers() == []


async def test_a_wrong_code_answers_nothing_and_five_of_them_end_the_talk() -> None:
    phone = Phone()
    ref = phone.asked()
    right = phone.code(ref)
    wrong = f"{(int(right) + 1) % 10_000:04}"

    async with phone.at_work():
        said = [await phone.says(f"A {wrong}") for _ in range(MAX_FAILURES + 1)]
        ignored = await phone.says(f"A {right}")
        phone.wired.clock.t += 9 * 3600
        heard = await phone.says(f"A {right}")

    assert said == [SAID["unknown"]] * MAX_FAILURES + [""]
    assert ignored == ""
    assert heard == SAID["approved"]


async def test_a_number_with_wrong_codes_may_still_deny() -> None:
    phone = Phone()
    ref = phone.asked()

    async with phone.at_work():
        await _lock(phone, ref)
        approved = await phone.says(f"A {phone.code(ref)}")
        unclear = await phone.says("what is this?")
        denied = await phone.says(f"D {phone.code(ref)}")

    assert (approved, unclear, denied) == ("", "", SAID["denied"])
    assert [answer.answer for answer in phone.answers()] == ["denied"]


async def test_a_right_denial_does_not_let_a_number_approve_again() -> None:
    phone = Phone()
    refs = [phone.wired.asks(agent=f"agent-{n}") for n in range(2)]
    phone.wired.happens(*(_sms(phone.wired, ref) for ref in refs))

    async with phone.at_work():
        await _lock(phone, *refs)
        await phone.says(f"D {phone.code(refs[0])}")
        said = await phone.says(f"A {phone.code(refs[1])}")

    assert said == ""
    assert [answer.answer for answer in phone.answers()] == ["denied"]


async def test_other_channels_are_told_once_that_a_number_is_not_heard() -> None:
    phone = Phone()
    ref = phone.asked()

    async with phone.at_work():
        await _lock(phone, ref)
        for letter in "AD" * MAX_FAILURES:
            await phone.says(f"{letter} {_wrong(phone, ref)}")

    (announced,) = phone.wired.journalled(Announced)
    assert isinstance(announced, Announced)
    assert (announced.channels, announced.note.urgency) == (("email",), "high")
    assert announced.note.title == "Wrong codes by SMS"
    assert "the number of alice" in announced.note.text


def _wrong(phone: Phone, *refs: str) -> str:
    codes = {phone.code(ref) for ref in refs}
    return next(code for code in ("0000", "1111", "2222") if code not in codes)


async def _lock(phone: Phone, *refs: str) -> None:
    """Send as many wrong codes as are borne."""
    for _ in range(MAX_FAILURES):
        await phone.says(f"A {_wrong(phone, *refs)}")


async def test_what_is_no_answer_is_met_with_help_a_few_times() -> None:
    phone = Phone()

    async with phone.at_work():
        said = [await phone.says("yes please") for _ in range(6)]

    assert said == [HELP] * 5 + [""]


async def test_a_code_that_an_older_request_had_too_answers_the_one_that_waits() -> None:
    phone = Phone()
    refs = [phone.wired.asks(agent=f"agent-{n}") for n in range(400)]
    old, new = next(
        pair for pair in combinations(refs, 2) if phone.code(pair[0]) == phone.code(pair[1])
    )
    phone.wired.happens(*(_sms(phone.wired, ref) for ref in (old, new)))
    phone.wired.answers(old)

    async with phone.at_work():
        said = await phone.says(f"D {phone.code(new)}")

    assert said == SAID["denied"]
    assert phone.answers()[-1].request_id == new


async def test_a_code_that_two_requests_have_answers_neither() -> None:
    phone = Phone()
    refs = [phone.wired.asks(agent=f"agent-{n}") for n in range(400)]
    pair = next(p for p in combinations(refs, 2) if phone.code(p[0]) == phone.code(p[1]))
    phone.wired.happens(*(_sms(phone.wired, ref) for ref in pair))

    async with phone.at_work():
        said = await phone.says(f"D {phone.code(pair[0])}")

    assert said == SAID["unknown"]
    assert phone.answers() == []


def _sms(wired: ComposeRig, *refs: str) -> Due:
    return Due(
        at=wired.at,
        t=wired.clock.t,
        delivery=f"dlv_{refs[0]}",
        recipient="alice",
        channel="sms",
        urgency="normal",
        items=tuple(Item("request", ref) for ref in refs),
    )


async def test_what_was_only_counted_in_a_message_about_several_can_be_denied_by_sms() -> None:
    phone = Phone()
    refs = [phone.wired.asks(agent=f"agent-{n}") for n in range(2)]
    phone.wired.happens(_sms(phone.wired, *refs))

    async with phone.at_work():
        said = [await phone.says(f"{letter} {phone.code(refs[0])}") for letter in "AD"]

    assert said == [SAID["unknown"], SAID["denied"]]
    assert len(phone.answers()) == 1


def answered_before(phone: Phone) -> str:
    ref = phone.asked()
    phone.wired.answers(ref)
    return ref


def too_late(phone: Phone) -> str:
    """Ask, and let time pass; nobody has noted the end yet."""
    ref = phone.asked(timeout_s=600)
    phone.wired.clock.t += 600
    return ref


def also_alone(phone: Phone) -> str:
    """Ask in a message about several, and in one of its own."""
    refs = [phone.wired.asks(agent=f"agent-{n}") for n in range(2)]
    phone.wired.happens(_sms(phone.wired, *refs), _sms(phone.wired, refs[1]))
    return refs[1]


def purchase(phone: Phone) -> str:
    decision = phone.wired.queue.proposes(propose(0, type="purchase", text="buy it"))
    phone.wired.passes()
    return decision.request_id or ""


def permission(phone: Phone) -> str:
    """Ask beforehand for what says more than its text."""
    said = msgspec.Raw(b'{"text":"git push"}')
    ask = propose(0, type="push", text="git push", context=said)
    ref = phone.wired.queue.proposes(ask, permission=True).request_id or ""
    phone.wired.happens(_sms(phone.wired, ref))
    return ref


def risky(phone: Phone) -> str:
    phone.settings = 'max_risk = "low"'
    return phone.asked()


def secret(phone: Phone) -> str:
    phone.settings = 'privacy = "summary"'
    return phone.asked()


def elsewhere(phone: Phone) -> str:
    """Ask on another channel."""
    phone.wired = ComposeRig(telling("email"))
    return phone.asked()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (answered_before, "too_late"),
        (too_late, "too_late"),
        (also_alone, "approved"),
        (purchase, "elsewhere"),
        (permission, "elsewhere"),
        (risky, "elsewhere"),
        (secret, "elsewhere"),
        (elsewhere, "unknown"),
    ],
)
async def test_an_sms_approves_only_what_it_may(ask: Callable[[Phone], str], said: str) -> None:
    phone = Phone()
    ref = ask(phone)

    async with phone.at_work():
        heard = await phone.says(f"A {phone.code(ref)}")

    assert heard == SAID[said]  # type: ignore[index]
    approved = [event.via for event in phone.answers() if event.via == "sms"]
    assert approved == (["sms"] if said == "approved" else [])


@pytest.mark.parametrize(("letter", "said"), [("A", "held"), ("D", "denied")])
async def test_an_approval_while_everything_is_stopped_is_held(letter: str, said: str) -> None:
    phone = Phone()
    ref = phone.asked()
    phone.wired.happens(stop(phone.wired.clock.t))

    async with phone.at_work():
        heard = await phone.says(f"{letter} {phone.code(ref)}")

    assert heard == SAID[said]  # type: ignore[index]
    assert len(phone.answers()) == 1


async def test_a_stop_word_tells_the_other_channels_and_is_not_answered() -> None:
    phone, alone = Phone(), Phone("sms")

    for each in (phone, alone):
        async with each.at_work():
            said = await each.says("Stop")

    (announced,) = phone.wired.journalled(Announced)
    (due,) = phone.wired.journalled(Due)
    assert isinstance(announced, Announced)
    assert isinstance(due, Due)
    assert said == ""
    assert (announced.channels, due.channel, due.urgency) == (("email",), "email", "high")
    assert alone.wired.journalled(Announced) == []


async def test_what_cannot_be_written_now_is_not_recorded_and_says_so() -> None:
    phone = Phone()
    ref = phone.asked()

    async with phone.at_work():
        phone.problem = "the journal is stuck"
        said = await phone.says(f"A {phone.code(ref)}")
        status = await phone.reports("SM1", "delivered")

    assert said == SAID["not_recorded"]
    assert status == 503
    assert phone.answers() == []


@pytest.mark.parametrize(
    ("status", "state"),
    [("delivered", "delivered"), ("undelivered", "undelivered"), ("sent", "accepted")],
)
async def test_a_report_of_twilio_moves_a_message_on(status: str, state: str) -> None:
    phone = Phone("sms")
    delivery = phone.wired.due()
    told = Told(
        at=phone.wired.at,
        t=phone.wired.clock.t,
        delivery=delivery.id,
        channel="sms",
        state="accepted",
        provider_id="SM1",
    )
    phone.wired.happens(told)

    async with phone.at_work():
        answered = await phone.reports("SM1", status)

    assert answered == 204
    assert delivery.state == state


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"x", 403),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Encoding: x\r\n\r\nx", 403),
        ("multipart/mixed; boundary=" + "b" * 99, b"--b\r\n", 403),
        (f"{FORM}; charset=klingon", b"a=b", 400),
        (f"{FORM}; charset=base64", b"a=b", 400),
        (f"{FORM}; charset=undefined", b"a=b", 400),
        (FORM, b"Body=%ff&From=%00", 403),
        (FORM, b"a=" + b"x" * 8192, 413),
        ("application/json", b"{}", 403),
    ],
)
async def test_what_is_no_form_of_twilios_is_refused(kind: str, body: bytes, status: int) -> None:
    phone = Phone()

    async with phone.at_work():
        heard = await _posted(phone, body, {"Content-Type": kind, SIGNATURE: "x"})

    assert heard == status


@pytest.mark.parametrize("packed", ["gzip", "deflate"])
async def test_a_form_that_is_not_packed_as_it_says_is_refused(packed: str) -> None:
    phone = Phone()
    headers = {"Content-Type": FORM, SIGNATURE: "x", "Content-Encoding": packed}

    async with phone.at_work():
        heard = await _posted(phone, b"a=b", headers)

    assert heard == 400


async def _posted(phone: Phone, body: bytes, headers: dict[str, str]) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{phone.url}/hooks/sms", data=body, headers=headers) as response,
    ):
        return response.status


@pytest.mark.parametrize(
    "lines",
    [
        (f"Content-Type: {FORM}",),
        (f"Content-Type: {FORM}", f"{SIGNATURE}:"),
        (f"{SIGNATURE}: x",),
        ("Content-Type: multipart/form-data; boundary=b", f"{SIGNATURE}: x"),
        ("Content-Type: text/plain", f"{SIGNATURE}: x"),
    ],
)
async def test_what_cannot_be_twilios_is_refused_before_it_is_read(lines: tuple[str, ...]) -> None:
    phone = Phone()

    async with phone.at_work():
        heard = await anyio.to_thread.run_sync(_send_half, phone.url, *lines)

    assert heard.startswith(b"HTTP/1.1 403 ")


async def test_a_form_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.notify.sms.twilio_hooks.BODY_S", 0.05)
    phone = Phone()

    lines = (f"Content-Type: {FORM}", f"{SIGNATURE}: x")

    async with phone.at_work():
        heard = await anyio.to_thread.run_sync(_send_half, phone.url, *lines)

    assert heard.startswith(b"HTTP/1.1 408 ")


def _send_half(url: str, *lines: str) -> bytes:
    """Promise a body and send none of it; return what is answered within less than BODY_S."""
    host, _, port = url.removeprefix("http://").partition(":")
    head = ("POST /hooks/sms HTTP/1.1", "Host: x", "Content-Length: 10", *lines, "", "")
    with socket.create_connection((host, int(port)), timeout=4) as connection:
        connection.sendall("\r\n".join(head).encode())
        return connection.recv(4096)


def restarts(phone: Phone, count: int = 3) -> list[Request]:
    """Return similar requests that alice was sent in one SMS."""
    ids = [phone.wired.asks(f"p{n}", text=f"restart app-{n}") for n in range(count)]
    phone.wired.passes()
    return [phone.wired.queue.request(id_) for id_ in ids]


@pytest.mark.parametrize(("letter", "answer"), [("A", "approved"), ("D", "denied")])
async def test_one_code_answers_a_set(letter: str, answer: str) -> None:
    phone = Phone()
    requests = restarts(phone)

    async with phone.at_work():
        said = [await phone.says(f"{letter} {phone.code(set_ref(requests))}") for _ in range(2)]

    assert said == [f"{answer.capitalize()}.", SAID["too_late"]]
    assert [each.request_id for each in phone.answers()] == [r.id for r in requests]
    assert {each.answer for each in phone.answers()} == {answer}
    seen = [e for e in phone.wired.journalled(PersonSeen) if isinstance(e, PersonSeen)]
    assert [event.how for event in seen].count("sms") == 1


async def test_a_set_of_which_one_has_ended_is_not_approved_but_can_be_denied() -> None:
    phone = Phone()
    requests = restarts(phone)
    phone.wired.answers(requests[0].id)
    before = len(phone.answers())

    async with phone.at_work():
        approved = await phone.says(f"A {phone.code(set_ref(requests))}")
        none = len(phone.answers()) - before
        denied = await phone.says(f"D {phone.code(set_ref(requests))}")

    assert (approved, none, denied) == (SAID["changed"], 0, "Denied.")
    assert [each.request_id for each in phone.answers()[before:]] == [r.id for r in requests[1:]]


async def test_a_set_beside_something_else_is_not_approved_by_a_reply() -> None:
    phone = Phone()
    phone.wired.asks("other", text="git push elsewhere", agent="other")
    requests = restarts(phone)

    async with phone.at_work():
        said = await phone.says(f"A {phone.code(set_ref(requests))}")

    assert (said, phone.answers()) == (SAID["unknown"], [])
