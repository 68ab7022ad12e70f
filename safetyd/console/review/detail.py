"""What a reviewer reads: a line of the list, the card, all that was sent, and what sessions did.

Words of an agent stand behind a bar, as on every card, so that they cannot pass for ours.
"""

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from safetyd.console.render.grant_list import grant_offer
from safetyd.console.render.layout import some, when
from safetyd.console.render.request_card import card as in_full
from safetyd.console.render.request_card import is_cut
from safetyd.console.terminal_text import document, plain
from safetyd.core.reporting.session_summary import summary
from safetyd.core.text.time_words import countdown
from safetyd.core.text.visible_text import visible
from safetyd.journal.transcript_files import DIRECTORY, names, read
from safetyd.operators.views.request_facts import short_digest, words_of

View = Mapping[str, Any]
ODD_LINES: Final = 3
FIELD_LINES: Final = 400  # of each field on the card
SHORT_LINES: Final = 4  # of a text, before the card has all of it
_find_label = re.compile(r" *\S+(?: \S+)* {2,}").match  # what stands before a fact
_BEGINS: Final = "  | "
_GOES_ON: Final = "  + "
_RANKS: Final = {"high": 0, "normal": 1, "low": 2}
NEWEST: Final = 10


def ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the urgent first, the oldest first among equals, what is put off last."""
    return sorted(rows, key=lambda row: (bool(row["until"]), _RANKS.get(row["urgency"], 1)))


def heading(rows: Sequence[View], count: int) -> str:
    urgent = sum(row["urgency"] == "high" for row in rows)
    high = f", {urgent} of high urgency" if urgent else ""
    shown = f"; the oldest {len(rows)} of them shown" if count > len(rows) else ""
    return f"{count} pending{high}{shown}"


def matches(row: View, wanted: str) -> bool:
    """Say whether a row has the words that are looked for, whatever their case."""
    names = ("id", "agent", "type", "text", "description", "urgency", "rule")
    return wanted.casefold() in " ".join(str(row[name]) for name in names).casefold()


def line(row: View, passed_s: float, *, marked: bool) -> str:
    """Return one request as it stands in the list, `passed_s` after the daemon told of it."""
    mark = "*" if marked else " "
    who = plain(row["agent"], 12)
    return f"{mark} {plain(row['urgency']):<6} {left(row, passed_s):>8}  {who:<12}  {_what(row)}"


def left(row: View, passed_s: float) -> str:
    """Return how long an answer still counts, to the second in the last hour."""
    if row["until"]:
        return "put off"
    if row["left_s"] is None:
        return "no end"
    return countdown(row["left_s"] - passed_s)


def chosen(rows: Sequence[View], columns: int) -> str:
    """Return what an answer would be about: id, digest, agent and text of each request."""
    parts = ("\n".join(_chosen(row, columns)) for row in rows)
    return "\n\n".join(parts)


def covered(row: View) -> str:
    """Return what a grant would let pass, and what it would have covered in the last week."""
    offer = row.get("grant")
    if offer is None:
        return "It covers exactly this and nothing else."
    return "\n".join(grant_offer(offer))


def card(view: View, passed_s: float, columns: int) -> str:
    """Return a request in short, then in full, `passed_s` after the daemon told of it."""
    left_s = view["left_s"]
    now = {**view, "left_s": None if left_s is None else left_s - passed_s}
    shown = in_full(now, columns, FIELD_LINES)
    return fitted("\n".join((*_short(now, columns), "", shown)), columns)


def whole(view: View) -> bool:
    """Say whether the card shows all that an approval is bound to."""
    return not is_cut(view, FIELD_LINES)


def everything(view: View, columns: int) -> str:
    """Return all that the agent sent: the exact text, the diff, and the rest."""
    proposal = view["proposal"]
    context = _mapping(proposal.get("context"))
    rest = {name: value for name, value in proposal.items() if name not in {"text", "context"}}
    parts = (
        ("exact text", proposal.get("text", "")),
        ("diff", context.get("diff", "")),
        ("context", _document(proposal.get("context"), "diff")),
        ("the rest of the proposal", document(rest, indent=2)),
    )
    lines = [row for name, said in parts if said for row in (name, *quoted(said, columns), "")]
    return "\n".join(lines)


def unread(rows: Sequence[View]) -> str:
    """Say that nothing was approved, because nobody has seen all of it."""
    ids = some([row["id"] for row in rows], ODD_LINES)
    return f"NOT APPROVED: {ids}: read all of it first. Select it; v shows what is cut."


def outcomes(results: Sequence[View], wanted: int, trouble: str) -> str:
    """Return how `wanted` answers went: what did not go as wanted by name, the rest as a number."""
    odd = [outcome(result) for result in results if not result["ok"] or result.get("held")]
    fine = [outcome(result) for result in results if result["ok"] and not result.get("held")]
    lines = [*odd[:ODD_LINES], *filter(None, (trouble,))]
    if len(odd) > ODD_LINES:
        lines.append(f"and {len(odd) - ODD_LINES} more like these; `safetyd log` has them")
    if fine:
        lines.append(fine[0] if wanted == 1 else f"{len(fine)} of {wanted} answered")
    return "\n".join(lines)


def outcome(result: View) -> str:
    """Return what came of one answer."""
    id_ = plain(result["id"])
    if result["ok"]:
        held = f", but HELD for now: {plain(result['held'])}" if result.get("held") else ""
        grant = f", with grant {plain(result['grant'])}" if result.get("grant") else ""
        return f"{id_}: {plain(result['decision'])}{grant}{held}"
    if "by" in result:
        who = f"{plain(result['by'])} via {plain(result['via'])} at {when(result['at'])}"
        return f"{id_}: NOT ANSWERED: already {plain(result['decision'])} by {who}"
    return f"{id_}: NOT ANSWERED: {plain(result.get('error', result['code']))}"


def quoted(words: object, columns: int, most: int | None = None) -> list[str]:
    """Return an agent's words behind bars; a line that is too long goes on behind a plus."""
    said = str(words).split("\n")
    lines = [row for one in said for row in _folded(visible(one), columns)]
    if most is None or len(lines) <= most:
        return lines
    return [*lines[:most], f"  (and {len(lines) - most} more lines; v shows all)"]


def fitted(text: str, columns: int) -> str:
    """Fold what is still too wide, so that no line goes on where a line of ours would begin.

    Our own lines are folded between words, an agent's exactly where they are too long.
    """
    lines = text.split("\n")
    return "\n".join(row for one in lines for row in _fitted(one, columns))


def _fitted(line: str, columns: int) -> Iterator[str]:
    if line.startswith((_BEGINS, _GOES_ON)) or _is_wide(line):
        yield from _chopped(line, columns, "", _GOES_ON)
        return
    found = _find_label(line)
    label = found.end() if found else 0
    indent = label if label <= columns // 2 else 0
    indent = indent or len(line) - len(line.lstrip()) + len(_GOES_ON)
    yield from textwrap.wrap(
        line, columns, subsequent_indent=" " * indent, break_on_hyphens=False
    ) or [line]


def _is_wide(line: str) -> bool:
    return any(unicodedata.east_asian_width(char) in "WF" for char in line)


def _chosen(row: View, columns: int) -> Iterator[str]:
    digest = plain(short_digest(row["digest"]))
    yield f"{plain(row['id'])}, digest {digest}, of {plain(row['agent'])}:"
    yield from quoted(f"{row['type']}: {words_of(row)}", columns)
    if not row.get("whole"):
        yield "  (and more; its card shows all)"


def _what(row: View) -> str:
    return f"{plain(row['type'])}: {plain(words_of(row))}"


def _short(view: View, columns: int) -> Iterator[str]:
    """Yield what most answers depend on, so that it is seen before anything is scrolled."""
    proposal = view["proposal"]
    urgency, time = plain(view["urgency"]), left(view, 0.0)
    yield f"{plain(view['agent'])} asks, {urgency} urgency, {time}: {plain(view['type'])}"
    yield from quoted(words_of(proposal), columns, SHORT_LINES)
    if changes := _changes(_mapping(proposal.get("context"))):
        yield from quoted(changes, columns, 1)
    if proposal.get("rationale"):
        yield from quoted(f"why: {proposal['rationale']}", columns, 2)


def _changes(context: View) -> str:
    """Return the branch and how much changes, as far as the agent says."""
    branch = f"branch {context['branch']}" if "branch" in context else ""
    files = ""
    if "files_changed" in context:
        more, fewer = context.get("additions", 0), context.get("deletions", 0)
        files = f"files {context['files_changed']} (+{more} -{fewer})"
    return "  ".join(filter(None, (branch, files)))


def _folded(shown: str, columns: int) -> Iterator[str]:
    return _chopped(shown, columns, _BEGINS, _GOES_ON)


def _chopped(shown: str, columns: int, begins: str, goes_on: str) -> Iterator[str]:
    row, used = begins, len(begins)
    if shown.isascii() and used + len(shown) <= columns:
        yield row + shown
        return
    for char in shown:
        cells = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used + cells > columns:
            yield row
            row, used = goes_on, len(goes_on)
        row, used = row + char, used + cells
    yield row


def _mapping(value: object) -> View:
    return value if isinstance(value, Mapping) else {}


def _document(value: object, without: str) -> str:
    """Return JSON of what is sent as context, but for one field."""
    if isinstance(value, Mapping):
        value = {name: said for name, said in value.items() if name != without}
    return document(value, indent=2) if value else ""


def sessions(data_dir: Path) -> str:
    """Return the newest summaries, as far as the files are on this machine."""
    where = data_dir / DIRECTORY
    newest = names(where)[::-1][:NEWEST]
    told = "\n\n\n".join(_summary(where, name) for name in newest)
    return told or f"There are no transcripts in {where}."


def _summary(where: Path, name: str) -> str:
    try:
        return f"{name}\n{summary(read(where, name), plain)}"
    except (OSError, msgspec.DecodeError) as exc:
        return f"{name} cannot be read: {plain(exc)}"
