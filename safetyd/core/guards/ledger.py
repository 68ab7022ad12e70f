"""Who has spent and set aside how much, per chain, session, day, agent and model."""

from collections.abc import Callable, Iterator
from datetime import date
from typing import Final

import msgspec

from safetyd.core.guards.accounts import (
    MAX_MODELS,
    MAX_NAMES,
    NO_BOOKS,
    NO_DAY,
    NOTHING,
    Account,
    Books,
    Day,
    Payer,
    Reservation,
    found,
    found_chain,
    opened,
    opened_chain,
)

# Agents that were never allowed anything can still report costs: beyond so many names these count
# in the day alone.
MAX_AGENTS: Final = 4096

Accounts = tuple[Account | None, Account, Account, Account, Account | None]


class LedgerState(msgspec.Struct):
    day: Day = msgspec.field(default_factory=Day)
    agents: dict[str, Books] = {}


class Ledger:
    """All accounts. Days are numbered; one that is over is never gone back to."""

    def __init__(self) -> None:
        self._state = LedgerState()

    @property
    def agents(self) -> dict[str, Books]:
        return self._state.agents

    def day(self, number: int) -> Day:
        """Return the day's accounts, to read."""
        day = self._state.day
        return day if number <= day.number else NO_DAY

    def date(self, number: int) -> date:
        return date.fromordinal(max(number, self._state.day.number))

    def find(self, payer: Payer, number: int, t: float) -> Accounts:
        """Return the accounts of chain, session, day, agent and model, to read; None: not named."""
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

    def begin(self, number: int) -> None:
        """Begin a day, unless it or a later one has begun."""
        if number > self._state.day.number:
            self._state.day = Day(number)

    def open(self, payer: Payer, t: float) -> Payer:
        """Make sure that every account exists; return the names that they go by."""
        books = self._state.agents.get(payer.agent)
        if books is None:
            books = self._state.agents[payer.agent] = Books()
        day = self._state.day
        if payer.agent not in day.agents:
            day.agents[payer.agent] = Account()
        return Payer(
            payer.agent,
            opened(books.sessions, payer.session, MAX_NAMES),
            None if payer.chain is None else opened_chain(books.chains, payer.chain, t),
            None if payer.model is None else opened(day.models, payer.model, MAX_MODELS),
        )

    def hear(self, payer: Payer, t: float) -> None:
        """Note that a chain is in use."""
        books = self._state.agents.get(payer.agent)
        if books is not None and payer.chain is not None:
            opened_chain(books.chains, payer.chain, t)

    def reserve(self, payer: Payer, id_: str, nano: int, t: float) -> None:
        """Set money aside. What the same id held before may have been used, so it is spent."""
        heard = self.open(payer, t)  # first, or a chain whose last reservation this is is forgotten
        self.spend_reserved(payer.agent, id_)
        held = Reservation(nano, self._state.day.number, heard)
        self._state.agents[payer.agent].reservations[id_] = held
        for account in self._accounts(held):
            account.reserve(nano)

    def release(self, agent: str, id_: str) -> Reservation | None:
        """Give back what was set aside, and return what that was."""
        held = self._state.agents.get(agent, NO_BOOKS).reservations.pop(id_, None)
        if held is not None:
            for account in self._accounts(held):
                account.release(held.nano)
        return held

    def spend(self, held: Reservation, nano: int) -> None:
        """Write down what was used, on the day on which it was set aside."""
        for account in self._accounts(held):
            account.spend(nano)
        if nano:
            payer = held.payer
            self._state.agents[payer.agent].note(payer.session, payer.model or "", nano)

    def spend_reserved(self, agent: str, id_: str) -> None:
        """Take what was set aside as used, all of it."""
        held = self.release(agent, id_)
        if held is not None:
            self.spend(held, held.nano)

    def spend_unreserved(self, payer: Payer, nano: int, t: float) -> None:
        if payer.agent not in self._state.agents and len(self._state.agents) >= MAX_AGENTS:
            self._state.day.total.spend(nano)
            return
        self.spend(Reservation(0, self._state.day.number, self.open(payer, t)), nano)

    def named(self, held: Reservation, model: str | None) -> Reservation:
        """Return the reservation with the model of its outcome, if it had none of its own."""
        if model is None or held.payer.model is not None:
            return held
        key = opened(self._state.day.models, model, MAX_MODELS)
        return msgspec.structs.replace(held, payer=msgspec.structs.replace(held.payer, model=key))

    def close(self, agent: str, session: str) -> None:
        """Forget a session's account; what is set aside for it stays in the others."""
        books = self._state.agents.get(agent, NO_BOOKS)
        if books.sessions.pop(session, None) is None:
            return
        if books.asked == session:
            books.asked = None
        for id_, held in books.reservations.items():
            if held.payer.session == session:
                books.reservations[id_] = msgspec.structs.replace(held, session_over=True)

    def pause(self, agent: str, session: str) -> bool:
        """Note that people are asked about a session; False if they are being asked already."""
        books = self._state.agents[agent]
        if books.paused:
            return False
        books.paused, books.asked = True, session
        return True

    def unpause(self, agent: str, nano: int) -> None:
        """Let the session that people were asked about have so much more, if it still lasts."""
        books = self._state.agents.get(agent)
        if books is None:
            return
        if books.asked is not None:
            books.sessions[books.asked].lift(nano)
        books.paused, books.asked = False, None

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=LedgerState)

    def _accounts(self, held: Reservation) -> Iterator[Account]:
        payer, day = held.payer, self._state.day
        books = self._state.agents[payer.agent]
        if payer.chain in books.chains:
            yield books.chains[payer.chain]
        if not held.session_over:
            yield books.sessions[payer.session]
        if held.day == day.number:
            yield day.total
            yield day.agents[payer.agent]
            if payer.model is not None:
                yield day.models[payer.model]
