import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import anyio
import anyio.to_thread
import pytest

from safetyd.notify.channel import Channel, Misconfigured, Receipt, Unavailable, Undeliverable
from safetyd.notify.http_post import HttpAnswer
from safetyd.notify.sms.channel import SmsConfig
from safetyd.notify.sms.sms_channel import TIMEOUT_S, Sms, arrival, valid_s
from safetyd.notify.sms.twilio_client import Transport, connect, refusal
from tests.notify.channel_context import context
from tests.notify.message_samples import AT, LINK, alert_topic, notice, request_topic, whole_topic
from tests.notify.sms.twilio_stand_in import ACCOUNT, AUTH_TOKEN, Twilio, twilio

WHERE = """
import sys, threading
import anyio
from safetyd.notify.sms.channel import SmsConfig
from safetyd.notify.sms.sms_channel import open_sms
from tests.notify.channel_context import context

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "twilio":
            main = threading.current_thread() is threading.main_thread()
            print("in the loop" if main else "elsewhere")

sys.meta_path.insert(0, Watch())
anyio.run(open_sms, SmsConfig(account_sid="AC0", auth_token_file="t"), context(secrets={"t": "x"}))
"""
NUMBER = "+15550100"
SENDER = "+15550199"


@pytest.fixture
async def server() -> AsyncIterator[Twilio]:
    async with twilio() as server:
        yield server


async def channel(server: Twilio, token: str = AUTH_TOKEN, **fields: Any) -> Sms:
    given = {"account_sid": ACCOUNT, "from_": SENDER, "api_url": server.url}
    messages = await anyio.to_thread.run_sync(connect, ACCOUNT, token, server.url, TIMEOUT_S)
    return Sms(SmsConfig(**(given | fields)), messages, context())


def hasty(server: Twilio) -> Sms:
    """Return a channel that gives up soon, but not before a busy machine has sent the request."""
    messages = connect(ACCOUNT, AUTH_TOKEN, server.url, 1.5)
    return Sms(SmsConfig(from_=SENDER), messages, context())


async def sent(sms: Sms, **fields: Any) -> Receipt:
    with anyio.fail_after(10):
        return await sms.send(notice(address=NUMBER, **fields))


@pytest.mark.req("S3.25")
@pytest.mark.req("S3.33")
async def test_a_request_is_sent_by_twilio(server: Twilio) -> None:
    sms: Channel = await channel(server)

    receipt = await sms.send(notice(whole_topic(), address=NUMBER))
    await sms.close()

    (got,) = server.got
    assert receipt == Receipt("accepted", "SM" + "1".zfill(32))
    assert got.account == ACCOUNT
    assert (got.form["To"], got.form["From"]) == (NUMBER, SENDER)
    assert got.form["Body"].startswith(
        'safetyd HIGH: push by code: "git push --force origin main".'
    )
    assert got.form["Body"].endswith(f"{LINK} or reply A 4821 to approve, D 4821 to deny")


async def test_it_is_reported_on_only_where_twilio_can_reach_us(server: Twilio) -> None:
    config = SmsConfig(account_sid=ACCOUNT, from_=SENDER, api_url=server.url + "/")
    messages = connect(ACCOUNT, AUTH_TOKEN, server.url, TIMEOUT_S)
    public = "https://safety.example.com"

    for url in ("", "http://10.0.0.1", public):
        await sent(Sms(config, messages, context(public_url=url)))

    callback = f"{public}/hooks/sms/status"
    assert [got.form.get("StatusCallback") for got in server.got] == [None, None, callback]


async def test_who_cannot_be_answered_asks_for_no_reply(server: Twilio) -> None:
    sms = await channel(server, from_="Safetyd")

    await sent(sms)

    assert server.got[0].form["Body"].endswith(f"{LINK} code 4821")
    assert not SmsConfig(from_="Safetyd").takes_replies
    assert SmsConfig(from_="72975").takes_replies


@pytest.mark.parametrize(
    ("lefts", "valid"),
    [((), 600), ((7200,), 600), ((7200, 90.9), 90), ((2,), 6), ((-60,), 600), ((-60, 90), 90)],
)
def test_a_message_is_dropped_when_its_first_request_ends(
    lefts: tuple[float, ...], valid: int
) -> None:
    asked = (request_topic(deadline=AT + timedelta(seconds=left)) for left in lefts)

    assert valid_s(notice(*asked, alert_topic())) == valid


async def test_it_is_sent_with_the_time_it_is_valid(server: Twilio) -> None:
    sms = await channel(server)

    await sms.send(notice(request_topic(deadline=AT + timedelta(seconds=45)), address=NUMBER))

    assert server.got[0].form["ValidityPeriod"] == "45"


async def test_too_many_messages_wait_as_long_as_twilio_says(server: Twilio) -> None:
    server.then.extend(["busy", "busy"])
    sms = await channel(server)

    server.retry_after = "17"
    with pytest.raises(Unavailable, match="HTTP 429, error 20429") as known:
        await sent(sms)
    server.retry_after = "soon"
    with pytest.raises(Unavailable) as unknown:
        await sent(sms)

    assert (known.value.retry_after_s, known.value.ambiguous) == (17.0, False)
    assert unknown.value.retry_after_s is None
    assert (await sent(sms)).state == "accepted"


async def test_who_opted_out_is_never_sent_to_and_not_named(server: Twilio) -> None:
    server.then.append("opted out")

    with pytest.raises(Undeliverable, match="has answered STOP") as refused:
        await sent(await channel(server))

    assert NUMBER not in str(refused.value)


async def test_a_refused_login_is_for_somebody_to_mend(server: Twilio) -> None:
    sms = await channel(server, token="an old one")

    with pytest.raises(Misconfigured, match="the account or its token is wrong") as refused:
        await sent(sms)

    assert "an old one" not in str(refused.value)


async def test_what_the_environment_says_of_twilio_is_ignored(
    server: Twilio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWILIO_REGION", "au1")
    monkeypatch.setenv("TWILIO_EDGE", "sydney")
    monkeypatch.setenv("TWILIO_AUTH_TOKEN", "another")

    assert (await sent(await channel(server))).state == "accepted"


async def test_a_gateway_that_fails_is_tried_again(server: Twilio) -> None:
    server.then.append("html")
    sms = await channel(server)

    with pytest.raises(Unavailable, match=r"^Twilio answered HTTP 502$") as failed:
        await sent(sms)

    assert not failed.value.ambiguous
    assert (await sent(sms)).state == "accepted"


@pytest.mark.parametrize("script", ["hang", "drip"])
async def test_a_server_that_never_finishes_is_left_in_time(server: Twilio, script: Any) -> None:
    server.then.append(script)
    sms = hasty(server)

    with pytest.raises(Unavailable, match=r"1\.5 s") as failed:
        await sent(sms)

    assert failed.value.ambiguous
    assert (await sent(sms)).state == "accepted"


@pytest.mark.parametrize("script", ["cut", "not json"])
async def test_what_was_written_may_have_arrived(server: Twilio, script: Any) -> None:
    server.then.append(script)

    with pytest.raises(Unavailable) as failed:
        await sent(await channel(server))

    assert failed.value.ambiguous


async def test_what_was_not_written_has_not_arrived() -> None:
    async with twilio() as server:
        sms = await channel(server)

    with pytest.raises(Unavailable, match="cannot be reached") as failed:
        await sent(sms)

    assert not failed.value.ambiguous


async def test_who_never_takes_a_connection_was_not_written_to() -> None:
    with deaf() as url:
        sms = Sms(SmsConfig(from_=SENDER), connect(ACCOUNT, AUTH_TOKEN, url, 0.3), context())

        with pytest.raises(Unavailable, match="cannot be reached in time") as failed:
            await sent(sms)

    assert not failed.value.ambiguous


async def test_an_address_that_is_wrong_is_for_somebody_to_mend(server: Twilio) -> None:
    for url in (server.url.replace("http", "https"), "no address"):
        sms = Sms(SmsConfig(from_=SENDER), connect(ACCOUNT, AUTH_TOKEN, url, 5.0), context())

        with pytest.raises(Misconfigured):
            await sent(sms)

    assert not server.got


async def test_a_cancelled_try_leaves_the_channel_usable(server: Twilio) -> None:
    server.then.append("hang")
    sms = await channel(server)

    with anyio.move_on_after(0.2) as scope:
        await sms.send(notice(address=NUMBER))

    assert scope.cancelled_caught
    assert (await sent(sms)).state == "accepted"


@pytest.mark.parametrize(
    ("status", "known"),
    [
        ("queued", None),
        ("sent", None),
        ("delivered", "delivered"),
        ("read", "delivered"),
        ("undelivered", "undelivered"),
        ("failed", "undelivered"),
        ("canceled", "undelivered"),
        ("", None),
    ],
)
async def test_it_is_known_whether_a_message_arrived(
    server: Twilio, status: str, known: str | None
) -> None:
    sms = await channel(server)
    sid = (await sent(sms)).provider_id

    server.statuses[sid] = status

    assert await sms.state_of(sid) == known
    assert arrival(status) == known


async def test_what_twilio_does_not_say_is_not_known(server: Twilio) -> None:
    assert await (await channel(server)).state_of("SM404") is None
    assert await (await channel(server, token="wrong")).state_of("SM404") is None


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, 21211, Undeliverable),
        (400, 21408, Undeliverable),
        (400, 21614, Undeliverable),
        (403, 21610, Undeliverable),
        (400, 29999, Undeliverable),
        (400, 0, Undeliverable),
        (400, 21606, Misconfigured),
        (400, 30002, Misconfigured),
        (401, 20003, Misconfigured),
        (403, 0, Misconfigured),
        (404, 20404, Misconfigured),
        (404, 0, Misconfigured),
        (302, 0, Misconfigured),
        (408, 0, Unavailable),
        (429, 20429, Unavailable),
        (400, 30001, Unavailable),
        (400, 30008, Unavailable),
        (500, 20500, Unavailable),
        (503, 0, Unavailable),
    ],
)
def test_errors_are_sorted_by_twilios_number(status: int, code: int, kind: type[Exception]) -> None:
    error = refusal(HttpAnswer(status, f'{{"code": {code}}}', None))

    assert type(error) is kind
    assert (f"error {code}:" in str(error)) is (code > 0)


def test_who_was_not_waited_for_may_have_sent_it() -> None:
    error = refusal(HttpAnswer(504, "", None))

    assert isinstance(error, Unavailable)
    assert error.ambiguous


@pytest.mark.parametrize("body", ["", "[]", '{"code": "x"}', "\ufffd", '{"\ufffd": 1}'])
def test_a_body_that_says_nothing_is_sorted_by_its_status(body: str) -> None:
    assert type(refusal(HttpAnswer(503, body, None))) is Unavailable


async def test_parameters_go_into_the_address(server: Twilio) -> None:
    server.statuses["SM1"] = "sent"
    path = f"https://api.twilio.com/2010-04-01/Accounts/{ACCOUNT}/Messages/SM1.json"

    answer = await Transport(5.0, server.url).request(
        "GET", path, params={"Page": 2}, auth=(ACCOUNT, AUTH_TOKEN)
    )

    assert '"status": "sent"' in answer.text


async def test_without_a_login_none_is_sent(server: Twilio) -> None:
    with pytest.raises(Misconfigured):
        await Transport(5.0, server.url).request(
            "GET", f"/2010-04-01/Accounts/{ACCOUNT}/Messages/1.json"
        )


def test_without_an_address_it_is_twilios_own() -> None:
    assert Transport(5.0)._address("https://api.twilio.com/x.json", {}) == (
        "https://api.twilio.com/x.json"
    )


def test_twilio_is_imported_beside_the_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHERE], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.split() == ["elsewhere"]


@contextmanager
def deaf() -> Iterator[str]:
    """Give the address of somebody who has no room for one more connection."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(5)]
        listener, *others = sockets
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for other in others:
            other.settimeout(0)
            other.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
