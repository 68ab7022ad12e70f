"""Costs that agents report beyond their reservations: what is believed, and what can be struck.

An agent can report any cost. A report counts for other agents like a reserved cost only if the
price of its tokens explains it and it fits into the agent's share. Otherwise it counts for them
only up to that share. If it is large, it is also listed, and the agent is paused.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.events.decision_events import Settled
from safetyd.core.events.guard_events import LargeReport, Paused
from safetyd.core.guards.budget.accounts import Payer
from safetyd.core.messages.money import MAX_SUM, dollars, nano, usd
from safetyd.core.sender_limits import SenderLimits

Why = Literal["price", "share"]

COMMON: Final = ""  # in place of a party: the common budgets
# How much of a cost beyond its reservation counts, by party, and by model or None for the day.
Counted = dict[tuple[str, str | None], int]

_LIMITS: Final = SenderLimits()
_SMALL: Final = nano(_LIMITS.small_report_usd)


class Doubt(NamedTuple):
    """What is known of a report. It is large if there is a reason `why`."""

    beyond: int  # the cost beyond the reservation
    claimed: bool  # no price explains it: for others it counts only up to the share
    why: Why | None
    tokens: int | None  # the price of the tokens
    left: int | None  # what was left of the share; None means no limit


def doubted(event: Settled, cost: int, reserved: int, left: int | None) -> Doubt:
    """Return what is known of the cost of an outcome."""
    beyond = max(cost - reserved, 0)
    tokens = event.tokens_nano if event.priced_nano is None else event.priced_nano
    dear = tokens is not None and cost > _LIMITS.price_factor * tokens
    over = left is not None and beyond > left
    why: Why | None = None
    if over:
        why = "share"
    elif dear and beyond >= _SMALL:
        why = "price"
    return Doubt(beyond, over or dear or not tokens, why, tokens, left)


class LargeReports(msgspec.Struct):
    """The large reports of one agent on one day, with the accounts in which they count."""

    id: str
    agent: str
    day: int
    keyless: bool
    count: int = 0
    nano: int = 0
    counted: dict[tuple[str, str | None], int] = {}
    sessions: dict[str, int] = {}
    chains: dict[str, int] = {}
    lines: dict[tuple[str, str], int] = {}

    @property
    def common(self) -> int:
        """How much of it counts in the common daily budget."""
        return self.counted.get((COMMON, None), 0)

    def add(self, payer: Payer, amount: int, counted: Counted) -> None:
        self.count += 1
        self.nano = min(self.nano + amount, MAX_SUM)
        for where, part in counted.items():
            self.counted[where] = self.counted.get(where, 0) + part
        _add(self.sessions, payer.session, amount)
        if payer.chain is not None:
            _add(self.chains, payer.chain, amount)
        line = payer.session, payer.model or ""
        self.lines[line] = min(self.lines.get(line, 0) + amount, MAX_SUM)


class ReportList:
    """The large reports that can be struck, one entry for each agent.

    Anonymous names can be invented, so only some of them are listed on a day.
    """

    def __init__(self, reports: dict[str, LargeReports]) -> None:
        self._reports = reports

    def __iter__(self) -> Iterator[LargeReports]:
        return iter(self._reports.values())

    def find(self, id_: str) -> LargeReports | None:
        return next((each for each in self if each.id == id_), None)

    def entry(self, event: Settled, day: int, doubt: Doubt) -> LargeReports | None:
        """Return the entry of a day that a report belongs to, if it is large and there is room."""
        if doubt.why is None:
            return None
        known = self._reports.get(event.agent)
        if known is not None and known.day == day:
            return None if doubt.beyond < _SMALL else known
        if event.keyless and not self._has_room(day):
            return None
        made = LargeReports(str(event.seq), event.agent, day, event.keyless)
        self._reports[event.agent] = made
        return made

    def remove(self, entry: LargeReports) -> None:
        self._reports.pop(entry.agent, None)

    def _has_room(self, day: int) -> bool:
        keyless = [each for each in self if each.keyless]
        if len(keyless) < _LIMITS.doubted_names:
            return True
        for each in keyless:
            if each.day != day:
                self.remove(each)
        return sum(each.keyless for each in self) < _LIMITS.doubted_names


def announced(event: Settled, doubt: Doubt, entry: LargeReports) -> tuple[LargeReport, Paused]:
    """Return the events about the first large report of an agent on a day."""
    why: Why = "price" if doubt.why == "price" else "share"
    left = doubt.left or 0
    said = f"it reported {dollars(doubt.beyond)}, more than the {dollars(left)} left of its share"
    if why == "price":
        said = (
            f"it reported {dollars(doubt.beyond)} for tokens that cost {dollars(doubt.tokens or 0)}"
        )
    report = LargeReport(
        at=event.at,
        t=event.t,
        agent=event.agent,
        id=entry.id,
        usd=usd(doubt.beyond),
        counted_usd=usd(entry.common),
        why=why,
        tokens_usd=None if doubt.tokens is None else usd(doubt.tokens),
        share_usd=usd(left),
    )
    reason = f"{said}. If that is wrong: safetyd budgets strike {entry.id} --reason WHY"
    paused = Paused(
        at=event.at, t=event.t, agent=event.agent, source="report", by="safetyd", reason=reason
    )
    return report, paused


def _add(sums: dict[str, int], name: str, amount: int) -> None:
    sums[name] = min(sums.get(name, 0) + amount, MAX_SUM)
