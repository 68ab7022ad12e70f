"""The ledger: money spent and reserved per chain, session, day, agent and model."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import UNSET

from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.events.decision_events import Settled
from safetyd.core.guards.budget.accounts import (
    CLAIMED,
    CLAIMED_KEYLESS,
    MAX_MODELS,
    MAX_NAMES,
    NO_BOOKS,
    NO_DAY,
    Account,
    AccountBooks,
    Day,
    Part,
    Payer,
    Reservation,
    Seen,
    opened,
    opened_chain,
)
from safetyd.core.guards.budget.balances import (
    ACTIVE_S,
    NO_SHARES,
    Balances,
    LedgerState,
    Limits,
    Shares,
)
from safetyd.core.guards.budget.reported_costs import (
    COMMON,
    Counted,
    Doubt,
    LargeReports,
    doubted,
)

# Anonymous agents can report costs without any proposal. Beyond this many names, such costs count
# only in the day and in their common share.
MAX_AGENTS: Final = 4096
SEEN_S: Final = 60.0


class Ledger:
    """All accounts, for writing. `balances` is for reading.

    Days are numbered and only move forward.
    """

    def __init__(self, state: LedgerState | None = None) -> None:
        self.state = state or LedgerState()
        self.balances = Balances(self.state)

    def begin(self, number: int) -> None:
        """Start a day, unless it or a later one has started."""
        if number > self.state.day.number:
            self.state.day = Day(number)

    def open(self, payer: Payer, t: float) -> Payer:
        """Create missing accounts. Return their keys."""
        books = self.state.agents.get(payer.agent)
        if books is None:
            books = self.state.agents[payer.agent] = AccountBooks()
        day = self.state.day
        if payer.agent not in day.agents:
            day.agents[payer.agent] = Account()
        heard = Payer(
            payer.agent,
            opened(books.sessions, payer.session, MAX_NAMES),
            None if payer.chain is None else opened_chain(books.chains, payer.chain, t),
            None if payer.model is None else opened(day.models, payer.model, MAX_MODELS),
            payer.keyless,
        )
        self._open_part(heard.counted_as, heard.model)
        return heard

    def see(self, agent: str, t: float, *, keyless: bool) -> None:
        """Record that an agent was allowed an action, so that its part of the day is kept."""
        seen = self.state.seen
        if seen is UNSET:
            seen = self.state.seen = {}
        known = seen.get(agent)
        if known is not None and t < known.t + SEEN_S and known.keyless == keyless:
            return
        seen[agent] = Seen(t, keyless, known.told_day if known else 0)
        if known is None and len(seen) > MAX_AGENTS:
            for gone in [name for name, one in seen.items() if one.t + ACTIVE_S <= t]:
                del seen[gone]
            if len(seen) > MAX_AGENTS:
                del seen[agent]

    def tells_kept(self, agent: str) -> bool:
        """Return True once a day for an agent that used what is not kept for others."""
        known = self.state.seen.get(agent) if self.state.seen is not UNSET else None
        if known is None or known.told_day == self.state.day.number:
            return False
        known.told_day = self.state.day.number
        return True

    def limit(self, payer: Payer, limits: Limits, usual: Limits) -> None:
        """Record the limits of a chain and a session that a project sets."""
        books, (chain, session, *_) = self.state.agents.get(payer.agent, NO_BOOKS), limits
        for accounts, name, limit, other in (
            (books.chains, payer.chain, chain, usual[0]),
            (books.sessions, payer.session, session, usual[1]),
        ):
            if name in accounts:
                accounts[name].project_limit = None if limit == other else limit

    def hear(self, payer: Payer, t: float) -> None:
        """Record that a chain is in use."""
        books = self.state.agents.get(payer.agent)
        if books is not None and payer.chain is not None:
            opened_chain(books.chains, payer.chain, t)

    def release_pending(self, agent: str, id_: str) -> None:
        """Drop the reservation of an action that is no longer pending."""
        held = self.state.agents.get(agent, NO_BOOKS).reservations.get(id_)
        if held is not None and held.pending:
            self.release(agent, id_)

    def reserve(
        self, payer: Payer, id_: str, nano: int, t: float, *, pending: bool = False
    ) -> None:
        """Reserve money. If the id already has a reservation, count that one as spent.

        A pending reservation counts in no account until it is approved.
        """
        # First open the chain, which could be forgotten when it has no reservations.
        heard = self.open(payer, t)
        self.spend_reserved(payer.agent, id_)
        day = NO_DAY.number if pending else self.state.day.number
        held = Reservation(nano, day, heard)
        self.state.agents[payer.agent].reservations[id_] = held
        for account in self._accounts(held):
            account.reserve(nano)

    def release(self, agent: str, id_: str) -> Reservation | None:
        """Release a reservation and return it."""
        held = self.state.agents.get(agent, NO_BOOKS).reservations.pop(id_, None)
        if held is not None:
            for account in self._accounts(held):
                account.release(held.nano)
        return held

    def spend(
        self,
        held: Reservation,
        nano: int,
        shares: Shares,
        *,
        claimed: bool = False,
        kept: int = 0,
    ) -> Counted:
        """Record spending and charge it to the day of the reservation.

        Return how much of the spending beyond the reservation counts in the common accounts. If it
        is only claimed, that is at most the agent's share, and never what is kept for others.
        """
        for account in self._own(held):
            account.spend(nano)
        counted: Counted = {}
        if held.day == self.state.day.number:
            reserved = min(nano, held.nano)
            counted = self._spend_common(
                held.payer, reserved, nano - reserved, shares, claimed=claimed, kept=kept
            )
        if nano:
            payer = held.payer
            self.state.agents[payer.agent].note(payer.session, payer.model or "", nano)
        return counted

    def spend_reserved(self, agent: str, id_: str) -> None:
        """Count a whole reservation as spent."""
        held = self.release(agent, id_)
        if held is not None and not held.pending:
            self.spend(held, held.nano, NO_SHARES)

    def settle(
        self, event: Settled, payer: Payer, held: Reservation | None, cost: int, shares: Shares
    ) -> tuple[Doubt, LargeReports] | None:
        """Record the cost of an outcome. Return its entry if it is the first large report."""
        if held is None or not held.nano:  # without a reservation, the cost counts today
            held = self.unreserved(payer, event.t)
        if held is None:
            self.spend_of_stranger(cost, shares)
            return None
        held = self.named(held, event.model)
        day = self.state.day.number
        left = self.balances.left_of_share(payer, shares, day)
        doubt = doubted(event, cost, held.nano, left)
        kept = 0
        if doubt.beyond and not doubt.claimed:
            kept = self.balances.kept(payer, day, event.t, shares)
        counted = self.spend(held, cost, shares, claimed=doubt.claimed, kept=kept)
        entry = self.state.large_reports().entry(event, day, doubt)
        if entry is None:
            return None
        entry.add(held.payer, doubt.beyond, counted)
        return (doubt, entry) if entry.count == 1 else None

    def unreserved(self, payer: Payer, t: float) -> Reservation | None:
        """Return an empty reservation of today, or None for a name without accounts."""
        known = self.state.agents
        if payer.keyless and payer.agent not in known and len(known) >= MAX_AGENTS:
            return None
        return Reservation(0, self.state.day.number, self.open(payer, t))

    def spend_of_stranger(self, nano: int, shares: Shares) -> None:
        """Record spending of a name without accounts in the accounts of all anonymous agents."""
        self._spend_common(Payer("", keyless=True), 0, nano, shares, claimed=True)

    def lift(self, scope: str, name: str, nano: int) -> None:
        """Raise a limit until the end of the day. No other limit changes."""
        day = self.state.day
        if scope == "model":
            day.models[opened(day.models, name, MAX_MODELS)].permit(nano)
            return
        day.total.permit(nano)
        if scope != "day":
            self._open_part(CLAIMED).total.permit(nano)
        if scope == "keyless":
            self._open_part(ANONYMOUS).total.permit(nano)
            self._open_part(CLAIMED_KEYLESS).total.permit(nano)
        if scope == "agent":
            self._open_part(name).total.permit(nano)
            day.agents.setdefault(name, Account()).permit(nano)

    def named(self, held: Reservation, model: str | None) -> Reservation:
        """Return the reservation. If it has no model, set the one that its outcome names."""
        if model is None or held.payer.model is not None:
            return held
        key = opened(self.state.day.models, model, MAX_MODELS)
        return msgspec.structs.replace(held, payer=msgspec.structs.replace(held.payer, model=key))

    def close(self, agent: str, session: str) -> None:
        """Forget a session's account. Its reservations stay in the other accounts."""
        books = self.state.agents.get(agent, NO_BOOKS)
        if books.sessions.pop(session, None) is None:
            return
        if books.asked == session:
            books.asked = None
        for id_, held in books.reservations.items():
            if held.payer.session == session:
                books.reservations[id_] = msgspec.structs.replace(held, session_over=True)

    def forget(self, agent: str) -> None:
        """Forget an agent's accounts. Its reservations count as spent."""
        for id_ in tuple(self.state.agents.get(agent, NO_BOOKS).reservations):
            self.spend_reserved(agent, id_)
        self.state.agents.pop(agent, None)
        self.state.day.agents.pop(agent, None)
        if self.state.seen is not UNSET:
            self.state.seen.pop(agent, None)

    def save(self, bought: LedgerState) -> Callable[[], bytes]:
        """Encode the state, with purchases if there are any."""
        self.state.reports = self.state.reports or UNSET
        self.state.purchases = bought if bought.day.number else UNSET
        # In saved state, chains and sessions count pending money as reserved (an older format).
        before: list[tuple[Account, int]] = []
        for held in self.balances.pending():
            for account in self._own(held):
                before.append((account, account.reserved))
                account.reserve(held.nano)
        saved = msgspec.msgpack.encode(self.state)
        for account, reserved in reversed(before):
            account.reserved = reserved
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self.state = msgspec.msgpack.decode(saved, type=LedgerState)
        self.balances = Balances(self.state)
        for held in self.balances.pending():
            for account in self._own(held):
                account.release(held.nano)

    def _accounts(self, held: Reservation) -> Iterator[Account]:
        """Yield every account that a reservation counts in."""
        if held.pending:
            return
        yield from self._own(held)
        payer, day = held.payer, self.state.day
        if held.day == day.number:
            yield day.total
            if payer.model is not None:
                yield day.models[payer.model]
            if payer.keyless:
                part = day.parts[payer.counted_as]
                yield part.total
                if payer.model is not None:
                    yield part.models[payer.model]

    def _own(self, held: Reservation) -> Iterator[Account]:
        """Yield the accounts that belong only to the agent of a reservation."""
        payer, day = held.payer, self.state.day
        books = self.state.agents[payer.agent]
        if payer.chain in books.chains:
            yield books.chains[payer.chain]
        if not held.session_over:
            yield books.sessions[payer.session]
        if held.day == day.number:
            yield day.agents[payer.agent]

    def _spend_common(
        self,
        payer: Payer,
        reserved: int,
        beyond: int,
        shares: Shares,
        *,
        claimed: bool,
        kept: int = 0,
    ) -> Counted:
        """Spend a reservation and what counts beyond it in the accounts of all agents.

        The rest counts only in the agent's own accounts. So an agent cannot use up the common
        budget with invented costs.
        """
        counted: Counted = {}
        if kept:
            used = self.balances.rivals(payer, self.state.day.number)
            room = used.left(shares.day + shares.kept) - reserved - kept
            beyond = min(beyond, max(room, 0))
        for model in (None,) if payer.model is None else (None, payer.model):
            left = beyond
            for party, already, shares_ in self._limited(payer, reserved, shares, claimed=claimed):
                account = self._account(party, model)
                limit = shares_.day if model is None else shares_.model
                account.spend(already)
                counted[party, model] = left = account.fits(limit, left)
                account.spend(left)
            counted[COMMON, model] = left
            self._account(COMMON, model).spend(reserved + left)
        return counted

    def _limited(
        self, payer: Payer, reserved: int, shares: Shares, *, claimed: bool
    ) -> Iterator[tuple[str, int, Shares]]:
        """Yield the parties in whose parts spending counts, what they reserved, and their shares.

        Several agents may lie, so claims of all agents together are limited to one share. Claims of
        the anonymous pool are limited to half of its share.
        """
        if claimed and payer.agent:
            yield payer.agent, 0, shares
        if claimed and payer.keyless and shares.pooled:
            yield CLAIMED_KEYLESS, 0, Shares(shares.day // 2, shares.model // 2)
        if payer.keyless:
            yield ANONYMOUS, reserved, shares if shares.pooled else NO_SHARES
        if claimed:
            yield CLAIMED, 0, shares

    def _account(self, party: str, model: str | None) -> Account:
        """Return the account of the day or of a model in a part, or in the common budget."""
        day = self.state.day
        if party == COMMON:
            return day.total if model is None else day.models[model]
        part = self._open_part(party, model)
        return part.total if model is None else part.models[model]

    def strike(self, id_: str) -> None:
        """Take large reports out of all accounts."""
        reports = self.state.large_reports()
        entry = reports.find(id_)
        if entry is None:
            return
        reports.remove(entry)
        self._strike_own(entry)
        day = self.state.day
        if entry.day != day.number:
            return
        _strike(day.agents, {entry.agent: entry.nano})
        counted = entry.counted.items()
        known = (
            each for each in counted if each[0][0] != COMMON or each[0][1] in (None, *day.models)
        )
        for (party, model), amount in known:
            self._account(party, model).strike(amount)

    def _strike_own(self, entry: LargeReports) -> None:
        books = self.state.agents.get(entry.agent, AccountBooks())
        _strike(books.sessions, entry.sessions)
        _strike(books.chains, entry.chains)
        for (session, model), amount in entry.lines.items():
            books.strike(session, model, amount)

    def _open_part(self, party: str, model: str | None = None) -> Part:
        part = self.state.day.parts.get(party)
        if part is None:
            part = self.state.day.parts[party] = Part()
        if model is not None and model not in part.models:
            part.models[model] = Account()
        return part


def _strike(accounts: dict[str, Account], amounts: dict[str, int]) -> None:
    for name in accounts.keys() & amounts.keys():
        accounts[name].strike(amounts[name])
