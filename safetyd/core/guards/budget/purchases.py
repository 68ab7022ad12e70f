"""The cost of an action: for its model and tokens, or the price of a purchase.

Purchases count in separate accounts, so they never use up the budget for models. The limits are
the same, unless `purchases_day_usd` is set. A purchase beyond a limit needs approval.
"""

from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.action_types import PURCHASES
from safetyd.core.events.decision_events import Decided, Proposed, Settled
from safetyd.core.guards.budget.accounts import Account, Payer, Reservation
from safetyd.core.guards.budget.balances import NO_SHARES, Limits
from safetyd.core.guards.budget.ledger import Ledger
from safetyd.core.guards.budget.limits import SCOPES, Scope, Standing
from safetyd.core.messages.money import dollars, nano
from safetyd.core.messages.verdict import ALLOWED, ASK, Verdict

PURCHASE_RULE: Final = "budget.purchase"
MODEL_TYPES: Final = frozenset({"model_call", "dispatch"})  # types that use a model


def larger_cost(said_usd: float | None, priced_nano: int | None, neither: int) -> int:
    """Return the larger of the stated cost and the price of the tokens, if given."""
    if said_usd is None:
        return neither if priced_nano is None else priced_nano
    return max(nano(said_usd), priced_nano or 0)


def estimates(event: Proposed | Decided, type_: str, default: int) -> tuple[int, int]:
    """Return the estimated model cost of a proposal, and its purchase price."""
    said_usd, priced_nano = event.proposal.cost_usd, event.priced_nano
    if type_ in PURCHASES:
        return priced_nano or 0, larger_cost(said_usd, None, default)
    if said_usd is None and priced_nano is None:
        return default, 0
    return larger_cost(said_usd, priced_nano, default), 0


def costs(event: Settled, reserved: int, price: int) -> tuple[int, int]:
    """Return the model cost and the price of an outcome, by default those reserved."""
    if event.type in PURCHASES:
        tokens = reserved if event.priced_nano is None else event.priced_nano
        return tokens, larger_cost(event.cost_usd, None, price)
    return larger_cost(event.cost_usd, event.priced_nano, reserved), 0


class Purchases:
    """The accounts of purchases, by chain, session, day and agent.

    `day_limit` is the only limit on purchases. None means the limits on model spending.
    """

    def __init__(self, day_limit: int | None = None) -> None:
        self.ledger = Ledger()
        self._day_limit = day_limit

    def check(self, proposed: Proposed, payer: Payer, limits: Limits, price: int) -> Verdict:
        """Return `ALLOWED`, or a verdict on the first limit that a purchase would exceed."""
        limits = self._own(limits)
        accounts = self.ledger.balances.find(_buyer(payer), proposed.at.toordinal(), proposed.t)
        for scope, account, limit in zip(SCOPES, accounts, limits, strict=True):
            if account is not None and limit and account.lacks(limit, price):
                return _exceeds(scope, account, limit, price)
        return ALLOWED

    def reserve(self, event: Decided, payer: Payer, price: int) -> None:
        self.ledger.begin(event.at.toordinal())
        self.ledger.reserve(_buyer(payer), event.id, price, event.t)

    def spend(self, event: Settled, payer: Payer, reserved: Reservation | None, price: int) -> None:
        """Record the price paid, on the day of the reservation."""
        self.ledger.begin(event.at.toordinal())
        reserved = reserved or self.ledger.unreserved(_buyer(payer), event.t)
        if reserved is None:
            self.ledger.spend_of_stranger(price, NO_SHARES)
        else:
            self.ledger.spend(reserved, price, NO_SHARES)

    def today(self, at: datetime, limits: Limits) -> Standing:
        """Return the purchases of all agents on the UTC day."""
        number, balances = at.toordinal(), self.ledger.balances
        limit = self._own(limits)[2]
        return Standing(
            "day", balances.date(number).isoformat(), None, balances.day(number).total, limit
        )

    def _own(self, limits: Limits) -> Limits:
        """Return the limits on purchases, given those on model spending."""
        return limits if self._day_limit is None else (0, 0, self._day_limit, 0, 0)


def _buyer(payer: Payer) -> Payer:
    """Return the payer without a model, because a purchase uses none."""
    return payer if payer.model is None else msgspec.structs.replace(payer, model=None)


def _exceeds(scope: Scope, account: Account, limit: int, price: int) -> Verdict:
    total = dollars(account.used + price)
    whose = {"day": "today", "agent": "by this agent"}.get(scope, f"in this {scope}")
    return Verdict(
        "budget",
        ASK,
        PURCHASE_RULE,
        f"Purchases {whose} would total {total}, more than the limit of {dollars(limit)}",
        cause="budget",
        limit_id=PURCHASE_RULE,
        remedy=f"at a price of at most {dollars(max(limit - account.used, 0))}",
    )
