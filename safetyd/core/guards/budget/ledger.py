"""The ledger: money spent and reserved per chain, session, day, agent and model."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import UNSET

from safetyd.core.guards.budget.accounts import (
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
    opened,
    opened_chain,
)
from safetyd.core.guards.budget.balances import NO_SHARES, Balances, LedgerState, Shares

# Anonymous agents can report costs without any proposal. Beyond this many names, such costs count
# only in the day and in their common share.
MAX_AGENTS: Final = 4096


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
        self._open_part(heard)
        return heard

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

    def spend(self, held: Reservation, nano: int, shares: Shares) -> None:
        """Record spending and charge it to the day of the reservation.

        Spending beyond the reservation counts in the common accounts up to the agent's share.
        """
        for account in self._own(held):
            account.spend(nano)
        if held.day == self.state.day.number:
            self._spend_common(held.payer, min(nano, held.nano), max(nano - held.nano, 0), shares)
        if nano:
            payer = held.payer
            self.state.agents[payer.agent].note(payer.session, payer.model or "", nano)

    def spend_reserved(self, agent: str, id_: str) -> None:
        """Count a whole reservation as spent."""
        held = self.release(agent, id_)
        if held is not None and not held.pending:
            self.spend(held, held.nano, NO_SHARES)

    def spend_unreserved(self, payer: Payer, nano: int, t: float, shares: Shares) -> None:
        known = self.state.agents
        if payer.keyless and payer.agent not in known and len(known) >= MAX_AGENTS:
            self._spend_common(Payer(payer.agent, keyless=True), 0, nano, shares)
            return
        self.spend(Reservation(0, self.state.day.number, self.open(payer, t)), nano, shares)

    def lift(self, scope: str, name: str, nano: int) -> None:
        """Raise a limit until the end of the day. No other limit changes."""
        day = self.state.day
        if scope == "model":
            day.models[opened(day.models, name, MAX_MODELS)].permit(nano)
            return
        day.total.permit(nano)
        if scope != "day":
            self._open_part(Payer(name, keyless=scope == "keyless")).total.permit(nano)
        if scope == "agent":
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

    def save(self, bought: LedgerState) -> Callable[[], bytes]:
        """Encode the state, with purchases if there are any."""
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

    def _spend_common(self, payer: Payer, reserved: int, beyond: int, shares: Shares) -> None:
        """Spend a reservation and, beyond it, as much as fits in the share.

        The rest counts only in the agent's own accounts. So an agent cannot use up the common
        budget with invented costs.
        """
        day, part = self.state.day, self._open_part(payer)
        shared = [(day.total, part.total, shares[0])]
        if payer.model is not None:
            shared.append((day.models[payer.model], part.models[payer.model], shares[1]))
        for all_, own, share in shared:
            if payer.keyless:
                own.spend(reserved)
            more = own.fits(share, beyond)
            own.spend(more)
            all_.spend(reserved + more)

    def _open_part(self, payer: Payer) -> Part:
        part = self.state.day.parts.get(payer.counted_as)
        if part is None:
            part = self.state.day.parts[payer.counted_as] = Part()
        if payer.model is not None and payer.model not in part.models:
            part.models[payer.model] = Account()
        return part
