"""The summary of a session for operators: actions, pending requests and the next cycle."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from safetyd.core.messages.transcript import Entry, Status, Transcript
from safetyd.core.text.time_words import about, exact

MAX_LINES: Final = 20  # under one heading

Shown = Callable[[str], str]

_HEADINGS: Final[tuple[tuple[str, tuple[Status, ...]], ...]] = (
    ("Done", ("done", "allowed")),
    ("Failed", ("failed",)),
    ("Not allowed", ("blocked", "denied", "expired", "cancelled", "superseded", "closed")),
    ("Approved, not yet done", ("approved",)),
)

_STARTED: Final[frozenset[Status]] = frozenset({"done", "allowed", "failed"})


def summary(transcript: Transcript, shown: Shown) -> str:
    """Return the summary. `shown` sanitizes texts of agents."""
    return "\n\n".join("\n".join(part) for part in _parts(transcript, shown) if part)


def took(transcript: Transcript) -> str:
    """Return how long a session lasted, such as 4m 56s."""
    return exact((transcript.ended_at - transcript.started_at).total_seconds())


def _parts(transcript: Transcript, shown: Shown) -> Iterator[Sequence[str]]:
    yield (_headline(transcript, shown),)
    actions = tuple(_once(transcript.actions))
    for heading, statuses in _HEADINGS:
        entries = [entry for entry in actions if entry.status in statuses]
        lines = [f"- {_line(entry, shown)}" for entry in entries]
        if heading == "Done":
            lines = lines or ["- nothing"]
        yield _under(heading, lines)
    yield _unlisted(transcript)
    yield _under("Needs your review", list(_reviews(transcript, shown)))
    yield _next_cycle(transcript, shown)
    left = transcript.budget_remaining_percent
    yield () if left is None else (f"Budget: {left}% remaining today",)


def _once(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the entries, without approved requests whose action is an entry, too."""
    used = {entry.request_id for entry in entries if entry.status in _STARTED}
    for entry in entries:
        if entry.status != "approved" or entry.request_id not in used:
            yield entry


def _headline(transcript: Transcript, shown: Shown) -> str:
    name = f"Session {shown(transcript.session_id)}" if transcript.session_id else "A session"
    end = "completed" if transcript.why == "ended" else "fell silent"
    return f"{name} of {shown(transcript.agent)} {end} ({took(transcript)})"


def _under(heading: str, lines: Sequence[str]) -> Sequence[str]:
    if not lines:
        return ()
    more = len(lines) - MAX_LINES
    return (f"{heading}:", *lines[:MAX_LINES], *((f"- and {more} more",) if more > 0 else ()))


def _line(entry: Entry, shown: Shown) -> str:
    said = shown(entry.description or entry.action or entry.type)
    if entry.status == "done":
        return said
    why = f": {shown(entry.reason)}" if entry.reason else ""
    end = "no outcome reported" if entry.status == "allowed" else entry.status
    return f"{said} ({end}{why})"


def _unlisted(transcript: Transcript) -> Sequence[str]:
    if not transcript.left_out:
        return ()
    return (f"{transcript.left_out} more actions are not listed here; the audit files have them.",)


def _reviews(transcript: Transcript, shown: Shown) -> Iterator[str]:
    """Yield each request once, with the commands that answer it."""
    waiting = {entry.request_id: entry for entry in _pending(transcript.actions)}
    for id_, entry in waiting.items():
        said = shown(entry.description or entry.action or entry.type)
        yield f"- {said} [safetyd approve {id_} | safetyd deny {id_}]"
    unlisted = transcript.pending_permissions - len(waiting)
    if unlisted > 0:
        yield f"- {unlisted} more: see `safetyd list`"


def _pending(entries: Iterable[Entry]) -> Iterator[Entry]:
    return (entry for entry in entries if entry.status == "pending")


def _next_cycle(transcript: Transcript, shown: Shown) -> Sequence[str]:
    said = transcript.scheduled_next
    if not said:
        return ()
    try:
        seconds = (datetime.fromisoformat(said) - transcript.ended_at).total_seconds()
    except (ValueError, TypeError):  # not a time, or one without a zone
        return (f"Next cycle: {shown(said)}",)
    return (f"Next cycle: {about(seconds) or shown(said)}",)
