"""Limits on accounts, their current state, and the sentences about them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BudgetMarked
from safetyd.core.guards.budget.accounts import Account, Reservation
from safetyd.core.guards.budget.balances import Limits
from safetyd.core.guards.projects import ProjectConfig, ProjectSettings, sides
from safetyd.core.messages.money import cents_down, cents_up, dollars, nano, usd
from safetyd.core.messages.verdict import Severity, Verdict

Scope = Literal["chain", "session", "day", "agent", "model", "keyless", "share", "kept"]
SCOPES: Final[tuple[Scope, ...]] = ("chain", "session", "day", "agent", "model")

_FRESH: Final[dict[Scope, str]] = {
    "chain": "in another chain",
    "session": "in another session",
    "day": "from 00:00Z",
    "agent": "from 00:00Z",
    "model": "from 00:00Z",
    "keyless": "from 00:00Z",
    "share": "from 00:00Z",
    "kept": "from 00:00Z",
}


# When a budget is full again; all others do so every day.
_RENEWED: Final[dict[Scope, str]] = {"chain": "in another chain", "session": "in another session"}


class Standing(NamedTuple):
    """Money spent and reserved in one scope, and its limit, in nano-dollars."""

    scope: Scope
    # The name of the chain, session, agent or model, or the date; "" is the implicit session.
    id: str
    agent: str | None  # None if all agents share it
    account: Account
    base: int  # the configured limit; 0 means none

    @property
    def rule(self) -> str:
        return f"budget.{self.scope}"

    @property
    def spent(self) -> int:
        return self.account.spent

    @property
    def reserved(self) -> int:
        return self.account.reserved

    @property
    def limit(self) -> int:
        """The limit, with the amounts that operators added. 0 means no limit."""
        return self.base + self.account.raised if self.base else 0

    def refuses(self, need: int) -> bool:
        # Reservations of an agent with a key do not count against its share.
        need = 0 if self.scope == "share" else need
        return bool(self.base) and self.account.lacks(self.base, need)

    def verdict(self, need: int) -> Verdict:
        """Return the verdict on a proposal that does not fit.

        A proposal over a session budget needs approval. Other budgets block it.
        """
        decision = Severity.ASK if self.scope == "session" else Severity.BLOCK
        named = self.id and self.scope != "day"
        limit_id = f"{self.rule}:{self.id}" if named else self.rule
        return Verdict(
            "budget",
            decision,
            self.rule,
            self.reason(need),
            cause="budget",
            limit_id=limit_id,
            remedy=self.remedy(need),
        )

    def reason(self, need: int) -> str:
        used, limit = self.account.used, dollars(self.limit)
        if self.scope == "share":
            beyond = f"{self.agent} spent {dollars(used)} today beyond its reservations"
            return f"{beyond}. Its share of the common budget is {limit}"
        if self.scope == "kept":
            total = f"{limit} of the daily budget, and {dollars(used)} of it is used"
            return f"{self.agent} may use {total}. The rest is kept for other agents"
        scope = "Daily" if self.scope == "day" else self.scope.capitalize()
        said = f"{scope} budget of {limit}"
        if self.scope == "keyless":
            said = f"Budget of {limit} for all anonymous agents"
        if used >= self.limit:
            return f"{said} is used up: {dollars(used)} used"
        needs = f"{dollars(used)} used, and this action needs about {dollars(need)}"
        return f"{said} would be exceeded: {needs}"

    def remedy(self, need: int) -> str:
        """Return the remedy: a larger limit, a smaller estimate, or a new account."""
        room = self.limit - self.account.used
        needed = self.account.used - self.account.raised + max(need, 1)
        if self.scope == "share":
            return f"after `safetyd budgets raise agent:{self.agent}`, or {_FRESH['share']}"
        ways = [f"with {self._key} of at least {dollars(cents_up(needed))}"]
        if self.scope == "kept":
            ways = ["after `safetyd budgets raise day`"]
        if self.scope == "keyless":
            ways = ["with a key", "after `safetyd budgets raise keyless`"]
        if room > 0:
            ways.append(f"with an estimate of at most {dollars(cents_down(room))}")
        if need <= self.base:
            ways.append(_FRESH[self.scope])
        return ", or ".join(ways)

    @property
    def _key(self) -> str:
        # Limits of chains, sessions and agents can also be set in other tables.
        return f"budget.{self.scope}_usd" if self.agent is None else f"{self.scope}_usd"

    def now(self) -> str:
        """Return the money used and the limit, in words."""
        named = f"{self.scope} {self.id}" if self.id and self.scope != "day" else self.scope
        return f"{named} {dollars(self.account.used)} of {dollars(self.limit)}"

    def mark(self, mark: Literal["warning", "exceeded"], cause: Event, need: int) -> BudgetMarked:
        return BudgetMarked(
            at=cause.at,
            t=cause.t,
            mark=mark,
            scope=self.scope,
            id=self.id,
            spent=usd(self.spent),
            reserved=usd(self.reserved),
            limit=usd(self.limit),
            estimate=usd(need),
            agent=self.agent,
            renewed=_RENEWED.get(self.scope, "at 00:00Z"),
        )


class PendingSums:
    """The cost of pending actions, by the scopes in which they would count."""

    def __init__(self, pending: Iterable[Reservation]) -> None:
        self._sums: Counter[tuple[Scope, str, str | None]] = Counter()
        for held in pending:
            payer, over = held.payer, held.session_over
            agent = payer.agent
            self._sums["day", "", None] += held.nano
            self._sums["agent", agent, agent] += held.nano
            others: tuple[tuple[Scope, str | None, str | None], ...] = (
                ("session", None if over else payer.session, agent),
                ("chain", payer.chain, agent),
                ("model", payer.model, None),
                ("keyless", "" if payer.keyless else None, None),
            )
            for scope, id_, whose in others:
                if id_ is not None:
                    self._sums[scope, id_, whose] += held.nano

    def of(self, standing: Standing) -> int:
        id_ = "" if standing.scope == "day" else standing.id
        return self._sums[standing.scope, id_, standing.agent]


class Spend(NamedTuple):
    """Spending of one agent in one session on one model, in nano-dollars."""

    agent: str
    session: str
    model: str
    spent: int


class ProjectLimits:
    """The limits in one project. `own` has the agents' individual limits."""

    def __init__(self, project: ProjectConfig, usual: Limits, own: Mapping[str, Limits]) -> None:
        self._usual = sides(project, usual, _within, _smallest)
        self._own = {
            agent: sides(project, limits, _within, _smallest) for agent, limits in own.items()
        }

    def of(self, agent: str) -> Limits:
        return self._own.get(agent, self._usual).of(agent)


def _within(limits: Limits, settings: ProjectSettings) -> Limits:
    chain, session, day, agent, model = limits
    own = settings.budget
    return (
        chain if own.chain_usd is None else nano(own.chain_usd),
        session if own.session_usd is None else nano(own.session_usd),
        day,
        agent if own.agent_usd is None else nano(own.agent_usd),
        model,
    )


def _smallest(several: tuple[Limits, ...]) -> Limits:
    chain, session, day, agent, model = (
        min(filter(None, limits), default=0) for limits in zip(*several, strict=True)
    )
    return chain, session, day, agent, model
