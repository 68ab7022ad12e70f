"""Texts of the review screen: lines of the list, cards, results, and summaries of sessions.

Lines of an agent's text have a bar, as on every card, so that they cannot imitate safetyd's text.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from safetyd.cards.request_card import request_card
from safetyd.cards.request_details import RequestDetails, RequestEnded, RequestRow, short_digest
from safetyd.console.line_folding import fitted, quoted
from safetyd.console.render.grant_list import grant_offer
from safetyd.console.render.guard_tables import kernel_name
from safetyd.console.render.layout import some, when
from safetyd.console.render.terminal_card import CardRow, Change, card_rows, change_rows, is_cut
from safetyd.console.stop_file import told_of
from safetyd.console.terminal_text import plain
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.guards.safe_mode import Hold
from safetyd.core.reporting.session_summary import summary
from safetyd.core.text.time_words import complete, countdown
from safetyd.journal.transcript_files import DIRECTORY, names, read
from safetyd.operators.contract.hold_contract import Pausing
from safetyd.operators.contract.request_contract import ReviewResult
from safetyd.operators.contract.status_contract import StatusAnswer

ODD_LINES: Final = 3
FIELD_LINES: Final = 400  # maximum number of lines per field of the card
CHANGE_LINES: Final = 200  # maximum number of lines per diff on the page of changes
NO_CHANGES: Final = "No approved action changed a project with file history."
SESSION_CHARS: Final = 40
_RANKS: Final = {"high": 0, "normal": 1, "low": 2}
NEWEST: Final = 10
NORMAL: Final = "NORMAL"  # the level while no agent is stopped, paused or in safe mode


def ordered(rows: Sequence[RequestRow]) -> list[RequestRow]:
    """Sort requests by urgency, then by age. Deferred requests come last."""
    return sorted(rows, key=lambda row: (bool(row.until), _RANKS[row.urgency]))


def heading(rows: Sequence[RequestRow], count: int, now: datetime) -> str:
    """Return how many requests are pending, and the age of the oldest."""
    urgent = sum(row.urgency == "high" for row in rows)
    high = f", {urgent} of high urgency" if urgent else ""
    age = f", the oldest for {_age(rows, now)}" if rows else ""
    shown = f"; showing the oldest {len(rows)}" if count > len(rows) else ""
    return f"{count} pending{high}{age}{shown}"


def _age(rows: Sequence[RequestRow], now: datetime) -> str:
    return complete((now - min(row.asked_at for row in rows)).total_seconds())


def standing(status: StatusAnswer) -> tuple[str, str]:
    """Return the strictest level in force, and its details: agents, author, time and reason.

    The details end with a count of the other stops, pauses and safe modes.
    """
    if status.problem:
        return "EVERYTHING BLOCKED", plain(status.problem)
    held = [hold for hold in _holds(status) if hold.told]
    if not held:
        return NORMAL, ""
    strictest, *others = held
    more = [f"{strictest.held - 1} more"] if strictest.held > 1 else []
    more += [hold.shortly for hold in others]
    besides = f"; and {', '.join(more)}: `safetyd status`" if more else ""
    return strictest.level, f"{strictest.told[0]}{besides}"


class _Hold(NamedTuple):
    """All stops, all pauses or all safe modes: a text for each, and how many agents they hold."""

    level: str
    told: Sequence[str]
    held: int
    shortly: str


def _holds(status: StatusAnswer) -> Iterator[_Hold]:
    """Yield stops, safe modes and pauses, the strictest kind first."""
    safe, stops = status.safe_mode, status.stop.stops
    common = [cause for cause, _ in told_of([one for one in stops if one.agent is None])]
    single = [cause for cause, _ in told_of([one for one in stops if one.agent is not None])]
    kept = [_held(kernel_name(hold.agent), hold) for hold in safe.holds]
    pauses = [_held(plain(pause.agent), pause) for pause in status.pauses]
    count, paused = len(safe.agents), len(status.paused)
    whom = "all agents" if EVERYBODY in safe.agents else str(count)
    yield _Hold("STOPPED", common, len(common), "")  # always shown, so it needs no text for a count
    yield _Hold("SAFE MODE", kept, count, f"{whom} in safe mode")
    yield _Hold("STOPPED", single, len(single), f"{len(single)} stopped")
    yield _Hold("PAUSED", pauses, paused, f"{paused} paused")


def _held(whom: str, hold: Hold | Pausing) -> str:
    why = f": {plain(hold.reason)}" if hold.reason else ""
    return f"{whom} by {plain(hold.by)} since {when(hold.since)}{why}"


def matches(row: RequestRow, wanted: str) -> bool:
    """Return True if a request contains the text. Case is ignored."""
    path = row.path or ""
    said = (row.id, row.agent, row.type, path, row.text, row.description, row.urgency, row.rule)
    return wanted.casefold() in " ".join(said).casefold()


def line(row: RequestRow, passed_s: float, *, marked: bool) -> str:
    """Return the line of a request, `passed_s` seconds after the daemon sent it."""
    mark = "*" if marked else " "
    who, what = plain(row.agent, 12), f"{plain(row.type)}: {plain(row.placed_words)}"
    return f"{mark} {row.urgency:<6} {left(row, passed_s):>7}  {who:<12} {what}"


def left(row: RequestRow, passed_s: float) -> str:
    """Return the time until a request expires. In the last hour it shows seconds."""
    if row.until:
        return "later"
    if row.left_s is None:
        return "-"
    return countdown(row.left_s - passed_s)


def chosen(rows: Sequence[RequestRow], columns: int) -> str:
    """Return id, digest, agent and text of the requests to be answered."""
    parts = ("\n".join(_chosen(row, columns)) for row in rows)
    return "\n\n".join(parts)


def covered(row: RequestRow, columns: int) -> str:
    """Return what a grant covers, and how many requests it would have covered in the last week."""
    if row.grant is UNSET:
        return "Covers exactly this action."
    return fitted("\n".join(grant_offer(row.grant)), columns)


def card(details: RequestDetails, now: datetime, columns: int) -> list[CardRow]:
    """Return the card of a request, with a limited number of lines per field."""
    return card_rows(details, request_card(details, None, now), columns, FIELD_LINES)


def whole(details: RequestDetails, now: datetime) -> bool:
    """Return True if the card shows the whole action, without shortening a field."""
    return not is_cut(request_card(details, None, now), FIELD_LINES)


def everything(details: RequestDetails, now: datetime, columns: int) -> list[CardRow]:
    """Return the whole card."""
    return card_rows(details, request_card(details, None, now), columns)


def changes(rows: Sequence[tuple[RequestEnded, Change]], columns: int) -> list[CardRow]:
    """Return the diffs of approved actions."""
    if not rows:
        return [CardRow(NO_CHANGES)]
    return [shown for row, change in rows for shown in _changed(row, change, columns)]


def _changed(row: RequestEnded, change: Change, columns: int) -> Iterator[CardRow]:
    who = f"{plain(row.decided_by)} at {when(row.decided_at)}"
    what = f"{plain(row.agent)}: {plain(row.action)} ({plain(row.request_id)})"
    yield CardRow(f"{what}, {row.decision} by {who}", "title")
    yield from change_rows(change, columns, CHANGE_LINES)
    yield CardRow("")


def session_of(card: RequestDetails | None, row: RequestRow) -> str:
    """Return the session of a request, or an empty string if its card is not shown."""
    session = card.proposal.session if card is not None and card.id == row.id else ""
    return plain(session or "", SESSION_CHARS)


def only_looks(name: str) -> str:
    """Return the notice that an observer cannot answer requests."""
    return f"NOT ANSWERED: {plain(name)} is an observer and cannot answer requests."


def unread(rows: Sequence[RequestRow]) -> str:
    """Return the notice that requests were not approved, because they were not shown in full."""
    ids = some([row.id for row in rows], ODD_LINES)
    return f"NOT APPROVED: {ids}: view the full request first. Select it and press v."


def outcomes(results: Sequence[ReviewResult], wanted: int, trouble: str) -> str:
    """Return the results of `wanted` answers: each failure, and a count of the others."""
    odd = [outcome(result) for result in results if not result.ok or result.held]
    fine = [outcome(result) for result in results if result.ok and not result.held]
    lines = [*odd[:ODD_LINES], *filter(None, (plain(trouble),))]
    if len(odd) > ODD_LINES:
        lines.append(f"and {len(odd) - ODD_LINES} more; `safetyd log` shows them")
    if fine:
        lines.append(fine[0] if wanted == 1 else f"{len(fine)} of {wanted} answered")
    return "\n".join(lines)


def outcome(result: ReviewResult) -> str:
    """Return the result of one answer."""
    id_ = plain(result.id)
    if result.ok:
        held = f", but HELD for now: {plain(result.held)}" if result.held else ""
        grant = f", with grant {plain(result.grant)}" if result.grant else ""
        decision = result.decision or "pending"
        done = "deferred" if decision == "pending" else plain(decision)
        return f"{id_}: {done}{grant}{held}"
    if result.by is not None:
        who = f"{plain(result.by)} via {plain(result.via)} at {when(result.at)}"
        return f"{id_}: NOT ANSWERED: already {plain(result.decision)} by {who}"
    return f"{id_}: NOT ANSWERED: {plain(result.error or result.code)}"


def _chosen(row: RequestRow, columns: int) -> Iterator[str]:
    yield f"{plain(row.id)}, digest {plain(short_digest(row.digest))}, from {plain(row.agent)}:"
    yield from quoted(f"{row.type}: {row.placed_words}", columns)
    if not row.whole:
        yield "  (shortened; the card shows all of it)"


def sessions(data_dir: Path) -> str:
    """Return the summaries of the newest sessions, if the transcripts are on this machine."""
    where = data_dir / DIRECTORY
    newest = names(where)[::-1][:NEWEST]
    told = "\n\n\n".join(_summary(where, name) for name in newest)
    return told or f"No transcripts in {where}."


def _summary(where: Path, name: str) -> str:
    try:
        return f"{name}\n{summary(read(where, name), plain)}"
    except (OSError, msgspec.DecodeError) as exc:
        return f"cannot read {name}: {plain(exc)}"
