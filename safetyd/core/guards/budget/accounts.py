"""The accounts in the ledger, and limits on their number.

Agents choose the names of chains, sessions and models. Up to a limit, each name has its own
account. Further names share one account, so no spending is ever dropped to make room.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from safetyd.core.anonymous_pool import counted_as
from safetyd.core.messages.money import MAX_SUM

MAX_NAMES: Final = 65  # per agent: this many chains, and this many sessions with the implicit one
MAX_MODELS: Final = 1000
MAX_LINES: Final = 256  # entries of `AccountBooks.lines` per agent
FORGET_CHAIN_S: Final = 86_400.0

CLAIMED: Final = "*claimed"  # the party whose part has what all agents claim together
CLAIMED_KEYLESS: Final = "*claimed keyless"  # the same for anonymous agents

_SHARED: Final = ""


class Account(msgspec.Struct, gc=False, omit_defaults=True):
    """The nano-dollars of one chain, session, day, agent or model."""

    spent: int = 0
    reserved: int = 0
    raised: int = 0  # how much operators have raised the limit
    heard_t: float = 0.0
    warned_nano: int = 0  # the highest limit that a warning was sent for
    exceeded_nano: int = 0  # the highest limit that was reported as used up
    project_limit: int | None = None  # the limit of its last proposal, if a project sets it

    @property
    def used(self) -> int:
        return self.spent + self.reserved

    def lacks(self, limit: int, need: int) -> bool:
        """Return whether a limit is reached, or whether `need` would exceed it."""
        room = limit + self.raised - self.spent - self.reserved
        return room <= 0 or room < need

    def fits(self, limit: int, nano: int) -> int:
        """Return how much of an amount fits within a limit. A limit of 0 means no limit."""
        return min(nano, self.left(limit)) if limit else nano

    def left(self, limit: int) -> int:
        return max(limit + self.raised - self.used, 0)

    def lift(self, nano: int) -> None:
        self.raised = min(self.raised + nano, MAX_SUM)

    def permit(self, nano: int) -> None:
        """Raise the limit, and warn again when the new limit is reached."""
        self.lift(nano)
        self.warned_nano = self.exceeded_nano = 0

    def reserve(self, nano: int) -> None:
        self.reserved = min(self.reserved + nano, MAX_SUM)

    def release(self, nano: int) -> None:
        self.reserved = max(self.reserved - nano, 0)

    def spend(self, nano: int) -> None:
        self.spent = min(self.spent + nano, MAX_SUM)

    def strike(self, nano: int) -> None:
        """Take back spending, and warn again when a limit is reached."""
        self.spent = max(self.spent - nano, 0)
        self.warned_nano = self.exceeded_nano = 0


class Payer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The accounts that a proposal or outcome counts in."""

    agent: str
    session: str = ""
    chain: str | None = None
    model: str | None = None
    keyless: bool = False

    @property
    def counted_as(self) -> str:
        return counted_as(self)


class Reservation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    nano: int
    day: int
    payer: Payer
    session_over: bool = False

    @property
    def pending(self) -> bool:
        """True if the action is pending. Its cost then counts in no account."""
        return self.day == NO_DAY.number


class AccountBooks(msgspec.Struct):
    """The accounts of one agent."""

    chains: dict[str, Account] = {}  # least recently used first
    sessions: dict[str, Account] = {}
    reservations: dict[str, Reservation] = {}  # by the proposal's id
    lines: dict[tuple[str, str], int] = {}  # spent by session and model, oldest first
    paused: bool = False
    asked: str | None = None  # the session with a pending request for more money
    asked_nano: int = 0  # its limit

    def note(self, session: str, model: str, nano: int) -> None:
        self.lines[session, model] = min(self.lines.pop((session, model), 0) + nano, MAX_SUM)
        if len(self.lines) > MAX_LINES:
            del self.lines[next(iter(self.lines))]

    def strike(self, session: str, model: str, nano: int) -> None:
        left = self.lines.get((session, model), 0) - nano
        if left > 0:
            self.lines[session, model] = left
        else:
            self.lines.pop((session, model), None)

    def pause(self, session: str, limit: int) -> bool:
        """Record that a session needs approval for more money.

        Return False if a request is already pending.
        """
        if self.paused:
            return False
        self.paused, self.asked, self.asked_nano = True, session, limit
        return True

    def unpause(self, *, raises: bool) -> None:
        """End the pause. If `raises`, raise the limit of the session."""
        if self.asked is not None and raises:
            self.sessions[self.asked].lift(self.asked_nano)
        self.paused, self.asked = False, None


class Part(msgspec.Struct):
    """The spending that counts against a share of the daily and model budgets.

    For an agent, that is what it claims to have spent beyond its reservations. All agents share a
    part for their claims, and anonymous agents share one in which all their spending counts.
    """

    total: Account = msgspec.field(default_factory=Account)
    models: dict[str, Account] = {}


class Seen(msgspec.Struct, gc=False):
    """When an agent was last allowed an action, to the minute."""

    t: float
    keyless: bool
    told_day: int = 0  # the last day on which operators heard that it used what is not kept


class Day(msgspec.Struct):
    """The shared accounts of one UTC day."""

    number: int = 0
    total: Account = msgspec.field(default_factory=Account)
    agents: dict[str, Account] = {}
    models: dict[str, Account] = {}
    parts: dict[str, Part] = {}  # by party


# Empty defaults for reading.
NOTHING: Final = Account()
NO_BOOKS: Final = AccountBooks()
NO_DAY: Final = Day()
NO_PART: Final = Part()


def found(accounts: dict[str, Account], name: str, most: int) -> Account:
    """Return the account of a name, or the shared one. For reading only."""
    account = accounts.get(name)
    if account is None and len(accounts) >= most:
        account = accounts.get(_SHARED)
    return account or NOTHING


def found_chain(chains: dict[str, Account], name: str, t: float) -> Account:
    account = found(chains, name, MAX_NAMES)
    return NOTHING if _forgotten(account, t) else account


def fullest(accounts: Iterable[tuple[str, Account]]) -> tuple[str, Account] | None:
    """Return the account with the least money left."""
    return max(accounts, key=lambda named: named[1].used - named[1].raised, default=None)


def live_chains(chains: dict[str, Account], t: float) -> Iterator[tuple[str, Account]]:
    return (named for named in chains.items() if not _forgotten(named[1], t))


def opened(accounts: dict[str, Account], name: str, most: int) -> str:
    """Create the account of a name if needed. Return its key, which may be the shared one."""
    key = name if name in accounts or len(accounts) < most else _SHARED
    if key not in accounts:
        accounts[key] = Account()
    return key


def opened_chain(chains: dict[str, Account], name: str, t: float) -> str:
    """Create the account of a chain if needed, and forget chains unused for a day."""
    if chains and next(iter(chains.values())).heard_t + FORGET_CHAIN_S <= t:
        for old in [known for known, account in chains.items() if _forgotten(account, t)]:
            del chains[old]
    key = opened(chains, name, MAX_NAMES)
    chains[key] = account = chains.pop(key)
    account.heard_t = t
    return key


def _forgotten(chain: Account, t: float) -> bool:
    return chain.heard_t + FORGET_CHAIN_S <= t and not chain.reserved
