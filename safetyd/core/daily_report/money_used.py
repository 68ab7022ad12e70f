"""Counts spending, and the use of the UTC day's budget.

This uses the same ledger as the budget guard. Money is reserved when an action is allowed. The
cost of an outcome is the reported cost, the price of its tokens, or else the estimate. The cost of
an action without an outcome is the estimate. An action is forgotten after a day, so that the
numbers of a day do not depend on the first event that was read.
"""

from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from safetyd.core.daily_report.day_numbers import BudgetUse, DayNumbers, count
from safetyd.core.daily_report.recent_entries import RecentEntries
from safetyd.core.events.decision_events import Decided, Overdue, Settled
from safetyd.core.events.guard_events import BudgetMarked, BudgetRaised, CostStruck
from safetyd.core.guards.budget.accounts import Payer
from safetyd.core.guards.budget.balances import NO_SHARES, Shares
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.budget.ledger import Ledger
from safetyd.core.guards.budget.purchases import costs, estimates
from safetyd.core.messages.money import nano

KEPT_FOR: Final = timedelta(days=1)  # after this time, the action of an outcome is unknown


class ExpectedAction(NamedTuple):
    """The data of an allowed action that is needed when its outcome arrives."""

    confidence: float | None
    price: int = 0  # price of a purchase, which is not model spending


class MoneyUsed:
    """Follows actions from their decision to their outcome, and counts the day's budget."""

    def __init__(self) -> None:
        self._actions: RecentEntries[tuple[str, str], ExpectedAction] = RecentEntries(KEPT_FOR)
        self._with_key: RecentEntries[str, None] = RecentEntries(KEPT_FOR)
        self._config = BudgetConfig()
        self._ledger = Ledger()

    def configured(self, config: BudgetConfig, at: datetime, day: DayNumbers) -> None:
        self._config = config
        self._note(at, day)

    def allowed(self, event: Decided, at: datetime, day: DayNumbers) -> int:
        """Reserve money for an action. Return the cost of an earlier action with the same id."""
        self._hear(event, at)
        self._ledger.see(event.agent, event.t, keyless=event.keyless)
        before = self._used_up(event.agent, event.id, at, day)
        expected, price = self._expected(event)
        action = ExpectedAction(event.proposal.confidence, price)
        self._actions.put((event.agent, event.id), action, at)
        if expected:
            self._ledger.begin(at.toordinal())
            payer = Payer(event.agent, keyless=event.keyless)
            self._ledger.reserve(payer, event.id, expected, event.t)
        return before

    def asked(self, event: Decided, day: DayNumbers) -> int:
        """If a new request reuses the id of an allowed action, return the cost of that action."""
        self._hear(event, event.at)
        asks = event.asks
        if asks is None or asks.joins or not any(self._expected(event)):
            return 0
        return self._used_up(event.agent, event.id, event.at, day)

    def settled(self, event: Settled, day: DayNumbers) -> tuple[int, ExpectedAction | None]:
        """Record an outcome. Return its cost and its action, if known."""
        self._hear(event, event.at)
        self._ledger.begin(event.at.toordinal())
        id_ = event.id or ""
        action = self._actions.pop((event.agent, id_), event.at)
        held = self._ledger.release(event.agent, id_)
        if action is None:
            held = None
        shares = self._shares(event.at, keyless=event.keyless)
        price = action.price if action else 0
        cost, price = costs(event, held.nano if held else 0, price)
        day.bought_nano += price
        payer = Payer(event.agent, keyless=event.keyless)
        self._ledger.settle(event, payer, held, cost, shares)
        day.cost_nano += cost
        self._note(event.at, day)
        return cost, action

    def overdue(self, event: Overdue, day: DayNumbers) -> int:
        """Record actions without an outcome as spent. Return their cost."""
        return sum(self._used_up(event.agent, id_, event.at, day) for id_ in event.ids)

    def raised(self, event: BudgetRaised, day: DayNumbers) -> None:
        self._ledger.begin(event.at.toordinal())
        self._ledger.lift(event.scope, event.id, nano(event.usd))
        self._note(event.at, day)

    def struck(self, event: CostStruck, day: DayNumbers) -> None:
        self._ledger.strike(event.id)
        day.cost_nano = max(day.cost_nano - nano(event.usd), 0)
        self._note(event.at, day)

    def marked(self, event: BudgetMarked, day: DayNumbers) -> None:
        marks = day.budgets_gone if event.mark == "exceeded" else day.budgets_near
        count(marks, event.scope)

    def _expected(self, event: Decided) -> tuple[int, int]:
        return estimates(event, event.type, nano(self._config.default_cost_usd))

    def _used_up(self, agent: str, id_: str, at: datetime, day: DayNumbers) -> int:
        """Record the reserved money of an action as spent, and return the amount."""
        known = self._actions.pop((agent, id_), at)
        day.bought_nano += known.price if known else 0
        held = self._ledger.release(agent, id_)
        if known is None or held is None:
            return 0
        self._ledger.spend(held, held.nano, NO_SHARES)
        day.cost_nano += held.nano
        self._note(at, day)
        return held.nano

    def _hear(self, event: Decided | Settled, at: datetime) -> None:
        if not event.keyless:
            self._with_key.put(event.agent, None, at)

    def _shares(self, at: datetime, *, keyless: bool) -> Shares:
        """Return the share of an agent, or of the anonymous pool if another agent has a key."""
        of_day = nano(self._config.day_usd * self._config.party_share)
        pooled = keyless and bool(self._with_key.count(at))
        return Shares(of_day, kept=nano(self._config.day_usd) - of_day, pooled=pooled)

    def _note(self, at: datetime, day: DayNumbers) -> None:
        """Record the use of the UTC day's budget, if it has a limit and was used or raised."""
        limit = nano(self._config.day_usd)
        total = self._ledger.balances.day(at.toordinal()).total
        today: date = self._ledger.balances.date(at.toordinal())
        if limit and (total.spent or total.raised or today.isoformat() in day.budgets):
            day.budgets[today.isoformat()] = BudgetUse(total.spent, limit + total.raised)
