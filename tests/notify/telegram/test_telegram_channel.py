"""The channel within one process, where time can pass."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from safetyd.notify.button_channel import SAID, UNKNOWN
from safetyd.notify.channel import Misconfigured
from safetyd.notify.telegram.bot_api import BotApi
from safetyd.notify.telegram.telegram_channel import Telegram as Channel
from tests.notify.channel_context import context
from tests.notify.message_samples import notice
from tests.notify.notifier_rig import NotifierRig
from tests.notify.telegram.bot_stand_in import TOKEN, BotError, Telegram, table, telegram
from tests.servers import until


@pytest.fixture
def bot() -> Iterator[Telegram]:
    with telegram() as api:
        yield api


async def test_a_bot_that_another_program_reads_takes_no_messages_until_it_is_free(
    bot: Telegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "safetyd.notify.telegram.telegram_channel"
    monkeypatch.setattr(f"{place}.CONFLICT_S", 0.0)
    monkeypatch.setattr(f"{place}.PAUSES_S", (0.05,))
    bot.then = {"getUpdates": [BotError(409, "Conflict: can't use getUpdates now")] * 10}
    channel = Channel("telegram", BotApi(bot.url, TOKEN), context())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.run)
        await until(lambda: channel._unread)
        with pytest.raises(Misconfigured, match=r" answered 409"):
            await channel.send(notice(address="4711"))
        bot.write(4711)
        await until(lambda: not channel._unread)
        receipt = await channel.send(notice(address="4711"))
        tasks.cancel_scope.cancel()

    assert receipt.provider_id == str(next(iter(bot.messages)))


async def test_messages_about_what_expired_say_so_and_keep_the_buttons_of_the_others(
    bot: Telegram, tmp_path: Path
) -> None:
    (tmp_path / "bot").write_text(TOKEN)
    rig = NotifierRig(tmp_path, table(bot, "bot", '"4711"'))

    async with rig.at_work():
        rig.wired.asks("p1", timeout_s=300)
        rig.wired.asks("p2", text="git push elsewhere", timeout_s=86_400)
        rig.wired.passes()
        await rig.wired.rest()
        ((_, message),) = bot.messages.items()
        rig.wired.passes(400)
        after = await anyio.to_thread.run_sync(bot.edited, message)

    assert set(message.buttons) == {"Approve 1", "Deny 1", "Approve 2", "Deny 2"}
    assert after.text.startswith("Expired: push by ")
    assert "git push elsewhere" in after.text
    assert set(after.buttons) == {"Approve", "Deny"}


async def test_one_tap_answers_a_set_that_the_message_shows_until_the_set_changes(
    bot: Telegram, tmp_path: Path
) -> None:
    (tmp_path / "bot").write_text(TOKEN)
    rig = NotifierRig(tmp_path, table(bot, "bot", '"4711"'))

    async with rig.at_work():
        until_s = (300, 86_400, 86_400, 86_400)
        ids = [
            rig.wired.asks(f"p{n}", text=f"restart app-{n}", timeout_s=timeout_s)
            for n, timeout_s in enumerate(until_s)
        ]
        rig.wired.passes()
        await rig.wired.rest()
        ((_, first),) = bot.messages.items()
        rig.wired.passes(400)
        stale = await anyio.to_thread.run_sync(bot.told, bot.tap(4711, first, "Approve all 4"))
        answered = [rig.wired.queue.request(id_).state for id_ in ids]
        edited = await anyio.to_thread.run_sync(bot.edited, first)
        said = await anyio.to_thread.run_sync(bot.told, bot.tap(4711, edited, "Approve all 3"))

    assert "app-3" in first.text
    assert (stale, answered) == (UNKNOWN, ["expired", *["pending"] * 3])
    assert said == SAID["approved"]
    assert [rig.wired.queue.request(id_).state for id_ in ids] == ["expired", *["approved"] * 3]
