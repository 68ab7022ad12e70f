"""What templates of the control room do with values: times, amounts, numbers, series."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from safetyd.cards.request_details import placed_words_of, words_of
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.party import KEYLESS
from safetyd.core.text.time_words import complete

_in_backticks: Final = re.compile("`([^`<>]+)`").sub
_VERDICTS: Final = {"allow": "allowed", "require_confirmation": "asked", "block": "blocked"}


def time(at: datetime | str | None, mode: str = "") -> Markup:
    """Return a moment: in UTC here, in the reader's zone by a script, exact under the pointer.

    `mode` is "ago" or "left" for what counts up or down.
    """
    if not at:
        return Markup("")
    known = datetime.fromisoformat(at) if isinstance(at, str) else at
    shown = f"{'until ' if mode == 'left' else ''}{known:%b %d %H:%M:%S}"
    exact = f"{known:%Y-%m-%d %H:%M:%S.%f} UTC"
    said = f'datetime="{known.isoformat()}" title="{exact}" data-as="{mode or "at"}"'
    return Markup(f"<time {said}>{shown} UTC</time>")  # noqa: S704 - nobody's words are in it


def money(amount: float | None) -> str:
    return "no limit" if amount is None else f"${amount:,.2f}"


def number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def span(seconds: float | None) -> str:
    return "" if seconds is None else complete(seconds)


def series(values: object) -> str:
    """Return numbers as an attribute that the script for charts reads."""
    return json.dumps(values, separators=(",", ":"))


def after(at_and_ms: tuple[str, float]) -> str:
    """Return the time so many milliseconds after another, to the second."""
    at, milliseconds = at_and_ms
    end = datetime.fromisoformat(at) + timedelta(milliseconds=milliseconds)
    return end.replace(microsecond=0).isoformat()


def past(at: str, now: str) -> bool:
    return datetime.fromisoformat(at) <= datetime.fromisoformat(now)


def coded(html: Markup) -> Markup:
    """Return HTML in which what stands between backticks is code: a command to be copied."""
    return Markup(_in_backticks(r"<code>\1</code>", str(html)))  # noqa: S704 - it is escaped already


def percent(part: float, whole: float | None) -> int:
    return 0 if not whole else max(0, min(100, round(100 * part / whole)))


def whom(kernel: str) -> str:
    """Return whom a kernel of safe mode holds."""
    return {EVERYBODY: "everybody", KEYLESS: "all agents without a key"}.get(kernel, kernel)


def verdict(decision: str) -> str:
    return _VERDICTS.get(decision, decision)


FILTERS: Final[Mapping[str, Callable[..., object]]] = {
    "time": time,
    "money": money,
    "number": number,
    "span": span,
    "series": series,
    "percent": percent,
    "after": after,
    "past": past,
    "coded": coded,
    "verdict": verdict,
    "whom": whom,
    "words": words_of,
    "placed": placed_words_of,
}
