import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import anyio
import pytest

from safetyd.notify.apprise import channel as module
from safetyd.notify.apprise.apprise_process import AppriseMessage, TargetAnswer, tell
from safetyd.notify.apprise.channel import AppriseConfig, Chat, addresses, written
from safetyd.notify.channel import Misconfigured, Receipt, Unavailable
from safetyd.notify.sanitize import harmless, one_line
from tests.notify.http_receivers import Reaction, Receiver, receiving
from tests.notify.message_samples import HOSTILE, LINK, alert_topic, notice, request_topic
from tests.servers import until

PASSWORD = "s3cret"
SLACK = "slack://TokenA/TokenB/TokenC"
DISCORD = "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js"


def chat(*urls: str, timeout_s: float = 15.0, command: tuple[str, ...] = module.COMMAND) -> Chat:
    config = AppriseConfig(name="team", url_file="")
    return Chat(config, urls, timeout_s=timeout_s, command=command)


def says(script: str) -> tuple[str, ...]:
    """Return the command of a process that is not what was expected."""
    return (sys.executable, "-c", script)


def target(receiver: Receiver, schema: str = "json") -> str:
    # What hangs there would be given up by apprise after seconds if it were not told otherwise.
    return f"{schema}://alice:{PASSWORD}@127.0.0.1:{receiver.port}/hook?rto=60"


def children() -> Iterator[bytes]:
    """Yield how the processes were started that this one has begun and not ended."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(process.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            started = process.joinpath("cmdline").read_bytes()
            if parent == os.getpid() and b"apprise_process" in started:
                yield started + process.joinpath("environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue


@pytest.mark.req("S2.36")
async def test_a_medium_anomaly_is_told_in_the_chat() -> None:
    told = notice(alert_topic(title="MEDIUM: odd hours of code", urgency="low"))

    async with receiving() as receiver:
        channel = chat(target(receiver))
        receipt = await channel.send(told)
        await channel.close()

    assert (channel.name, receipt) == ("team", Receipt("accepted"))
    sent = receiver.posts[0].document
    assert sent["title"] == "MEDIUM: odd hours of code"
    assert "9 of the last 10 actions failed" in sent["message"]


async def test_every_address_is_told_its_link_on_a_line_of_its_own() -> None:
    async with receiving() as first, receiving() as second:
        await chat(target(first), target(second, "form")).send(notice())

    assert LINK in first.posts[0].document["message"].split("\n")
    assert LINK in parse_qs(second.posts[0].body.decode())["message"][0].split("\n")
    assert len(second.posts) == 1


async def test_who_took_it_is_not_told_again_when_another_is() -> None:
    async with receiving() as good, receiving(Reaction(500), Reaction(200)) as bad:
        channel = chat(target(good), target(bad))
        with pytest.raises(Unavailable, match=r"^1 of 2 addresses refused the message$"):
            await channel.send(notice())
        await channel.send(notice(again=True))
        await channel.send(notice(again=True))

    assert (len(good.posts), len(bad.posts)) == (1, 2)


async def test_hanging_addresses_are_killed_and_hold_up_no_other() -> None:
    async with receiving(Reaction(hangs=True)) as hanging, receiving() as good:
        hung_ones = [f"{target(hanging)}&n={n}" for n in range(12)]
        with pytest.raises(Unavailable, match=r"^12 of 13 addresses gave no answer$") as hung:
            await chat(*hung_ones, target(good), timeout_s=5.0).send(notice())

        assert hung.value.ambiguous
        assert len(good.posts) == 1
        assert list(children()) == []


async def test_a_cancelled_try_leaves_no_process_and_remembers_who_took_it() -> None:
    async with receiving(Reaction(hangs=True), Reaction()) as slow, receiving() as good:
        channel = chat(target(slow), target(good))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.send, notice())
            await until(lambda: channel._taken and any(channel._taken.values()) and slow.posts)
            tasks.cancel_scope.cancel()
        left = list(children())
        await channel.send(notice())

    assert left == []
    assert (len(slow.posts), len(good.posts)) == (2, 1)


async def test_no_address_stands_where_others_can_read_it() -> None:
    async with receiving(Reaction(hangs=True)) as hanging, anyio.create_task_group() as tasks:
        tasks.start_soon(chat(target(hanging)).send, notice())
        with anyio.fail_after(15):
            await hanging.arrived.wait()
        seen = list(children())
        tasks.cancel_scope.cancel()

    assert len(seen) == 1
    assert PASSWORD.encode() not in seen[0]


async def test_an_address_that_is_none_needs_mending_after_others_were_told() -> None:
    async with receiving() as good:
        with pytest.raises(Misconfigured, match="number 1, 3 of 3 addresses") as refused:
            await chat(f"nonsense://{PASSWORD}", target(good), PASSWORD).send(notice())

    assert PASSWORD not in str(refused.value)
    assert len(good.posts) == 1


async def test_a_redirect_is_not_followed() -> None:
    async with receiving(Reaction(307, {"Location": "/elsewhere"})) as receiver:
        with pytest.raises(Unavailable, match="refused"):
            await chat(target(receiver)).send(notice())

    assert len(receiver.posts) == 1


@pytest.mark.parametrize(
    "script",
    [
        "",
        "import sys; sys.stdin.close()",
        "print('no answer')",
        "print('x' * 100_000)",
        "print('[1, 2]')",
        "import sys; sys.stdin.read(); print('{\"number\":0')",
    ],
)
async def test_a_process_that_gives_no_answer_took_nothing(script: str) -> None:
    with anyio.fail_after(10), pytest.raises(Unavailable, match="gave no answer"):
        await chat(SLACK, command=says(script)).send(notice())


async def test_a_process_that_cannot_be_started_is_tried_later(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"^apprise cannot be started: No such file"):
        await chat(SLACK, command=(str(tmp_path / "nothing"),)).send(notice())


async def test_without_apprise_the_channel_needs_mending() -> None:
    script = (
        "import sys; sys.modules['apprise'] = None;"
        "from safetyd.notify.apprise import apprise_process; apprise_process.main()"
    )

    with pytest.raises(Misconfigured, match=r"^apprise is not installed: .*safetyd\[chat\]"):
        await chat(SLACK, command=says(script)).send(notice())


async def test_what_plugins_print_is_no_answer() -> None:
    script = (
        "import apprise\n"
        "def notify(self, *words, **more):\n"
        "    print('printed', flush=True)\n"
        "    raise OSError('broken')\n"
        "apprise.Apprise.notify = notify\n"
        "from safetyd.notify.apprise import apprise_process\n"
        "apprise_process.main()\n"
    )

    with pytest.raises(Unavailable, match="refused"):
        await chat("json://127.0.0.1:9", command=says(script)).send(notice())


def test_an_address_that_names_no_service_is_unknown() -> None:
    answers: list[TargetAnswer] = []

    tell([AppriseMessage(number=4, url="nonsense", title="", body="x")], answers.append)

    assert answers == [TargetAnswer(4, "unknown")]


async def test_only_so_many_deliveries_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    channel = chat()

    for number in range(5):
        await channel.send(notice(delivery=f"dlv_{number}"))

    assert list(channel._taken) == ["dlv_3", "dlv_4"]


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_words_call_nobody_and_fit(*, marked: bool, number: int) -> None:
    shown = harmless(HOSTILE[number], 4_000)
    title = one_line(HOSTILE[number], 160)
    topic = request_topic(type=title, text=shown.text, why=shown.text)

    said = written(notice(topic), marked=marked)

    assert len(said.title) + 2 + len(said.body) <= 2_000
    assert LINK in said.body.split("\n")
    for call in ("@everyone", "@here", "<!", "<@", "<#", "<script"):
        assert call not in said.title + said.body


def test_markup_is_shown_as_it_is_where_it_would_be_obeyed() -> None:
    topic = request_topic(text="rm *.py *.txt || ~~keep~~ [x](y) `a` \\_ :x:")

    plain, marked = (
        message.body.split("\n")[0] for message in module._messages((SLACK, DISCORD), notice(topic))
    )

    assert plain == "> rm *.py *.txt || ~~keep~~ [x](y) `a` \\_ :x:"
    assert marked == (r"\> rm \*.py \*.txt \|\| \~\~keep\~\~ \[x\]\(y\) \`a\` \\\_ \:x\:")


def test_a_file_has_an_address_a_line() -> None:
    text = f"# ours\n\n {SLACK} \n{DISCORD}\n{SLACK}\n"

    assert addresses(text) == (SLACK, DISCORD)


@pytest.mark.parametrize("number", [0, 33])
def test_a_file_with_no_or_too_many_addresses_is_refused(number: int) -> None:
    text = "\n".join(f"json://127.0.0.1/{PASSWORD}{n}" for n in range(number))

    with pytest.raises(Misconfigured, match=f"has {number} addresses") as refused:
        addresses(text)

    assert PASSWORD not in str(refused.value)
