"""Who has spent and set aside how much, per chain, session, day, agent and model."""

from collections.abc import Callable, Iterator
from datetime import date
from typing import Final

import msgspec

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
    found,
    found_chain,
    fullest,
    live_chains,
    opened,
    opened_chain,
)
from safetyd.core.party import party

# Names without a key that were never allowed anything can still report costs: beyond so many these
# count in the day and in the share of all of them alone.
MAX_AGENTS: Final = 4096

Accounts = tuple[Account | None, Account, Account, Account, Account | None]
Limits = tuple[int, int, int, int, int]  # of the same; 0 is none
Shares = tuple[int, int]  # of one party in the day and in a model's day; 0 is none

NO_SHARES: Final[Shares] = (0, 0)


class LedgerState(msgspec.Struct):
    day: Day = msgspec.field(default_factory=Day)
    agents: dict[str, AccountBooks] = {}


class Ledger:
    """All accounts. Days are numbered; one that is over is never gone back to."""

    def __init__(self) -> None:
        self._state = LedgerState()

    @property
    def agents(self) -> dict[str, AccountBooks]:
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

    def fullest(self, agent: str, t: float) -> Iterator[tuple[str, Account] | None]:
        """Yield the fullest chain and the fullest session of an agent; None: it has none."""
        books = self._state.agents.get(agent, NO_BOOKS)
        yield fullest(live_chains(books.chains, t))
        yield fullest(books.sessions.items())

    def part(self, payer: Payer, number: int) -> tuple[Account, Account]:
        """Return what counts against a party's shares of the day and of a model, to read."""
        part = self.day(number).parts.get(payer.party, NO_PART)
        return part.total, found(part.models, payer.model or "", MAX_MODELS)

    def over_share(self, proposed: Proposed, shares: Shares, need: int) -> bool:
        """Say whether a party has used up a share, or would: with a key only by what it reports."""
        part = self.day(proposed.at.toordinal()).parts.get(party(proposed), NO_PART)
        of_day, of_model = shares
        model, need = proposed.proposal.model, need if proposed.keyless else 0
        return bool(of_day and part.total.lacks(of_day, need)) or bool(
            of_model
            and model is not None
            and found(part.models, model, MAX_MODELS).lacks(of_model, need)
        )

    def affords(self, proposed: Proposed, limits: Limits, need: int) -> bool:
        """Say whether every account that a proposal counts in has room for `need`."""
        # Written out, since every proposal is asked about.
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
        """Say whether an action that costs nothing leaves every account as it is."""
        if event.proposal.chain is not None:
            return False  # which was heard now
        books = self._state.agents.get(event.agent)
        return books is None or event.id not in books.reservations

    def begin(self, number: int) -> None:
        """Begin a day, unless it or a later one has begun."""
        if number > self._state.day.number:
            self._state.day = Day(number)

    def open(self, payer: Payer, t: float) -> Payer:
        """Make sure that every account exists; return the names that they go by."""
        books = self._state.agents.get(payer.agent)
        if books is None:
            books = self._state.agents[payer.agent] = AccountBooks()
        day = self._state.day
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
        """Note that a chain is in use."""
        books = self._state.agents.get(payer.agent)
        if books is not None and payer.chain is not None:
            opened_chain(books.chains, payer.chain, t)

    def holds(self, agent: str, id_: str) -> bool:
        """Say whether money is set aside for a proposal."""
        return id_ in self._state.agents.get(agent, NO_BOOKS).reservations

    def release_pending(self, agent: str, id_: str) -> None:
        """Give back what was set aside while people were asked."""
        held = self._state.agents.get(agent, NO_BOOKS).reservations.get(id_)
        if held is not None and held.day == NO_DAY.number:
            self.release(agent, id_)

    def reserve(
        self, payer: Payer, id_: str, nano: int, t: float, *, pending: bool = False
    ) -> None:
        """Set money aside. What the same id held before may have been used, so it is spent.

        While people are asked, the day has none of it: one question must not use up the money
        of all.
        """
        heard = self.open(payer, t)  # first, or a chain whose last reservation this is is forgotten
        self.spend_reserved(payer.agent, id_)
        day = NO_DAY.number if pending else self._state.day.number
        held = Reservation(nano, day, heard)
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

    def spend(self, held: Reservation, nano: int, shares: Shares) -> None:
        """Write down what was used, on the day on which it was set aside.

        Beyond what was set aside it is everybody's as far as the party has not had its share.
        """
        for account in self._own(held):
            account.spend(nano)
        if held.day == self._state.day.number:
            self._spend_common(held.payer, min(nano, held.nano), max(nano - held.nano, 0), shares)
        if nano:
            payer = held.payer
            self._state.agents[payer.agent].note(payer.session, payer.model or "", nano)

    def spend_reserved(self, agent: str, id_: str) -> None:
        """Take what was set aside as used, all of it."""
        held = self.release(agent, id_)
        if held is not None:
            self.spend(held, held.nano, NO_SHARES)

    def spend_unreserved(self, payer: Payer, nano: int, t: float, shares: Shares) -> None:
        known = self._state.agents
        if payer.keyless and payer.agent not in known and len(known) >= MAX_AGENTS:
            self._spend_common(Payer(payer.agent, keyless=True), 0, nano, shares)
            return
        self.spend(Reservation(0, self._state.day.number, self.open(payer, t)), nano, shares)

    def lift(self, scope: str, name: str, nano: int) -> None:
        """Permit so much more until the day is over; a party's is taken from no other."""
        day = self._state.day
        if scope == "model":
            day.models[opened(day.models, name, MAX_MODELS)].permit(nano)
            return
        day.total.permit(nano)
        if scope != "day":
            self._open_part(Payer(name, keyless=scope == "keyless")).total.permit(nano)
        if scope == "agent":
            day.agents.setdefault(name, Account()).permit(nano)

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

    def forget(self, agent: str) -> None:
        """Forget an agent's own accounts; what was set aside for it is spent."""
        for id_ in tuple(self._state.agents.get(agent, NO_BOOKS).reservations):
            self.spend_reserved(agent, id_)
        self._state.agents.pop(agent, None)
        self._state.day.agents.pop(agent, None)

    def pause(self, agent: str, session: str, limit: int) -> bool:
        """Note that people are asked about a session; False if they are being asked already."""
        books = self._state.agents[agent]
        if books.paused:
            return False
        books.paused, books.asked, books.asked_nano = True, session, limit
        return True

    def unpause(self, agent: str, *, raises: bool) -> None:
        """Let the session that people were asked about have as much again, if it still lasts."""
        books = self._state.agents.get(agent)
        if books is None:
            return
        if books.asked is not None and raises:
            books.sessions[books.asked].lift(books.asked_nano)
        books.paused, books.asked = False, None

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=LedgerState)

    def _accounts(self, held: Reservation) -> Iterator[Account]:
        """Yield every account that money is set aside in."""
        yield from self._own(held)
        payer, day = held.payer, self._state.day
        if held.day == day.number:
            yield day.total
            if payer.model is not None:
                yield day.models[payer.model]
            if payer.keyless:
                part = day.parts[payer.party]
                yield part.total
                if payer.model is not None:
                    yield part.models[payer.model]

    def _own(self, held: Reservation) -> Iterator[Account]:
        """Yield the accounts that are its agent's alone."""
        payer, day = held.payer, self._state.day
        books = self._state.agents[payer.agent]
        if payer.chain in books.chains:
            yield books.chains[payer.chain]
        if not held.session_over:
            yield books.sessions[payer.session]
        if held.day == day.number:
            yield day.agents[payer.agent]

    def _spend_common(self, payer: Payer, reserved: int, beyond: int, shares: Shares) -> None:
        """Spend what was set aside and, of what goes beyond it, what the share has room for.

        What it has no room for stays in the agent's own accounts: nobody else can be made to pay
        it, and people can add to a share without knowing how much was made up.
        """
        day, part = self._state.day, self._open_part(payer)
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
        part = self._state.day.parts.get(payer.party)
        if part is None:
            part = self._state.day.parts[payer.party] = Part()
        if payer.model is not None and payer.model not in part.models:
            part.models[payer.model] = Account()
        return part
