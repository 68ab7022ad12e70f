"""Budgets: what a proposal may cost is set aside when it is allowed, and settled by its outcome.

Each scope (chain, session, day, and per day agent and model) refuses what does not fit beside all
that is spent and set aside in it. So however many actions are under way at once, what was allowed
never exceeds a limit by its estimates, and what was spent never becomes less.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.core.events import (
    Decided,
    Event,
    Overdue,
    Paused,
    Proposed,
    SessionClosed,
    Settled,
    Unpaused,
)
from safetyd.core.guards.accounts import Account, Payer
from safetyd.core.guards.ledger import Ledger
from safetyd.core.guards.standing import SCOPES, Spend, Standing
from safetyd.core.kinds import Kind
from safetyd.core.money import MAX_USD, nano
from safetyd.core.verdict import ALLOWED, Severity, Verdict, strictest

Usd = Annotated[float, Meta(ge=0, le=MAX_USD)]
Limits = tuple[int, int, int, int, int]  # in the order of SCOPES; 0 is none


class BudgetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits in US dollars; 0 is none."""

    chain_usd: Usd = 5.0
    session_usd: Usd = 10.0
    day_usd: Usd = 50.0
    agent_usd: Usd = 0.0  # per UTC day, as is the model's
    model_usd: Usd = 0.0
    warn_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.8
    default_cost_usd: Usd = 0.0  # of a proposal that names neither cost nor tokens


class Budget:
    """The guard. `session_usd` holds the agents whose sessions have a limit of their own."""

    name = "budget"
    hears: tuple[type[Event], ...] = (Decided, Settled, Overdue, SessionClosed, Unpaused)

    def __init__(self, config: BudgetConfig, session_usd: Mapping[str, float]) -> None:
        self._limits = _limits(config, config.session_usd)
        self._own = {agent: _limits(config, own) for agent, own in session_usd.items()}
        self._warn_ratio = config.warn_ratio
        self._default = nano(config.default_cost_usd)
        self._ledger = Ledger()

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002 - reading costs too
        need = self._estimate(proposed)
        accounts = self._ledger.find(_payer(proposed), proposed.at.toordinal(), proposed.t)
        limits = self._own.get(proposed.agent, self._limits)
        for account, limit in zip(accounts, limits, strict=True):
            if limit and account is not None and account.lacks(limit, need):
                return self._refusal(proposed, need)
        return ALLOWED

    def observe(self, event: Event) -> Sequence[Event]:
        match event:
            case Decided(first=True):
                return self._decided(event)
            case Settled():
                return self._settled(event)
            case Overdue():
                self._ledger.spend_reserved(event.agent, event.id)
            case SessionClosed():
                self._ledger.close(event.agent, event.session)
            case Unpaused() if "budget" in event.sources:
                self._lift(event.agent)
        return ()

    def standings(self, at: datetime) -> Iterator[Standing]:
        """Yield every budget that was touched, today's first."""
        number = at.toordinal()
        day, name = self._ledger.day(number), self._ledger.date(number).isoformat()
        _, _, of_day, of_agent, of_model = self._limits
        yield Standing("day", name, None, day.total, of_day)
        for agent, account in day.agents.items():
            yield Standing("agent", agent, agent, account, of_agent)
        for model, account in day.models.items():
            yield Standing("model", model, None, account, of_model)
        for agent in self._ledger.agents:
            yield from self._standings_of(agent)

    def spending(self) -> Iterator[Spend]:
        """Yield what was spent by agent, session and model; of each agent the latest 256."""
        for agent, books in self._ledger.agents.items():
            for (session, model), spent in books.lines.items():
                yield Spend(agent, session, model, spent)

    def save(self) -> Callable[[], bytes]:
        return self._ledger.save()

    def load(self, saved: bytes) -> None:
        self._ledger.load(saved)

    def _estimate(self, event: Proposed | Decided) -> int:
        return _larger(event.proposal.cost_usd, event.priced_nano, self._default)

    def _refusal(self, proposed: Proposed, need: int) -> Verdict:
        touched = self._touched(_payer(proposed), proposed)
        verdicts = [standing.verdict(need) for standing in touched if standing.refuses(need)]
        first = strictest(verdicts)
        also = tuple(verdict.rule for verdict in verdicts if verdict is not first)
        return msgspec.structs.replace(first, also=also) if also else first

    def _decided(self, event: Decided) -> Sequence[Event]:
        if event.verdicts and any(verdict.guard == "keys" for verdict in event.verdicts):
            return ()  # what may not be known gets no accounts
        payer, need = _payer(event), self._estimate(event)
        self._ledger.begin(event.at.toordinal())
        if event.decision is Severity.ALLOW:
            self._ledger.reserve(payer, event.id, need, event.t)
            return self._warnings(payer, event, need)
        for verdict in event.verdicts:
            if verdict.guard == self.name:
                return self._refused(event, {verdict.rule, *verdict.also}, need)
        self._ledger.hear(payer, event.t)
        return ()

    def _refused(self, event: Decided, rules: set[str], need: int) -> Sequence[Event]:
        caused: list[Event] = []
        for standing in self._touched(self._ledger.open(_payer(event), event.t), event):
            if standing.rule not in rules:
                continue
            if not standing.account.exceeded:
                standing.account.exceeded = True
                caused.append(standing.mark("exceeded", event, need))
            if standing.scope == "session" and self._ledger.pause(event.agent, standing.id):
                caused.append(_paused(event, standing.reason(need)))
        return caused

    def _settled(self, event: Settled) -> Sequence[Event]:
        self._ledger.begin(event.at.toordinal())
        payer = Payer(event.agent, event.session, event.chain, event.model)
        self._ledger.hear(payer, event.t)
        held = self._ledger.release(event.agent, event.id or "")
        cost = _larger(event.cost_usd, event.priced_nano, held.nano if held else 0)
        if held is None:
            self._ledger.spend_unreserved(payer, cost, event.t)
        else:
            self._ledger.spend(self._ledger.named(held, event.model), cost)
        return self._warnings(payer, event, 0)

    def _lift(self, agent: str) -> None:
        """Let the session that people were asked about spend as much again."""
        self._ledger.unpause(agent, self._own.get(agent, self._limits)[1])

    def _warnings(self, payer: Payer, event: Event, need: int) -> Sequence[Event]:
        accounts = self._ledger.find(payer, event.at.toordinal(), event.t)
        limits = self._own.get(payer.agent, self._limits)
        if not any(map(self._warns, accounts, limits)):
            return ()
        warned: list[Event] = []
        for standing in self._touched(payer, event):
            if self._warns(standing.account, standing.base):
                standing.account.warned = True
                warned.append(standing.mark("warning", event, need))
        return warned

    def _warns(self, account: Account | None, limit: int) -> bool:
        if account is None or account.warned or not limit:
            return False
        return account.used >= (limit + account.raised) * self._warn_ratio

    def _touched(self, payer: Payer, event: Event) -> Iterator[Standing]:
        """Yield the budgets that a proposal or outcome counts in."""
        number = event.at.toordinal()
        today = self._ledger.date(number).isoformat()
        ids = (payer.chain, payer.session, today, payer.agent, payer.model)
        accounts = self._ledger.find(payer, number, event.t)
        limits = self._own.get(payer.agent, self._limits)
        for scope, id_, account, limit in zip(SCOPES, ids, accounts, limits, strict=True):
            if account is not None:
                agent = None if scope in {"day", "model"} else payer.agent
                yield Standing(scope, id_ or "", agent, account, limit)

    def _standings_of(self, agent: str) -> Iterator[Standing]:
        of_chain, of_session, *_ = self._own.get(agent, self._limits)
        for chain, account in self._ledger.agents[agent].chains.items():
            yield Standing("chain", chain, agent, account, of_chain)
        for session, account in self._ledger.agents[agent].sessions.items():
            yield Standing("session", session, agent, account, of_session)


def _limits(config: BudgetConfig, session_usd: float) -> Limits:
    return (
        nano(config.chain_usd),
        nano(session_usd),
        nano(config.day_usd),
        nano(config.agent_usd),
        nano(config.model_usd),
    )


def _payer(event: Proposed | Decided) -> Payer:
    proposal = event.proposal
    return Payer(event.agent, proposal.session or "", proposal.chain, proposal.model)


def _larger(said_usd: float | None, priced_nano: int | None, neither: int) -> int:
    """Return the larger of what the agent says and what its tokens cost, as far as given."""
    if said_usd is None:
        return neither if priced_nano is None else priced_nano
    return max(nano(said_usd), priced_nano or 0)


def _paused(cause: Decided, reason: str) -> Paused:
    return Paused(
        at=cause.at, t=cause.t, agent=cause.agent, source="budget", by="safetyd", reason=reason
    )
