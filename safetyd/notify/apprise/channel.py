"""Chat services through apprise, in a separate process for each message.

A process that hangs is killed and delays nothing else. The addresses contain secrets: the process
reads them from its standard input, and errors never contain them.
"""

import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from typing import Annotated, ClassVar, Final, NamedTuple, cast

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Meta

from safetyd.notify.apprise.apprise_process import MAX_ANSWER, AppriseMessage, Outcome, TargetAnswer
from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    ChannelTable,
    Limits,
    Misconfigured,
    Package,
    Preview,
    Rate,
    Receipt,
    Unavailable,
)
from safetyd.notify.message import Notice
from safetyd.notify.shortening import clip, fitted

MAX_CHARS: Final = 1900  # Discord accepts 2,000, others more
TITLE_CHARS: Final = 80
MAX_TARGETS: Final = 32
REMEMBERED: Final = 256  # deliveries for which the successful addresses are remembered
TIMEOUT_S: Final = 18.0
ENDING_S: Final = 1.0  # the time that the process has to exit after its last answer
APPRISE: Final = Package("apprise", "chat")
LIMITS: Final = Limits(deadline_s=20.0, rates=(Rate(1, 1.2),))
COMMAND: Final = (sys.executable, "-P", "-m", "safetyd.notify.apprise.apprise_process")

ZERO_WIDTH: Final = "\u200b"
# These services always render Markdown; a backslash escapes it.
MARKDOWN: Final = (
    "discord://",
    "https://discord.com/",
    "https://discordapp.com/",
    "mmost://",
    "mmosts://",
)

_calls = re.compile(r"[@<](?=\S)").sub
_marks = re.compile(r"[\\`*_~|\[\]()#>:-]").sub
_decode = msgspec.json.Decoder(TargetAnswer).decode
# The process exited or wrote an invalid answer; messages without an answer have failed.
_BROKEN: Final = (
    anyio.BrokenResourceError,
    anyio.DelimiterNotFound,
    anyio.EndOfStream,
    anyio.IncompleteRead,
    msgspec.DecodeError,
    ConnectionError,
)


class Said(NamedTuple):
    title: str
    body: str


class Chat(Channel):
    """Sends to every address of one group; a delivery succeeds when every address accepted it.

    A retry skips the addresses that already accepted the message.
    """

    limits = LIMITS

    def __init__(
        self,
        config: "AppriseConfig",
        urls: Sequence[str],
        *,
        timeout_s: float = TIMEOUT_S,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.name = config.name
        self._urls = tuple(urls)
        self._timeout_s = timeout_s
        self._command = command
        self._taken: dict[str, set[int]] = {}  # address numbers by delivery, oldest first

    async def send(self, notice: Notice) -> Receipt:
        taken = self._taken_of(notice.delivery)
        messages = [each for each in _messages(self._urls, notice) if each.number not in taken]
        outcomes = await self._tell(messages, taken) if messages else {}
        if problem := self._problem(messages, outcomes):
            raise problem
        return Receipt("accepted")

    def _taken_of(self, delivery: str) -> set[int]:
        taken = self._taken.pop(delivery, set())
        self._taken[delivery] = taken
        if len(self._taken) > REMEMBERED:
            del self._taken[next(iter(self._taken))]
        return taken

    async def _tell(
        self, messages: Sequence[AppriseMessage], taken: set[int]
    ) -> dict[int, Outcome]:
        """Return the outcomes known when the timeout ends. Add each success to `taken` at once."""
        outcomes: dict[int, Outcome] = {}
        async with await self._process() as process:
            try:
                with anyio.move_on_after(self._timeout_s), suppress(*_BROKEN):
                    await _hand_over(process, messages)
                    async for answer in _answers(process, len(messages)):
                        outcomes[answer.number] = answer.outcome
                        if answer.outcome == "taken":
                            taken.add(answer.number)
                    with anyio.move_on_after(ENDING_S):
                        await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
        return outcomes

    async def _process(self) -> Process:
        try:
            return await anyio.open_process(self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        except OSError as exc:
            raise Unavailable(f"apprise cannot be started: {exc.strerror}") from None

    def _problem(
        self, messages: Sequence[AppriseMessage], outcomes: Mapping[int, Outcome]
    ) -> Unavailable | Misconfigured | None:
        """Return the error to raise, if any. Temporary errors take precedence."""
        found = {message.number: outcomes.get(message.number, "unanswered") for message in messages}
        count, of = Counter(found.values()), f"of {len(self._urls)} addresses"
        if count["unanswered"]:
            return Unavailable(f"{count['unanswered']} {of} gave no answer", ambiguous=True)
        if count["refused"]:
            return Unavailable(f"{count['refused']} {of} refused the message")
        if count["no apprise"]:
            return Misconfigured(APPRISE.missing)
        if count["unknown"]:
            lines = ", ".join(str(number + 1) for number in found if found[number] == "unknown")
            return Misconfigured(f"not supported by apprise: number {lines} {of}")
        return None


def addresses(text: str) -> tuple[str, ...]:
    """Return the addresses in a file, one per line; raise `Misconfigured` if there are none.

    A line that begins with `#` is a comment.
    """
    lines = (line.strip() for line in text.splitlines())
    found = tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if not 0 < len(found) <= MAX_TARGETS:
        raise Misconfigured(f"the file has {len(found)} addresses; 1 to {MAX_TARGETS} are allowed")
    return found


def written(notice: Notice, *, marked: bool) -> Said:
    """Return the text for an address, without mentions of users and without markup.

    `marked` is True if the service renders Markdown, which must then be escaped.
    """
    render = _shown if marked else _uncalled

    def size(text: str) -> int:
        return len(render(text))

    title = clip(notice.subject, TITLE_CHARS, size)
    return Said(render(title), render(fitted(notice, "chat.txt", MAX_CHARS, size)[0] or title))


def _messages(urls: Sequence[str], notice: Notice) -> list[AppriseMessage]:
    marks = [url.lower().startswith(MARKDOWN) for url in urls]
    said = {marked: written(notice, marked=marked) for marked in set(marks)}
    return [
        AppriseMessage(number=number, url=url, title=said[marked].title, body=said[marked].body)
        for number, (url, marked) in enumerate(zip(urls, marks, strict=True))
    ]


def _uncalled(text: str) -> str:
    """Break mentions such as `@everyone` and `<!channel>`, so that nobody is notified by them."""
    return _calls(rf"\g<0>{ZERO_WIDTH}", text)


def _shown(text: str) -> str:
    """Escape Markdown in a text, except in safetyd's own links."""
    return "\n".join(
        line if line.startswith(("https://", "http://")) else _marks(r"\\\g<0>", _uncalled(line))
        for line in text.split("\n")
    )


async def _hand_over(process: Process, messages: Sequence[AppriseMessage]) -> None:
    stdin = cast("ByteSendStream", process.stdin)  # it is a pipe
    await stdin.send(msgspec.json.encode(messages))
    await stdin.aclose()


async def _answers(process: Process, number: int) -> AsyncIterator[TargetAnswer]:
    """Yield `number` answers as they arrive."""
    stream = BufferedByteReceiveStream(cast("ByteReceiveStream", process.stdout))
    for _ in range(number):
        yield _decode(await stream.receive_until(b"\n", MAX_ANSWER))


class AppriseConfig(ChannelTable, frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,32}$")]
    url_file: str  # a file with one address per line
    enabled: bool = True

    rank: ClassVar[int] = 60
    group: ClassVar[bool] = True
    repeated: ClassVar[bool] = True
    secret_files: ClassVar[tuple[str, ...]] = ("url_file",)
    needs: ClassVar[Package | None] = APPRISE

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        return Chat(self, addresses(context.secret(self.url_file)))

    def limits(self) -> Limits:
        return LIMITS

    def preview(self, notice: Notice) -> Preview:
        said = written(notice, marked=False)
        return Preview(
            subject=said.title,
            text=f"{said.title}\n\n{said.body}",
            size=f"{len(said.body)} characters",
        )


CHANNEL = AppriseConfig
