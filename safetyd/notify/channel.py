"""What a channel is: it takes one message, or says what is wrong in one of three ways.

A channel renders and sends; tries, deadlines, limits and reports are the worker's.
"""

from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from safetyd.notify.message import Notice

MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0


class Unavailable(Exception):
    """The channel may take it later: a timeout, a 5xx, a limit of rate.

    `ambiguous` says that it may have arrived all the same.
    """

    def __init__(
        self, why: str, *, retry_after_s: float | None = None, ambiguous: bool = False
    ) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s
        self.ambiguous = ambiguous


class Undeliverable(Exception):
    """The channel will never take this message: a bad address, a refused content."""


class Misconfigured(Exception):
    """The channel takes nothing until somebody mends it: a refused login, a bad certificate."""


class Receipt(NamedTuple):
    """The channel took it. Only some can say that it arrived."""

    state: Literal["accepted", "delivered"]
    provider_id: str = ""


class Rate(NamedTuple):
    """So many messages in so many seconds."""

    most: int
    per_s: float


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How one channel is to be treated."""

    deadline_s: float  # of one try
    concurrency: int = 1
    rates: tuple[Rate, ...] = ()
    recipient_rates: tuple[Rate, ...] = ()  # for one recipient; what is urgent is exempt
    delays_s: tuple[float, ...] = (5.0, 15.0, 45.0, 120.0, 300.0, 600.0)  # the last one repeats
    max_tries: int | None = None  # None: until the message has no use any more
    ambiguous_tries: int | None = None  # tries again after one that may have arrived


class Channel(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    async def send(self, notice: Notice) -> Receipt:
        """Hand a message over; raise one of the three errors above if that fails.

        A try may be cancelled at any moment; the next one must find the channel usable.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
