"""What agents bought. The limits are those of the budget; beyond them a purchase needs approval."""

from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.events.decision_events import Decided, Proposed, Settled
from safetyd.core.guards.budget.accounts import Account, Payer, Reservation
from safetyd.core.guards.budget.balances import NO_SHARES, Limits
from safetyd.core.guards.budget.ledger import Ledger
from safetyd.core.guards.budget.limits import SCOPES, Scope, Standing
from safetyd.core.messages.money import dollars
from safetyd.core.messages.verdict import ALLOWED, ASK, Verdict

PURCHASE_RULE: Final = "budget.purchase"


class Purchases:
    """The accounts of what was bought, by chain, session, day and agent."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def check(self, proposed: Proposed, payer: Payer, limits: Limits, price: int) -> Verdict:
        """Return `ALLOWED`, or the first limit that a purchase would exceed."""
        accounts = self.ledger.balances.find(_buyer(payer), proposed.at.toordinal(), proposed.t)
        for scope, account, limit in zip(SCOPES, accounts, limits, strict=True):
            if account is not None and limit and account.lacks(limit, price):
                return _exceeds(scope, account, limit, price)
        return ALLOWED

    def reserve(self, event: Decided, payer: Payer, price: int) -> None:
        self.ledger.begin(event.at.toordinal())
        self.ledger.reserve(_buyer(payer), event.id, price, event.t)

    def spend(self, event: Settled, payer: Payer, reserved: Reservation | None, price: int) -> None:
        """Count what was paid, on the day on which it was reserved."""
        self.ledger.begin(event.at.toordinal())
        if reserved is None:
            self.ledger.spend_unreserved(_buyer(payer), price, event.t, NO_SHARES)
        else:
            self.ledger.spend(reserved, price, NO_SHARES)

    def today(self, at: datetime, limit: int) -> Standing:
        """Return what all agents bought on the UTC day."""
        number, balances = at.toordinal(), self.ledger.balances
        return Standing(
            "day", balances.date(number).isoformat(), None, balances.day(number).total, limit
        )


def _buyer(payer: Payer) -> Payer:
    """Return whose money it is; no model is paid by it."""
    return payer if payer.model is None else msgspec.structs.replace(payer, model=None)


def _exceeds(scope: Scope, account: Account, limit: int, price: int) -> Verdict:
    total, whose = dollars(account.used + price), "today" if scope == "day" else f"of the {scope}"
    return Verdict(
        "budget",
        ASK,
        PURCHASE_RULE,
        f"purchases {whose} would come to {total}, more than {dollars(limit)}",
        cause="budget",
        limit_id=PURCHASE_RULE,
        remedy=f"at a price of at most {dollars(max(limit - account.used, 0))}",
    )
