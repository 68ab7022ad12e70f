"""Budgets: the estimated cost is reserved when an action is allowed, and settled by its outcome.

Each scope (chain, session, day, and agent and model per day) blocks an action if its estimate does
not fit into the limit together with the money spent and reserved. Estimates of allowed actions
therefore never exceed a limit, even if many run at the same time. Spending never decreases.

Costs that an agent reports beyond its reservations count in the common budget only up to its share,
unless the price of its tokens explains them. Anonymous names can be invented, so as soon as any
agent has a key, all costs of anonymous agents count against one share.

Pending actions reserve nothing. Purchases have separate accounts with the same limits. A purchase
beyond a limit needs approval, and is never blocked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, later, on
from safetyd.core.anonymous_pool import ANONYMOUS, Others
from safetyd.core.events.decision_events import Decided, Overdue, Proposed, SessionClosed, Settled
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import (
    BudgetRaised,
    CostStruck,
    NameForgotten,
    Paused,
    Unpaused,
)
from safetyd.core.events.request_events import Dropped
from safetyd.core.guards.budget.accounts import (
    CLAIMED,
    CLAIMED_KEYLESS,
    NO_DAY,
    NOTHING,
    Account,
    Payer,
    Reservation,
)
from safetyd.core.guards.budget.balances import NO_SHARES, Limits, Shares
from safetyd.core.guards.budget.ledger import Ledger
from safetyd.core.guards.budget.limits import (
    SCOPES,
    PendingSums,
    ProjectLimits,
    Scope,
    Spend,
    Standing,
)
from safetyd.core.guards.budget.purchases import (
    MODEL_TYPES,
    PURCHASE_RULE,
    Purchases,
    costs,
    estimates,
)
from safetyd.core.guards.budget.reported_costs import ReportList, announced
from safetyd.core.guards.projects import ByProject, ProjectConfig, Usd
from safetyd.core.messages.money import nano
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOW, ALLOWED, ASK, Verdict, all_of, strictest
from safetyd.core.sender_limits import SenderLimits

Counted = Proposed | Decided | Settled


class BudgetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits in US dollars; 0 means no limit."""

    chain_usd: Usd = 5.0
    session_usd: Usd = 10.0
    day_usd: Usd = 50.0
    agent_usd: Usd = 0.0  # per UTC day, like model_usd
    model_usd: Usd = 0.0
    # Purchases of all agents per UTC day. If unset, as in older journals, purchases have the limits
    # above.
    purchases_day_usd: Usd | msgspec.UnsetType = msgspec.UNSET
    warn_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.8
    default_cost_usd: Usd = 0.0  # cost of a proposal that states neither cost nor tokens
    # The share of the daily budget for costs that an agent reports beyond its reservations.
    party_share: Annotated[float, Meta(gt=0, le=1)] = SenderLimits().money_share


class Budget(Guard):
    """Block or pause agents that reach a spending limit.

    `session_usd` are session limits by agent. `others` returns whether other agents with keys are
    known, so that anonymous agents are limited to a share.
    """

    name = "budget"

    def __init__(
        self,
        config: BudgetConfig,
        session_usd: Mapping[str, float],
        projects: Mapping[str, ProjectConfig],
        others: Others,
        default_project: str = "",
    ) -> None:
        self._others = others
        of_day = nano(config.day_usd * config.party_share)
        of_model = nano(config.model_usd * config.party_share)
        self._shares = Shares(of_day, of_model, nano(config.day_usd) - of_day)
        self._pooled = self._shares._replace(pooled=True)
        self._limits = _limits(config, config.session_usd)
        self._own = {agent: _limits(config, own) for agent, own in session_usd.items()}
        limits_of = {
            name: ProjectLimits(projects[name], self._limits, self._own) for name in projects
        }
        self._projects = ByProject[ProjectLimits | None](limits_of, None, default_project)
        self._warn_ratio = config.warn_ratio
        self._default = nano(config.default_cost_usd)
        self._ledger = Ledger()
        own = config.purchases_day_usd
        self._purchases = Purchases(None if own is msgspec.UNSET else nano(own))
        self.hears = hearing(
            on(Decided, self._decided),
            later(self._decided),
            on(Dropped, self._dropped),
            on(Settled, self._settled),
            on(Overdue, self._overdue),
            on(SessionClosed, self._closed),
            on(Unpaused, self._unpaused),
            on(BudgetRaised, self._raised),
            on(CostStruck, self._struck),
            on(NameForgotten, self._forgotten),
        )

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        need, price = estimates(proposed, kind.type, self._default)
        limits = self._limits_of(proposed)
        shares = self._shares_of(keyless=proposed.keyless)
        within = limits
        affords = self._affords(proposed, within, shares, need)
        if not affords and not need and _is_free(proposed.proposal, kind):
            chain, session, *_ = limits
            within, shares = (chain, session, 0, 0, 0), NO_SHARES
            affords = self._affords(proposed, within, shares, need)
        if not affords:
            return self._refusal(proposed, within, shares, need)
        if not price:
            return ALLOWED
        return self._purchases.check(proposed, _payer(proposed), limits, price)

    def now(self, decided: Decided, moment: Moment) -> str:
        shares = self._shares_of(keyless=decided.keyless)
        touched = self._touched(_payer(decided), moment, self._limits_of(decided), shares)
        used = (one for one in touched if one.base and (one.scope != "share" or one.account.used))
        return ", ".join(standing.now() for standing in used) or "no limits"

    def standings(self, at: datetime) -> Iterator[Standing]:
        """Yield every budget in use, today's first."""
        number, balances = at.toordinal(), self._ledger.balances
        day, name = balances.day(number), balances.date(number).isoformat()
        _, _, of_day, of_agent, _ = self._limits
        yield Standing("day", name, None, day.total, of_day)
        for agent, account in day.agents.items():
            yield Standing("agent", agent, agent, account, of_agent)
        yield from self.of_models(at)
        for party, part in day.parts.items():
            if party != ANONYMOUS or self._others(keyless=True):
                yield from _of_party(party, part.total, part.models, self._shares)
        for agent in self._ledger.balances.agents:
            yield from self._standings_of(agent)

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the agents that have accounts."""
        return tuple(self._ledger.balances.agents)

    def of_agent(self, agent: str, at: datetime) -> Iterator[Standing]:
        """Yield the budgets of one agent: its day, its chains and its sessions."""
        yield self.day_of(agent, at)
        if agent in self._ledger.balances.agents:
            yield from self._standings_of(agent)

    def of_models(self, at: datetime) -> Iterator[Standing]:
        """Yield the daily budget of each model."""
        for model, account in self._ledger.balances.day(at.toordinal()).models.items():
            yield Standing("model", model, None, account, self._limits[4])

    def spent_today(self, at: datetime) -> tuple[int, int]:
        """Return the number of the current day, and the money spent on it."""
        number = at.toordinal()
        day = self._ledger.balances.day(number)
        return max(number, day.number), day.total.spent

    def raisable(self, scope: str, name: str, at: datetime) -> tuple[Standing, ...]:
        """Return the limited budgets that an operator can raise for the day.

        Every agent has a share. It can be raised once the agent used some of it.
        """
        payer = Payer(name, model=name if scope == "model" else None, keyless=scope == "keyless")
        shares = self._shares_of(keyless=payer.keyless)
        touched = self._touched(payer, Moment(at, 0.0), self._limits, shares)
        scopes = {"agent", "share"} if scope == "agent" else {scope}
        return tuple(
            found
            for found in touched
            if found.scope in scopes and found.base
            if found.scope != "share" or found.account.used
        )

    def fullest(self, agent: str, t: float) -> Iterator[Standing]:
        """Yield the chain and the session of an agent with the least money left."""
        limits = self._usual(agent)
        fullest = self._ledger.balances.fullest(agent, t)
        for scope, found, limit in zip(SCOPES, fullest, limits, strict=False):
            if found is not None:
                yield _own_standing(scope, found[0], agent, found[1], limit)

    def day_of(self, agent: str, at: datetime) -> Standing:
        """Return an agent's daily budget."""
        account = self._ledger.balances.day(at.toordinal()).agents.get(agent, NOTHING)
        return Standing("agent", agent, agent, account, self._limits[3])

    def spending(self) -> Iterator[Spend]:
        """Yield spending by agent, session and model: the latest 256 entries of each agent."""
        for agent, books in self._ledger.balances.agents.items():
            for (session, model), spent in books.lines.items():
                yield Spend(agent, session, model, spent)

    def large_reports(self) -> ReportList:
        """Return the large reports that operators can strike."""
        return self._ledger.state.large_reports()

    def bought_today(self, at: datetime) -> Standing:
        """Return the purchases of all agents today, with the daily limit."""
        return self._purchases.today(at, self._limits)

    def pending(self, agent: str | None = None, asked: Iterable[Decided] = ()) -> PendingSums:
        """Return the cost of pending actions, of all agents or one.

        `asked` are the decisions of pending requests. Nothing is reserved for
        requests that this guard itself caused, but their actions would cost money, too.
        """
        held = self._ledger.balances.pending(agent)
        return PendingSums((*held, *filter(None, map(self._asked, asked))))

    def _asked(self, event: Decided) -> Reservation | None:
        if all(each.guard != self.name or each.rule == PURCHASE_RULE for each in event.verdicts):
            return None
        need, price = estimates(event, event.type, self._default)
        return Reservation(need + price, NO_DAY.number, _payer(event))

    def save(self) -> Callable[[], bytes]:
        return self._ledger.save(self._purchases.ledger.state)

    def load(self, saved: bytes) -> None:
        self._ledger.load(saved)
        self._purchases.ledger = Ledger(self._ledger.state.purchases or None)

    def _affords(self, proposed: Proposed, limits: Limits, shares: Shares, need: int) -> bool:
        if not self._ledger.balances.affords(proposed, limits, need):
            return False
        if shares is NO_SHARES:
            return True
        if self._ledger.balances.over_share(proposed, shares, need):
            return False
        limit, used = limits[2], self._ledger.balances.day(proposed.at.toordinal()).total.used
        if not limit or (used < shares.day and used + need <= shares.day):
            return True  # nothing more than a share is ever kept for others
        unkept = self._unkept(proposed, limits, shares)
        return unkept is None or not unkept.refuses(need)

    def _unkept(self, event: Proposed | Decided, limits: Limits, shares: Shares) -> Standing | None:
        """Return what an agent may use of the daily budget, if a part is kept for others."""
        number, balances = event.at.toordinal(), self._ledger.balances
        kept = balances.kept(event, number, event.t, shares) if limits[2] else 0
        if not kept:
            return None
        agent, used = event.agent, balances.rivals(event, number)
        return Standing("kept", agent, agent, used, limits[2] - kept)

    def _refusal(self, proposed: Proposed, limits: Limits, shares: Shares, need: int) -> Verdict:
        touched = [*self._touched(_payer(proposed), proposed, limits, shares)]
        unkept = None if shares is NO_SHARES else self._unkept(proposed, limits, shares)
        if unkept is not None and not any(
            each.scope == "day" for each in touched if each.refuses(need)
        ):
            touched.append(unkept)
        verdicts = [standing.verdict(need) for standing in touched if standing.refuses(need)]
        first = strictest(verdicts)
        also = tuple(verdict.rule for verdict in verdicts if verdict is not first)
        remedy = all_of(verdict.remedy for verdict in verdicts)
        return msgspec.structs.replace(first, also=also, remedy=remedy) if also else first

    def _decided(self, event: Decided) -> Sequence[Event]:
        if event.verdicts and event.stranger:
            return ()  # a name beyond the limit on names gets no accounts
        need, price = estimates(event, event.type, self._default)
        allowed = event.decision is ALLOW
        if allowed:
            self._ledger.see(event.agent, event.t, keyless=event.keyless)
        if allowed and not need and not price and self._ledger.balances.is_free(event):
            return ()
        payer = _payer(event)
        self._ledger.begin(event.at.toordinal())
        if allowed:
            self._ledger.release_pending(event.agent, event.id)
            self._ledger.reserve(payer, event.id, need, event.t)
            if price:
                self._purchases.reserve(event, payer, price)
            self._ledger.limit(payer, self._limits_of(event), self._usual(event.agent))
            shares = self._shares_of(keyless=event.keyless)
            return self._warnings(payer, event, need, shares)
        for verdict in event.verdicts:
            if verdict.guard == self.name and verdict.rule != PURCHASE_RULE:
                return self._refused(event, {verdict.rule, *verdict.also}, need)
        if need + price and event.asks is not None and not event.asks.joins:
            self._ledger.reserve(payer, event.id, need + price, event.t, pending=True)
            return ()
        self._ledger.hear(payer, event.t)
        return ()

    def _refused(self, event: Decided, rules: set[str], need: int) -> Sequence[Event]:
        caused: list[Event] = []
        payer, limits = _payer(event), self._limits_of(event)
        if payer.model not in self._ledger.balances.day(event.at.toordinal()).models:
            payer = msgspec.structs.replace(payer, model=None)  # a blocked proposal adds no model
        payer = self._ledger.open(payer, event.t)
        self._ledger.limit(payer, limits, self._usual(event.agent))
        shares = self._shares_of(keyless=event.keyless)
        unkept = self._unkept(event, limits, shares) if "budget.kept" in rules else None
        if unkept is not None and self._ledger.tells_kept(event.agent):
            caused.append(unkept.mark("exceeded", event, need))
        for standing in self._touched(payer, event, limits, shares):
            if standing.rule not in rules:
                continue
            if standing.account.exceeded_nano < standing.base:
                standing.account.exceeded_nano = standing.base
                caused.append(standing.mark("exceeded", event, need))
            asks = standing.scope == "session" and event.decision is ASK
            if asks and self._ledger.balances.agents[event.agent].pause(standing.id, standing.base):
                caused.append(_paused(event, standing.reason(need)))
        return caused

    def _settled(self, event: Settled) -> Sequence[Event]:
        ledger = self._ledger
        ledger.begin(event.at.toordinal())
        payer = Payer(event.agent, event.session, event.chain, event.model, event.keyless)
        shares = self._shares_of(keyless=event.keyless)
        ledger.hear(payer, event.t)
        held = ledger.release(event.agent, event.id or "")
        bought = self._purchases.ledger.release(event.agent, event.id or "")
        cost, price = costs(event, held.nano if held else 0, bought.nano if bought else 0)
        if price or bought:
            self._purchases.spend(event, payer, bought, price)
        report = ledger.settle(event, payer, held, cost, shares)
        warned = self._warnings(payer, event, 0, shares)
        return (*announced(event, *report), *warned) if report else warned

    def _dropped(self, event: Dropped) -> None:
        self._ledger.release_pending(event.agent, event.id)

    def _overdue(self, event: Overdue) -> None:
        for id_ in event.ids:
            self._ledger.spend_reserved(event.agent, id_)
            self._purchases.ledger.spend_reserved(event.agent, id_)

    def _closed(self, event: SessionClosed) -> None:
        self._ledger.close(event.agent, event.session)
        self._purchases.ledger.close(event.agent, event.session)

    def _forgotten(self, event: NameForgotten) -> None:
        self._ledger.forget(event.agent)
        self._purchases.ledger.forget(event.agent)

    def _unpaused(self, event: Unpaused) -> None:
        """Raise the session limit that an operator approved."""
        books = self._ledger.balances.agents.get(event.agent)
        if books is not None and "budget" in event.sources:
            books.unpause(raises=event.approved)

    def _raised(self, event: BudgetRaised) -> None:
        self._ledger.begin(event.at.toordinal())
        self._ledger.lift(event.scope, event.id, nano(event.usd))

    def _struck(self, event: CostStruck) -> None:
        self._ledger.strike(event.id)

    def _warnings(
        self, payer: Payer, event: Decided | Settled, need: int, shares: Shares
    ) -> Sequence[Event]:
        number, balances = event.at.toordinal(), self._ledger.balances
        limits = self._limits_of(event)
        warns = any(map(self._warns, balances.find(payer, number, event.t), limits))
        for party in _parties(payer, shares) if not warns else ():
            parts = balances.part(party, payer.model, number)
            warns = warns or any(map(self._warns, parts, shares[:2]))
        if not warns:
            return ()
        warned: list[Event] = []
        for standing in self._touched(payer, event, limits, shares):
            if self._warns(standing.account, standing.base):
                standing.account.warned_nano = standing.base
                warned.append(standing.mark("warning", event, need))
        return warned

    def _warns(self, account: Account | None, limit: int) -> bool:
        if account is None or account.warned_nano >= limit:
            return False
        return account.used >= (limit + account.raised) * self._warn_ratio

    def _touched(
        self, payer: Payer, event: Event | Moment, limits: Limits, shares: Shares
    ) -> Iterator[Standing]:
        """Yield the budgets that a proposal or outcome counts in, with their limits."""
        number = event.at.toordinal()
        today = self._ledger.balances.date(number).isoformat()
        ids = (payer.chain, payer.session, today, payer.agent, payer.model)
        accounts = self._ledger.balances.find(payer, number, event.t)
        for scope, id_, account, limit in zip(SCOPES, ids, accounts, limits, strict=True):
            if account is not None:
                agent = None if scope in {"day", "model"} else payer.agent
                yield Standing(scope, id_ or "", agent, account, limit)
        for party in _parties(payer, shares):
            total, of_model = self._ledger.balances.part(party, payer.model, number)
            models = {} if payer.model is None else {payer.model: of_model}
            yield from _of_party(party, total, models, shares)

    def _shares_of(self, *, keyless: bool) -> Shares:
        return self._pooled if keyless and self._others(keyless=True) else self._shares

    def _limits_of(self, event: Counted) -> Limits:
        # An outcome names no project. The project's limits were checked for the proposal.
        own = None if isinstance(event, Settled) else self._projects.of(event.proposal.project)
        return self._usual(event.agent) if own is None else own.of(event.agent)

    def _standings_of(self, agent: str) -> Iterator[Standing]:
        of_chain, of_session, *_ = self._usual(agent)
        for chain, account in self._ledger.balances.agents[agent].chains.items():
            yield _own_standing("chain", chain, agent, account, of_chain)
        for session, account in self._ledger.balances.agents[agent].sessions.items():
            yield _own_standing("session", session, agent, account, of_session)

    def _usual(self, agent: str) -> Limits:
        """Return the limits of an agent outside projects."""
        return self._own.get(agent, self._limits)


def _limits(config: BudgetConfig, session_usd: float) -> Limits:
    return (
        nano(config.chain_usd),
        nano(session_usd),
        nano(config.day_usd),
        nano(config.agent_usd),
        nano(config.model_usd),
    )


def _own_standing(scope: Scope, name: str, agent: str, account: Account, limit: int) -> Standing:
    """Return a chain or session with its usual limit, or with that of its project."""
    own = account.project_limit
    return Standing(scope, name, agent, account, limit if own is None else own)


def _payer(event: Proposed | Decided) -> Payer:
    said = event.proposal
    return Payer(event.agent, said.session or "", said.chain, said.model, event.keyless)


def _parties(payer: Payer, shares: Shares) -> tuple[str, ...]:
    """Return the parties whose shares limit a payer."""
    return (ANONYMOUS, payer.agent) if payer.keyless and shares.pooled else (payer.agent,)


def _of_party(
    party: str, total: Account, models: Mapping[str, Account], shares: Shares
) -> Iterator[Standing]:
    """Yield the limited shares of the day and of models."""
    if party in {CLAIMED, CLAIMED_KEYLESS}:
        return
    of_day, of_model = shares.day, shares.model
    keyless = party == ANONYMOUS
    scope: Scope = "keyless" if keyless else "share"
    agent = None if keyless else party
    if of_day:
        yield Standing(scope, agent or "", agent, total, of_day)
    for model, account in models.items() if of_model else ():
        yield Standing(scope, model if keyless else f"{party}/{model}", agent, account, of_model)


def _is_free(proposal: Proposal, kind: Kind) -> bool:
    """Return whether an action with an estimate of 0 uses no model."""
    return proposal.model is proposal.provider is None and kind.type not in MODEL_TYPES


def _paused(cause: Decided, reason: str) -> Paused:
    return Paused(
        at=cause.at, t=cause.t, agent=cause.agent, source="budget", by="safetyd", reason=reason
    )
