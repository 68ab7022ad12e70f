"""The accounts of senders: connections, requests under way, and bytes of bodies.

A connection belongs to the account of its peer, a local user or an address. Once a token or a name
identifies the sender of a request, its bytes are reserved in the account of that sender before they
are read. In the account of a local user, each known agent has a reserved share, so that the user's
other agents cannot use up everything.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Literal, NamedTuple, Protocol, Self

import msgspec

from safetyd.clock import uptime
from safetyd.core.sender_limits import AGENT_LIMITS, BYTES_OF_ALL, USER_LIMITS, SenderLimits
from safetyd.core.token_bucket import Refill, TokenBucket

Limit = Literal[
    "connections", "requests", "requests_per_s", "waiting", "bytes", "bytes_per_s", "messages"
]
LIMITS: Final[dict[Limit, str]] = {
    "connections": "{} open connections",
    "requests": "{} requests under way",
    "requests_per_s": "{} requests per second",
    "waiting": "{} calls that wait for an operator",
    "bytes": "{} bytes in requests under way",
    "bytes_per_s": "{} bytes per second",
    "messages": "{} messages and their bytes per second",
}
USER: Final = "uid:"
ANONYMOUS_AGENTS: Final = "anonymous agents"
SESSION: Final = "session:"  # of the control room; the rest of the name is secret
ALL: Final = "all senders together"
OTHERS: Final = "others"
MAX_ACCOUNTS: Final = 1024  # above it, unused ones are forgotten, and new senders share one
MAX_CONNECTIONS: Final = 4096  # of all senders
KNOWN_S: Final = 3600.0  # an agent that was idle for longer makes room for another one
LONGEST_S: Final = 1.0  # the longest wait for a turn
PATIENCE_S: Final = 1.0  # how long a request waits for room
# Reading a body takes milliseconds. The time of one that takes longer is charged as bytes, so that
# a sender of such bodies gets a tenth of the daemon's time.
QUICK_S: Final = 0.05
BUSY_TIMES: Final = 10
RECENT_S: Final = 60.0  # how long a sender is named after it was over a limit
MAX_NAMED: Final = 64

log = logging.getLogger("safetyd.senders")


class Sender(NamedTuple):
    """An account, and the agent within the account of a local user."""

    account: str
    agent: str = ""


def of_user(uid: int | None, agent: str = "") -> Sender:
    """Return a local user as a sender; None if the system does not tell."""
    return Sender(f"{USER}{'unknown' if uid is None else uid}", agent)


def of_agent(agent: str) -> Sender:
    """Return an agent with a key or token as a sender."""
    return Sender(f"agent:{agent}")


def shown(account: str) -> str:
    """Return the name of an account without secrets."""
    return "a session of the control room" if account.startswith(SESSION) else account


class OverLimit(Exception):
    """A sender is over a limit; the text says who and which one."""

    def __init__(self, account: str, limit: Limit, most: float, wait_s: float = 1.0) -> None:
        limited = LIMITS[limit].format(f"{most:,.0f}")
        are = "are" if account == ALL else "is"
        super().__init__(f"{shown(account)} {are} over the limit of {limited}")
        self.account = account
        self.limit = limit
        self.wait_s = wait_s


class OpenConnection(Protocol):
    """A connection that can be closed to make room."""

    def drop(self) -> None: ...


class SenderOver(msgspec.Struct):
    """How often a sender was over a limit within a minute, and when it was last."""

    sender: str
    limit: Limit
    count: int = 0
    t: float = 0.0
    logged_t: float = -math.inf

    @property
    def words(self) -> str:
        """Return the name of the limit for people."""
        return LIMITS[self.limit].format("").strip()


class Taken(NamedTuple):
    """How much was taken from an agent's reserved share, and how much from the shared part."""

    agent: str
    own: int
    shared: int


class Amount:
    """How much of one thing is in use: by each known agent, and by all others together."""

    def __init__(self, limit: int, known: int) -> None:
        self.limit = limit
        self._reserved = limit // 2 // known if known else 0
        self._shareable = limit - self._reserved * known
        self._own: Counter[str] = Counter()
        self._shared = 0

    def take(self, agent: str, amount: int) -> Taken | None:
        """Take an amount for a known agent, or for the others (""). Return None if it is gone."""
        own = min(amount, self._reserved - self._own[agent]) if agent else 0
        shared = amount - own
        if self._shared + shared > self._shareable:
            return None
        if own:
            self._own[agent] += own
        self._shared += shared
        return Taken(agent, own, shared)

    def give_back(self, taken: Taken) -> None:
        self._shared -= taken.shared
        if taken.own:
            self._own[taken.agent] -= taken.own
            self._own += Counter()  # forget zeros

    @property
    def used(self) -> int:
        return self._shared + self._own.total()


class Flow:
    """A rate with a burst: for each known agent, and for all others together."""

    def __init__(self, per_s: float, burst: float, known: int, own_burst: float) -> None:
        self._known = known
        self._own = Refill(per_s / 2 / max(known, 1), own_burst)
        self._all = Refill(per_s / 2, burst / 2) if known else Refill(per_s, burst)
        self._buckets: dict[str, TokenBucket] = {}
        self._shared = TokenBucket()

    def wait_s(self, agent: str, amount: float, t: float) -> float:
        """Return the seconds until an amount can be taken, or 0.0."""
        common = max(0.0, self._all.wait_s(self._all.fill(self._shared, t), amount))
        if not agent or not common:
            return common
        own = self._own.wait_s(self._own.fill(self._bucket(agent), t), amount)
        return min(common, max(0.0, own))

    def take(self, agent: str, amount: float, t: float) -> None:
        """Take an amount from the reserved share of a known agent, else from the shared part."""
        if agent and self._own.fill(self._bucket(agent), t) >= amount:
            self._bucket(agent).tokens -= amount
        else:
            self._all.fill(self._shared, t)
            self._shared.tokens -= amount

    def charge(self, agent: str, amount: float) -> None:
        """Charge for what was taken before, even if there is not enough left."""
        refill, bucket = (self._own, self._bucket(agent)) if agent else (self._all, self._shared)
        refill.fill(bucket, max(bucket.t, self._shared.t))  # the time of the last message
        bucket.tokens -= amount

    def overdrawn_s(self, agent: str, t: float) -> float:
        """Return the seconds until the part that an agent is charged for is not overdrawn."""
        if agent:
            return max(0.0, self._own.wait_s(self._own.fill(self._bucket(agent), t), 0.0))
        return max(0.0, self._all.wait_s(self._all.fill(self._shared, t), 0.0))

    def _bucket(self, agent: str) -> TokenBucket:
        if agent not in self._buckets and len(self._buckets) >= 2 * self._known:
            self._buckets.clear()  # most are of agents that made room for others
        return self._buckets.setdefault(agent, TokenBucket())


class KnownAgents:
    """The agents of one account that have a reserved share, least recently active first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: dict[str, float] = {}

    def known(self, agent: str, t: float) -> str:
        """Return the agent if it has a reserved share, else ""."""
        if not agent or not self._most:
            return ""
        if agent not in self._seen and len(self._seen) >= self._most:
            oldest = next(iter(self._seen))
            if t - self._seen[oldest] <= KNOWN_S:
                return ""
            del self._seen[oldest]
        self._seen.pop(agent, None)
        self._seen[agent] = t
        return agent

    def name(self, agent: str) -> str:
        """Return the agent if it has a reserved share already, else ""."""
        return agent if agent in self._seen else ""


class Account:
    """What one sender uses now."""

    def __init__(self, name: str, limits: SenderLimits) -> None:
        known = limits.known_agents
        self.name = name
        self.limits = limits
        self.agents = KnownAgents(known)
        self.open: set[OpenConnection] = set()
        self.idle: dict[OpenConnection, None] = {}  # those that may be dropped, oldest first
        self.requests = Amount(limits.requests, known)
        self.waiting = Amount(limits.waiting, known)
        self.bytes = Amount(limits.bytes_at_once, known)
        self.flow = Flow(limits.bytes_per_s, limits.bytes_saved, known, limits.known_bytes_saved)
        per_s, saved = limits.requests_per_s, limits.requests_saved
        self.turns = Flow(per_s, saved, known, saved / 2 / max(known, 1))
        self.delayed = 0  # requests that wait a moment for room

    @property
    def unused(self) -> bool:
        return not (self.open or self.requests.used or self.waiting.used)

    def remove(self, connection: OpenConnection) -> int:
        """Forget a connection. Return how many were removed."""
        before = len(self.open)
        self.open.discard(connection)
        self.idle.pop(connection, None)
        return before - len(self.open)

    def over(self, limit: Limit, most: float, wait_s: float = LONGEST_S) -> OverLimit:
        return OverLimit(self.name, limit, most, wait_s)


class RequestRoom:
    """What one request uses. Leaving the context gives it back."""

    def __init__(self, accounts: "SenderAccounts", account: Account, agent: str) -> None:
        self._accounts = accounts
        self._account = account
        self._agent = agent
        self._bytes: list[Taken] = []
        self._taken = account.requests.take(agent, 1)
        if self._taken is None:
            raise accounts.refused(account.over("requests", account.requests.limit))

    @property
    def body_s(self) -> float:
        return self._account.limits.body_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run_on()
        for taken in self._bytes:
            self._account.bytes.give_back(taken)
            self._accounts.give_back(taken.shared)
        self._bytes.clear()

    def reserve(self, size: int) -> None:
        """Reserve room for bytes of the body before they are read."""
        account, now = self._account, self._accounts.now()
        if wait := account.flow.wait_s(self._agent, size, now):
            limit = account.limits.bytes_per_s
            raise self._accounts.refused(account.over("bytes_per_s", limit, wait))
        taken = account.bytes.take(self._agent, size)
        if taken is None:
            raise self._accounts.refused(account.over("bytes", account.bytes.limit))
        if not self._accounts.take(taken.shared):
            account.bytes.give_back(taken)
            raise self._accounts.refused(OverLimit(ALL, "bytes", BYTES_OF_ALL))
        account.flow.take(self._agent, size, now)
        self._bytes.append(taken)

    def charge(self, busy_s: float) -> None:
        """Charge the time that it took to read the body, as bytes."""
        if busy_s > QUICK_S:
            flow, limits = self._account.flow, self._account.limits
            flow.charge(self._agent, busy_s * BUSY_TIMES * limits.bytes_per_s)

    async def reserve_soon(self, size: int) -> None:
        """Reserve room for bytes, and wait a moment for it if necessary."""
        try:
            self.reserve(size)
        except OverLimit as exc:
            await asyncio.sleep(min(exc.wait_s, PATIENCE_S))
            self.reserve(size)

    @contextmanager
    def waiting(self) -> Iterator[bool]:
        """Count the request as waiting for an operator instead. Yield False if too many wait."""
        taken = self._account.waiting.take(self._agent, 1)
        if taken is None:
            self._accounts.refused(self._account.over("waiting", self._account.waiting.limit))
            yield False
            return
        self._run_on()
        try:
            yield True
        finally:
            self._account.waiting.give_back(taken)

    def _run_on(self) -> None:
        if self._taken is not None:
            self._account.requests.give_back(self._taken)
            self._taken = None


class SenderAccounts:
    """All accounts. `most_connections` is the limit of all senders together."""

    def __init__(
        self,
        limits: SenderLimits = AGENT_LIMITS,
        of_users: SenderLimits = USER_LIMITS,
        *,
        most_connections: int = MAX_CONNECTIONS,
        now: Callable[[], float] = uptime,
    ) -> None:
        self.limits = limits
        self.of_users = of_users
        self.now = now
        self.refusals: Counter[Limit] = Counter()
        self._most_connections = most_connections
        self._connections = 0
        self._bytes = 0
        self._accounts: dict[str, Account] = {}
        self._over: dict[tuple[str, Limit], SenderOver] = {}

    def connect(self, name: str, connection: OpenConnection) -> Account:
        """Count a connection. If there are too many, drop the oldest idle one of its sender.

        Raise OverLimit if all others are busy.
        """
        account = self.account(name)
        most = account.limits.connections
        if len(account.open) >= most:
            over = self.refused(account.over("connections", most))
            if not self._make_room(account):
                raise over
        elif self._connections >= self._most_connections:
            largest = max(self._accounts.values(), key=lambda each: len(each.idle))
            over = self.refused(largest.over("connections", self._most_connections))
            if not self._make_room(largest):
                raise over
        account.open.add(connection)
        account.idle[connection] = None
        self._connections += 1
        return account

    def disconnect(self, account: Account, connection: OpenConnection) -> None:
        self._connections -= account.remove(connection)

    def move(self, account: Account, connection: OpenConnection, name: str) -> Account:
        """Count a connection for the sender of its request instead, if there is room."""
        if account.name == name or connection not in account.open:
            return account
        protected = connection not in account.idle
        self.disconnect(account, connection)
        try:
            moved = self.connect(name, connection)
        except OverLimit:
            moved = self.connect(account.name, connection)
        if protected:
            moved.idle.pop(connection, None)
        return moved

    @contextmanager
    def protected(self, account: Account, connection: OpenConnection) -> Iterator[None]:
        """Do not drop a connection to make room meanwhile."""
        idle = account.idle.pop(connection, False) is None
        try:
            yield
        finally:
            if idle and connection in account.open:
                account.idle[connection] = None

    def begin(self, sender: Sender) -> RequestRoom:
        """Count a request of a sender, or raise OverLimit."""
        account = self.account(sender.account)
        return RequestRoom(self, account, account.agents.known(sender.agent, self.now()))

    async def begin_soon(self, sender: Sender, *, turn: bool = False) -> RequestRoom:
        """Count a request of a sender, and wait a moment for room if necessary.

        With `turn`, the request also waits for its turn. A request that is refused also waits, so
        that a flood comes back less often. Its connection gives way to others meanwhile.
        """
        try:
            return await self._in_turn(sender, turn=turn)
        except OverLimit:
            account = self.account(sender.account)
            if account.delayed >= account.limits.connections:
                raise  # most of them have disconnected already
            account.delayed += 1
            try:
                await asyncio.sleep(PATIENCE_S)
            finally:
                account.delayed -= 1
            return await self._in_turn(sender, turn=turn)

    async def _in_turn(self, sender: Sender, *, turn: bool) -> RequestRoom:
        if turn and (wait := self.turn(sender)):
            await asyncio.sleep(wait)
        return self.begin(sender)

    def turn(self, sender: Sender) -> float:
        """Return the seconds until a request's turn. Raise OverLimit if that is too long."""
        account, now = self.account(sender.account), self.now()
        agent = account.agents.known(sender.agent, now)
        wait = account.turns.wait_s(agent, 1.0, now)
        if wait > LONGEST_S:
            raise self.refused(account.over("requests_per_s", account.limits.requests_per_s, wait))
        account.turns.take(agent, 1.0, now)
        return wait

    def refused(self, over: OverLimit) -> OverLimit:
        """Report that a sender is over a limit, and return the exception."""
        self.report(over.account, over.limit, str(over))
        return over

    def report(self, account: str, limit: Limit, text: str = "") -> None:
        """Count that a sender is over a limit. It is logged once a minute."""
        self.refusals[limit] += 1
        now, key = self.now(), (shown(account), limit)
        over = self._over.get(key)
        if over is None:
            if len(self._over) >= MAX_NAMED:
                self._forget(now)
            over = self._over[key] = SenderOver(key[0], limit)
        over.count = over.count + 1 if now - over.t <= RECENT_S else 1
        over.t = now
        if now - over.logged_t >= RECENT_S:
            over.logged_t = now
            log.warning("%s", text or f"{over.sender} is over the limit of {over.words}")

    @property
    def counts(self) -> dict[str, int]:
        """Return how often senders were over each limit."""
        return {limit: self.refusals[limit] for limit in LIMITS}

    @property
    def busy(self) -> int:
        """Return how many connections may not be closed to make room."""
        return sum(len(each.open) - len(each.idle) for each in self._accounts.values())

    def over(self) -> list[SenderOver]:
        """Return the senders that were over a limit in the last minute, the latest first."""
        since = self.now() - RECENT_S
        recent = [over for over in self._over.values() if over.t >= since]
        return sorted(recent, key=lambda over: -over.t)

    def said(self) -> list[str]:
        """Return a sentence on each sender that was over a limit in the last minute."""
        return [f"{over.sender} was over the limit of {over.words}" for over in self.over()]

    def take(self, size: int) -> bool:
        """Take bytes that no agent has reserved from those of all senders, if there is room."""
        if self._bytes + size > BYTES_OF_ALL:
            return False
        self._bytes += size
        return True

    def give_back(self, size: int) -> None:
        self._bytes -= size

    def account(self, name: str) -> Account:
        account = self._accounts.get(name)
        if account is None:
            if len(self._accounts) >= MAX_ACCOUNTS:
                name = self._room_for(name)
            limits = self.of_users if name.startswith(USER) else self.limits
            account = self._accounts.setdefault(name, Account(name, limits))
        return account

    def _room_for(self, name: str) -> str:
        """Forget unused accounts. If there is none, the sender shares an account with others."""
        for unused in [each.name for each in self._accounts.values() if each.unused]:
            del self._accounts[unused]
        return name if len(self._accounts) < MAX_ACCOUNTS else OTHERS

    def _make_room(self, account: Account) -> bool:
        """Drop the oldest idle connection of an account. Return False if it has none."""
        oldest = next(iter(account.idle), None)
        if oldest is None:
            return False
        self.disconnect(account, oldest)
        oldest.drop()
        return True

    def _forget(self, now: float) -> None:
        """Forget senders that were not over a limit recently, or else the least recent one."""
        old = [key for key, over in self._over.items() if now - over.t > RECENT_S]
        for key in old or [min(self._over, key=lambda key: self._over[key].t)]:
            del self._over[key]
