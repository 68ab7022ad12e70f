"""However a try ends, it ends in time, as one of few outcomes, and tells no secret."""

import asyncio
import logging

import pytest

from safetyd.notify.channel import Unavailable
from safetyd.notify.delivery.channel_worker import one_line
from tests.notify.delivery.fake_channel import Report, at_work, round_of


@pytest.mark.parametrize(
    "error",
    [
        KeyError("token=hunter2"),
        OSError(113, "token=hunter2"),
        ExceptionGroup("token=hunter2", [ValueError("token=hunter2")]),
        asyncio.CancelledError("token=hunter2"),
        StopAsyncIteration("token=hunter2"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_that_no_channel_should_raise_is_one_that_may_pass(
    error: BaseException, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("safetyd"), "propagate", True)
    story = round_of(error, "takes", delays_s=(5.0,))

    async with at_work(story.worker):
        story.put("a")
        await story.rest()
        told = story.worker.state().last_error
        await story.later(10)

    assert story.dispatcher.reports == [Report("a", "accepted", 2)]
    assert told == f"unexpected {type(error).__name__}"
    assert caplog.messages[0] == f"channel fake raised {type(error).__name__}"
    assert "hunter2" not in caplog.text


async def test_a_try_that_hangs_ends_at_its_deadline_and_may_have_arrived() -> None:
    story = round_of("hangs", "takes", deadline_s=0.02, delays_s=(5.0,))

    async with at_work(story.worker):
        story.put("a")
        await story.rest()
        error = story.worker.state().last_error
        await story.later(10)

    assert error == "no answer within 0.02 s"
    assert [notice.again for notice in story.channel.tried] == [False, True]
    assert story.dispatcher.reports == [Report("a", "accepted", 2)]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("451 try\r\nlater\x1b[2J\u2028now", "451 try later [2J now"),
        (
            "POST https://alice:pw@example.com/hook/s3cr3t?k=1 failed",
            "POST https://example.com fai",
        ),
        ("tgram://s3cr3t@example.com:8443#x", "tgram://example.com:8443"),
        ("x" * 1_000_000, "x" * 300),
    ],
)
def test_an_error_is_one_short_line_without_what_follows_a_host(error: str, line: str) -> None:
    told = one_line(Unavailable(error))

    assert told.startswith(line)
    assert len(told) <= 300
    assert "s3cr3t" not in told
