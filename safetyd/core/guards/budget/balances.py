"""Read access to the accounts of a ledger."""

from collections.abc import Iterator
from datetime import date
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from safetyd.core.anonymous_pool import ANONYMOUS, Sender
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.guards.budget.accounts import (
    MAX_MODELS,
    MAX_NAMES,
    NO_BOOKS,
    NO_DAY,
    NO_PART,
    NOTHING,
    Account,
    AccountBooks,
    Day,
    Part,
    Payer,
    Reservation,
    Seen,
    found,
    found_chain,
    fullest,
    live_chains,
)
from safetyd.core.guards.budget.reported_costs import LargeReports, ReportList

Accounts = tuple[Account | None, Account, Account, Account, Account | None]
Limits = tuple[int, int, int, int, int]  # limits in the order of `Accounts`; 0 means no limit


class Shares(NamedTuple):
    """Shares of the daily and of a model's daily budget; 0 means no limit.

    At most `kept` of the daily budget is kept for other agents that are active. Anonymous agents
    are `pooled` while agents with keys are known. Then the shares limit all that they spend
    together.
    """

    day: int = 0
    model: int = 0
    kept: int = 0
    pooled: bool = False


NO_SHARES: Final = Shares()
ACTIVE_S: Final = 86_400.0


class LedgerState(msgspec.Struct):
    day: Day = msgspec.field(default_factory=Day)
    agents: dict[str, AccountBooks] = {}
    purchases: "LedgerState | UnsetType" = UNSET  # unset until the first purchase
    reports: dict[str, LargeReports] | UnsetType = UNSET  # by agent; unset until the first one

    # Agents by name, the longest silent first; unset until the first one.
    seen: dict[str, Seen] | UnsetType = UNSET

    def large_reports(self) -> ReportList:
        if self.reports is UNSET:
            self.reports = {}
        return ReportList(self.reports)


class Balances:
    """Read the state of a ledger without changing it."""

    def __init__(self, state: LedgerState) -> None:
        self._state = state

    @property
    def agents(self) -> dict[str, AccountBooks]:
        return self._state.agents

    def day(self, number: int) -> Day:
        """Return the accounts of a day. For reading only."""
        day = self._state.day
        return day if number <= day.number else NO_DAY

    def date(self, number: int) -> date:
        return date.fromordinal(max(number, self._state.day.number))

    def find(self, payer: Payer, number: int, t: float) -> Accounts:
        """Return the accounts of chain, session, day, agent and model.

        The account is None if the payer names no chain or model.
        """
        books = self._state.agents.get(payer.agent, NO_BOOKS)
        day = self._state.day
        if number > day.number:
            day = NO_DAY
        chain, model = payer.chain, payer.model
        return (
            None if chain is None else found_chain(books.chains, chain, t),
            found(books.sessions, payer.session, MAX_NAMES),
            day.total,
            day.agents.get(payer.agent, NOTHING),
            None if model is None else found(day.models, model, MAX_MODELS),
        )

    def fullest(self, agent: str, t: float) -> Iterator[tuple[str, Account] | None]:
        """Yield the fullest chain and the fullest session of an agent, or None if it has none."""
        books = self._state.agents.get(agent, NO_BOOKS)
        yield fullest(live_chains(books.chains, t))
        yield fullest(books.sessions.items())

    def part(self, party: str, model: str | None, number: int) -> tuple[Account, Account]:
        """Return the accounts that count against a party's shares of the day and of a model."""
        part = self.day(number).parts.get(party, NO_PART)
        return part.total, found(part.models, model or "", MAX_MODELS)

    def left_of_share(self, payer: Payer, shares: Shares, number: int) -> int | None:
        """Return how much an agent may still claim today, or None if there is no limit."""
        return self.part(payer.agent, None, number)[0].left(shares.day) if shares.day else None

    def kept(self, who: Sender, number: int, t: float, shares: Shares) -> int:
        """Return how much of the daily budget is kept for other agents.

        What exceeds an agent's share is divided among the others that were active within a day. A
        part is kept until its agent has used as much. The anonymous pool has its own limit.
        """
        seen = self._state.seen
        if not shares.kept or seen is UNSET or (who.keyless and shares.pooled):
            return 0
        others = [
            name
            for name, one in seen.items()
            if one.keyless == who.keyless and name != who.agent and t < one.t + ACTIVE_S
        ]
        part, agents = shares.kept // max(len(others), 1), self.day(number).agents
        return sum(max(part - agents.get(name, NOTHING).used, 0) for name in others)

    def rivals(self, who: Sender, number: int) -> Account:
        """Return what those used of the day for whom a part is kept, and the agent itself.

        For an agent with a key, that excludes anonymous agents: they never take its room.
        """
        day = self.day(number)
        total, pool = day.total, day.parts.get(ANONYMOUS)
        if who.keyless or pool is None:
            return total
        spent = max(total.spent - pool.total.spent, 0)
        reserved = max(total.reserved - pool.total.reserved, 0)
        return Account(spent, reserved, total.raised)

    def over_share(self, proposed: Proposed, shares: Shares, need: int) -> bool:
        """Return whether a share is used up. For the anonymous pool, include `need`."""
        parts, model = self.day(proposed.at.toordinal()).parts, proposed.proposal.model
        if shares.pooled and _lacks(parts.get(ANONYMOUS, NO_PART), shares, model, need):
            return True
        part = parts.get(proposed.agent)
        return part is not None and _lacks(part, shares, model, 0)

    def affords(self, proposed: Proposed, limits: Limits, need: int) -> bool:
        """Return whether all accounts of a proposal have room for `need`."""
        # Unrolled for speed: this runs for every proposal.
        agent, chain, model = proposed.agent, proposed.proposal.chain, proposed.proposal.model
        of_chain, of_session, of_day, of_agent, of_model = limits
        day, books = self.day(proposed.at.toordinal()), self._state.agents.get(agent, NO_BOOKS)
        session = found(books.sessions, proposed.proposal.session or "", MAX_NAMES)
        return not (
            (of_day and day.total.lacks(of_day, need))
            or (of_session and session.lacks(of_session, need))
            or (
                of_chain
                and chain is not None
                and found_chain(books.chains, chain, proposed.t).lacks(of_chain, need)
            )
            or (of_agent and day.agents.get(agent, NOTHING).lacks(of_agent, need))
            or (
                of_model
                and model is not None
                and found(day.models, model, MAX_MODELS).lacks(of_model, need)
            )
        )

    def is_free(self, event: Decided) -> bool:
        """Return whether an action without cost changes no account."""
        if event.proposal.chain is not None:
            return False  # the chain's time of last use must be updated
        books = self._state.agents.get(event.agent)
        return books is None or event.id not in books.reservations

    def pending(self, agent: str | None = None) -> Iterator[Reservation]:
        """Yield the reservations that wait for approval, of one agent or of all."""
        agents = self._state.agents
        for books in agents.values() if agent is None else (agents.get(agent, NO_BOOKS),):
            yield from (held for held in books.reservations.values() if held.pending)


def _lacks(part: Part, shares: Shares, model: str | None, need: int) -> bool:
    if shares.day and part.total.lacks(shares.day, need):
        return True
    if not shares.model or model is None:
        return False
    return found(part.models, model, MAX_MODELS).lacks(shares.model, need)
