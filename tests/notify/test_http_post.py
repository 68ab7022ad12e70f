import socket
import ssl

import anyio
import pytest
import trustme

from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable
from safetyd.notify.http_post import post
from tests.notify.http_receivers import Reaction, receiving

SECRET = "hooks/s3cret-path"


async def posted(url: str, timeout_s: float = 5.0) -> str:
    return await post(url, b"{}", {}, timeout_s=timeout_s, secrets=("", SECRET))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (301, Misconfigured),
        (307, Misconfigured),
        (400, Undeliverable),
        (401, Misconfigured),
        (403, Misconfigured),
        (404, Undeliverable),
        (407, Misconfigured),
        (408, Unavailable),
        (410, Undeliverable),
        (413, Undeliverable),
        (422, Undeliverable),
        (425, Unavailable),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_an_answer_is_sorted_by_what_helps(status: int, error: type[Exception]) -> None:
    async with receiving(Reaction(status, {"Location": "/elsewhere"})) as receiver:
        with pytest.raises(error, match=f"^127.0.0.1 answered {status}"):
            await posted(receiver.url)

    assert len(receiver.posts) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "17"}, 17.0),
        (
            {
                "Date": "Mon, 02 Mar 2026 19:02:00 GMT",
                "Retry-After": "Mon, 02 Mar 2026 19:03:30 GMT",
            },
            90.0,
        ),
        (
            {
                "Date": "Mon, 02 Mar 2026 19:02:00 GMT",
                "Retry-After": "Mon, 02 Mar 2026 19:01:00 GMT",
            },
            0.0,
        ),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
async def test_a_server_may_say_when_to_come_again(
    headers: dict[str, str], seconds: float | None
) -> None:
    async with receiving(Reaction(429, headers)) as receiver:
        with pytest.raises(Unavailable) as busy:
            await posted(receiver.url)

    assert busy.value.retry_after_s == seconds
    assert not busy.value.ambiguous


async def test_an_error_keeps_little_of_the_answer_and_no_secret() -> None:
    said = b"no\r\nhook \x1b[31m hooks/s3cret-path here " + b"x" * 1_000_000

    async with receiving(Reaction(404, body=said)) as receiver:
        with pytest.raises(Undeliverable) as refused:
            await posted(f"{receiver.url}/{SECRET}")

    assert "no hook [31m [secret] here" in str(refused.value)
    assert len(str(refused.value)) < 250
    assert refused.value.__cause__ is None


async def test_a_hanging_server_may_have_taken_the_message() -> None:
    async with receiving(Reaction(hangs=True)) as receiver:
        with anyio.fail_after(5), pytest.raises(Unavailable, match=r"within 0.5 s") as late:
            await posted(receiver.url, timeout_s=0.5)

    assert late.value.ambiguous
    assert len(receiver.posts) == 1


async def test_a_cancelled_try_does_not_harm_the_next() -> None:
    async with receiving(Reaction(hangs=True), Reaction(body=b"thanks")) as receiver:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(posted, receiver.url)
                await receiver.arrived.wait()
                tasks.cancel_scope.cancel()
        said = await posted(receiver.url)

    assert said == "thanks"


async def test_a_server_that_breaks_off_may_have_taken_it() -> None:
    async with receiving(Reaction(breaks_off=True)) as receiver:
        with pytest.raises(Unavailable, match=r"^127.0.0.1 closed the connection") as broken:
            await posted(receiver.url)

    assert broken.value.ambiguous


async def test_a_server_that_is_not_there_took_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(Unavailable, match=r"^127.0.0.1 cannot be reached: ") as away:
        await posted(f"http://127.0.0.1:{port}/s3cret")

    assert not away.value.ambiguous
    assert "s3cret" not in str(away.value)


async def test_a_server_that_does_not_even_accept_took_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        address = deaf.getsockname()
        with socket.create_connection(address), socket.socket() as second:
            second.settimeout(0)
            second.connect_ex(address)
            with pytest.raises(Unavailable, match="in time") as late:
                await posted(f"http://127.0.0.1:{address[1]}", timeout_s=0.3)

    assert not late.value.ambiguous


async def test_a_certificate_that_nobody_trusts_needs_fixing() -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)

    async with receiving(tls=tls) as receiver:
        url = receiver.url.replace("http:", "https:")
        with pytest.raises(Misconfigured, match="TLS failed: unable to get local issuer"):
            await posted(url)

    assert receiver.posts == []


async def test_a_server_without_tls_needs_fixing() -> None:
    async with receiving() as receiver:
        with pytest.raises(Misconfigured, match="TLS failed"):
            await posted(receiver.url.replace("http:", "https:"))


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://example.com/x", "http://[::1/"])
async def test_an_address_that_is_none_needs_fixing(url: str) -> None:
    with pytest.raises(Misconfigured, match="is not valid"):
        await posted(url)


async def test_a_header_that_is_none_needs_fixing() -> None:
    async with receiving() as receiver:
        with pytest.raises(Misconfigured, match="is not valid"):
            await post(receiver.url, b"", {"X-Token": "a\nb"}, timeout_s=1.0)

    assert receiver.posts == []
