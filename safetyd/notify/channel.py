"""The interface of channels: their table in the configuration, opening and sending.

Each folder of `notify` with a `channel.py` is a channel. Its `CHANNEL` is a `ChannelTable`: the
operator's settings, and the interface to the rest of safetyd. The folder's name is the name of the
table. An open `Channel` renders and sends messages. Its worker retries, and enforces deadlines and
limits.
"""

import logging
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.messages.proposal import Risk
from safetyd.core.recipients import ChannelKind
from safetyd.host import NoSecret, is_this_machine, read_secret
from safetyd.notify.message import Notice, Privacy

if TYPE_CHECKING:
    from aiohttp import web

    from safetyd.core.approvals.request import Request
    from safetyd.journal.mailbox import Mailbox, Plan
    from safetyd.notify.address_book import Tables
    from safetyd.notify.compose import Composer
    from safetyd.notify.links.sent_links import SentLinks
    from safetyd.notify.links.tokens import Signer
    from safetyd.notify.links.wrong_codes import WrongCodes

MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
NEEDED: Final = "is empty; it is required if enabled = true"

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Hints = tuple[tuple[str, str], ...]
To = str | tuple[str, ...]
Problems = Iterator[tuple[str, str]]  # a configuration key, and the problem with its value
Answer = TypeVar("Answer")

log = logging.getLogger("safetyd.notify")


class Unavailable(Exception):
    """A temporary failure, such as a timeout, a 5xx or a rate limit: a retry may succeed.

    `ambiguous` is True if the message may have arrived anyway.
    """

    def __init__(
        self, why: str, *, retry_after_s: float | None = None, ambiguous: bool = False
    ) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s
        self.ambiguous = ambiguous


class Undeliverable(Exception):
    """A permanent failure of one message, such as a bad address or refused content."""


class Misconfigured(Exception):
    """A failure that lasts until an operator fixes the channel, such as a refused login."""


class Receipt(NamedTuple):
    """The channel accepted the message. Only some channels can confirm delivery."""

    state: Literal["accepted", "delivered"]
    provider_id: str = ""


class Rate(NamedTuple):
    """At most `most` messages in `per_s` seconds."""

    most: int
    per_s: float


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Deadline, rates and retries of one channel."""

    deadline_s: float  # for one attempt
    concurrency: int = 1
    rates: tuple[Rate, ...] = ()
    recipient_rates: tuple[Rate, ...] = ()  # limits for one recipient; urgent messages are exempt
    delays_s: tuple[float, ...] = (5.0, 15.0, 45.0, 120.0, 300.0, 600.0)  # the last delay repeats
    max_tries: int | None = None  # None: retry until the message expires or is cancelled
    ambiguous_tries: int | None = None  # retries of a message that may have arrived


class Channel(ABC):
    """An open channel. Only `send` is required; the rest is for channels that accept answers."""

    name: str
    limits: Limits
    refused = 0  # rejected answers
    reads = ""  # the mailbox that replies are read from, or why they cannot be read

    @abstractmethod
    async def send(self, notice: Notice) -> Receipt:
        """Send a message; raise one of the three errors above if that fails.

        The attempt may be cancelled at any time; the channel must remain usable.
        """

    async def run(self) -> None:  # noqa: B027 - optional
        """Do the channel's own work while it is open, such as polling for answers."""

    def observe(self, events: Sequence[Event]) -> None:  # noqa: B027 - optional
        """Process durable events; must not block."""

    def shown(self, delivery: str) -> None:  # noqa: B027 - optional
        """Record that a desktop helper shows a message."""

    async def close(self) -> None:  # noqa: B027 - optional
        """Release connections."""


class BrokenChannel(Channel):
    """A channel that cannot be opened; each message to it fails with the reason."""

    limits = Limits(deadline_s=1.0)

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why

    async def send(self, notice: Notice) -> Receipt:  # noqa: ARG002 - never sent
        raise Misconfigured(self.why)


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    subject: str = ""  # the subject or title, if the channel shows one
    size: str  # with the channel's unit, such as bytes
    html: str = ""


class ChannelContext(NamedTuple):
    """The parts of the daemon that channels use."""

    host: str  # the name of this machine
    public_url: str  # without a trailing slash; empty: links open on this machine only
    directories: tuple[Path, ...]  # where to look for files named without a path
    publish: Callable[[str, object], None]  # sends an event to helpers: its kind and its content
    waits: "Callable[[Request], bool]"  # True if an agent waits for the answer to a request
    tables: "Callable[[], Tables]"  # returns the current configuration
    mailbox: "Mailbox"
    composer: "Composer"
    signer: "Signer"
    sent_links: "SentLinks"
    wrong_codes: "WrongCodes"
    used: Callable[[str, datetime], None]  # records that a test link was opened

    def secret(self, file: str) -> str:
        """Return the secret in a configured file, or an empty string if no file is configured."""
        return secret(file, self.directories) if file else ""


class CarryOut(Protocol):
    """Carries out a plan; returns its answer once it is durable, or raises `Unanswered`."""

    def __call__(self, plan: "Plan[Answer]") -> Awaitable[Answer]: ...


class Hook(NamedTuple):
    """A path that a provider posts to."""

    path: str
    handle: "Callable[[web.Request], Awaitable[web.StreamResponse]]"


class Package(NamedTuple):
    """A Python package that a channel imports, and the extra of safetyd that installs it."""

    module: str
    extra: str

    @property
    def missing(self) -> str:
        """The error if the package is not installed."""
        return f"{self.module} is not installed: run `pip install 'safetyd[{self.extra}]'`"

    def is_installed(self) -> bool:
        return find_spec(self.module) is not None


class AbstractStruct(msgspec.StructMeta, ABCMeta):
    """Let a struct have abstract methods."""


class ChannelTable(
    msgspec.Struct, metaclass=AbstractStruct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """One `[notifications.<channel>]` table. Secrets are in files that it names."""

    enabled: bool = False
    privacy: Privacy = "full"

    kind: ClassVar[ChannelKind] = "chat"  # decides which alerts and summaries the channel gets
    rank: ClassVar[int] = 50  # position in the default order of preference
    repeated: ClassVar[bool] = False  # True for [[notifications.<channel>]]: each is a channel
    secret_files: ClassVar[tuple[str, ...]] = ()  # settings that name a file with a secret
    needs: ClassVar[Package | None] = None  # a package that the extra `server` does not install
    hints: ClassVar[Hints] = ()  # pairs: a part of an error text in lower case, and advice for it

    @property
    def usable(self) -> bool:
        """True if this channel can send messages from this machine."""
        return self.enabled

    @property
    def codes(self) -> bool:
        """True if its readers may see the approval code."""
        return True

    @property
    def app_url(self) -> str:
        """The address of a web app that shows messages with buttons; empty if there is none."""
        return ""

    @property
    def reply_risk(self) -> Risk | None:
        """The highest risk that a reply may approve. None: replies cannot approve."""
        return None

    def problems(self) -> Problems:
        """Yield a key and its problem, for each mistake that the type does not exclude."""
        yield from ()

    @abstractmethod
    async def open(self, name: str, context: ChannelContext) -> Channel:
        """Read secrets, load libraries and return the channel, or raise `Misconfigured`."""

    @abstractmethod
    def preview(self, notice: Notice) -> Preview:
        """Return a message as this channel shows it."""

    def limits(self) -> Limits:
        """Return the limits of the opened channel, without opening it."""
        return Limits(deadline_s=10.0)

    async def check(self, read: Callable[[str], str]) -> str:  # noqa: ARG002
        """Ask the provider whether these settings work. `read` returns the secret in a file.

        Return a remark for the operator, or an empty string. If the settings do not work, raise
        one of the three errors above.
        """
        return ""

    @classmethod
    def hooks(cls, context: ChannelContext, carry_out: CarryOut) -> Iterable[Hook]:  # noqa: ARG003
        """Return the paths that the provider of this channel posts to."""
        return ()


class PersonalTable(ChannelTable, frozen=True, kw_only=True):
    """A channel on which each recipient has an address, here or in their `[[recipients]]` table."""

    to: To = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        return ((self.to,) if self.to else ()) if isinstance(self.to, str) else self.to

    @classmethod
    @abstractmethod
    def wrong_address(cls, address: str) -> str:
        """Return the problem with an address, or an empty string."""


async def opened(name: str, table: ChannelTable, context: ChannelContext) -> Channel:
    """Return a channel, or a broken one if it cannot be opened."""
    try:
        return await table.open(name, context)
    except Misconfigured as exc:
        log.warning("cannot open channel %s: %s", name, exc)
        return BrokenChannel(name, str(exc))


def secret(file: str, directories: Iterable[Path]) -> str:
    """Return the content of a file; look in these directories if its path is not absolute."""
    try:
        return read_secret(file, directories)
    except NoSecret as exc:
        raise Misconfigured(str(exc)) from None


def url_problems(key: str, url: str) -> Problems:
    """Yield the problems of a URL that messages are posted to."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    # The part after the host may be secret, so the message omits it.
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        yield key, "must be a URL that begins with https://"
    elif parts.scheme == "http" and not is_this_machine(parts.hostname):
        yield key, "begins with http://, which is allowed only for this machine; use https://"


def needed(**settings: str) -> Problems:
    """Yield a problem for each of these settings that is empty."""
    yield from ((key.rstrip("_"), NEEDED) for key, value in settings.items() if not value)
