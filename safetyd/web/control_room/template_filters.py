"""Filters of the control room's templates: times, amounts, numbers, names."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from safetyd.cards.request_details import RequestRow
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.messages.proposal import Proposal
from safetyd.core.text.time_words import complete
from safetyd.operators.contract.status_contract import TopBarHold

_VERDICTS: Final = {
    "allow": "allowed",
    "require_confirmation": "needs approval",
    "block": "blocked",
}


def time(at: datetime | None, mode: str = "") -> Markup:
    """Return a time in UTC; a script shows it in the reader's zone.

    With the mode "ago" or "left" the script counts up or down.
    """
    if not at:
        return Markup("")
    shown = f"{'until ' if mode == 'left' else ''}{at:%b %d %H:%M:%S}"
    exact = f"{at:%Y-%m-%d %H:%M:%S.%f} UTC"
    said = f'datetime="{at.isoformat()}" title="{exact}" data-as="{mode or "at"}"'
    return Markup(f"<time {said}>{shown} UTC</time>")  # noqa: S704 - nobody's words are in it


def money(amount: float | None) -> str:
    return "no limit" if amount is None else f"${amount:,.2f}"


def number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def span(seconds: float | None) -> str:
    return "" if seconds is None else complete(seconds)


def series(values: object) -> str:
    """Return numbers as JSON, for the attribute that charts.js reads."""
    return json.dumps(values, separators=(",", ":"))


def after(at_and_ms: tuple[datetime, float]) -> datetime:
    """Add milliseconds to a time, and return the result without fractions of a second."""
    at, milliseconds = at_and_ms
    return (at + timedelta(milliseconds=milliseconds)).replace(microsecond=0)


def past(at: datetime, now: datetime) -> bool:
    return at <= now


def percent(part: float, whole: float | None) -> int:
    return 0 if not whole else max(0, min(100, round(100 * part / whole)))


def whom(kernel: str) -> str:
    """Return the displayed name of the agents to which a safe mode applies."""
    return {EVERYBODY: "all agents", ANONYMOUS: "anonymous agents"}.get(kernel, kernel)


def held(hold: TopBarHold) -> str:
    """Return how many agents are stopped, paused or in safe mode."""
    how = "in safe mode" if hold.level == "SAFE MODE" else hold.level.lower()
    if not hold.agents:
        return f"everything {how}" if hold.level == "STOPPED" else f"all agents {how}"
    count = len(hold.agents) + hold.more
    if ANONYMOUS in hold.agents:
        more = f" and {count - 1} more" if count > 1 else ""
        return f"anonymous agents{more} {how}"
    return f"{count} {'agent' if count == 1 else 'agents'} {how}"


def hold_page(hold: TopBarHold) -> str:
    """Return the page on which an operator can end a stop, pause or safe mode."""
    pages = {"STOPPED": "/stopped", "SAFE MODE": "/safe-mode"}
    return pages.get(hold.level, "/agents?state=paused")


def verdict(decision: str) -> str:
    return _VERDICTS.get(decision, decision)


def words(said: Proposal | RequestRow) -> str:
    """Return the exact text of an action, or the agent's description."""
    return said.text or said.description


def placed(row: RequestRow) -> str:
    """Return the paths of an action, then its text."""
    more = (row.paths or 1) - 1
    place = f"{row.path} and {more} more" if more > 0 else row.path or ""
    return ": ".join(filter(None, (place, words(row))))


FILTERS: Final[Mapping[str, Callable[..., object]]] = {
    "time": time,
    "money": money,
    "number": number,
    "span": span,
    "series": series,
    "percent": percent,
    "after": after,
    "past": past,
    "verdict": verdict,
    "whom": whom,
    "held": held,
    "hold_page": hold_page,
    "words": words,
    "placed": placed,
}
