"""Decisions and other events as rows, from the engine's events and from audit lines.

Text written by agents is unchanged: escape it before showing it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from safetyd.core.catalogue.catalogue import repeats_a_decision, sentence_of, severity_of
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.messages.verdict import Cause, strictest
from safetyd.journal.audit_reading import (
    DECIDED,
    SAFETY_EVENT,
    NewestFirst,
    is_before,
    read_event,
    second_of,
    seq_of,
)
from safetyd.operators.contract.decision_contract import (
    DecisionRow,
    DecisionsAnswer,
    DecisionsQuestion,
    EventRow,
    Row,
    What,
)
from safetyd.operators.views.paging import PAGE_BYTES, size_of

ROW_CHARS: Final = 200  # maximum length of a text in a list
MESSAGE_CHARS: Final = 500


_BEGINNINGS: Final[dict[What, tuple[bytes, ...]]] = {
    "decisions": (DECIDED,),
    "events": (SAFETY_EVENT,),
    "all": (DECIDED, SAFETY_EVENT),
}


def row_of(event: Event) -> Row | None:
    """Return the row of an event, or None if it has none."""
    if isinstance(event, Decided):
        return _decision_row(event)
    if isinstance(event, SafetyEvent):
        return _event_row(event)
    return None


def rows_of(events: Iterable[Event], asked: DecisionsQuestion) -> Iterator[Row]:
    """Yield the matching rows, in the order of the events.

    With `all`, events that only repeat a decision are skipped.
    """
    for event in events:
        if _wanted(event, asked) and (row := row_of(event)) is not None:
            yield row


def decisions(lines: NewestFirst, asked: DecisionsQuestion) -> DecisionsAnswer:
    """Return the newest rows that fit into an answer. Call it in a worker thread.

    `lines` start at the position that the query names.
    """
    page: list[Row] = []
    newest, last, room = 0, None, PAGE_BYTES
    may_match = _looking_for(asked)
    second = second_of(asked.since) if asked.since is not None else b""
    for line in lines:
        seq = seq_of(line)
        newest = newest or seq
        if seq <= asked.after or (second and is_before(line, second)):
            return _answer(page, newest, None)
        event = read_event(line) if may_match(line) else None
        for row in rows_of((event,) if event else (), asked):
            room -= size_of(row)
            if len(page) == asked.limit or room < 0:
                return _answer(page, newest, page[-1].seq)
            page.append(row)
        last = seq
    return _answer(page, newest, None if lines.ended else last)


def decisions_of(
    events: Iterable[Event], after: int, asked: DecisionsQuestion
) -> DecisionsAnswer | None:
    """Return the newest rows, newest first, from the events in memory after event `after`.

    Return None if the audit files may contain more matching rows.
    """
    if asked.before is not None:
        return None
    page: list[Row] = []
    newest, room = 0, PAGE_BYTES
    remaining = iter(events)
    for event in remaining:
        newest = newest or event.seq
        if _too_old(event, asked):
            return _answer(page, newest, None)
        for row in rows_of((event,), asked):
            room -= size_of(row)
            if len(page) == asked.limit or room < 0:
                left_out = _count(remaining, after, asked) if asked.count else UNSET
                return _answer(page, newest, page[-1].seq, left_out)
            page.append(row)
    return _answer(page, newest, None) if after <= asked.after else None


def _count(events: Iterable[Event], after: int, asked: DecisionsQuestion) -> int | UnsetType:
    """Return how many older rows there are, if all of them are in memory."""
    found = 1
    for event in events:
        if _too_old(event, asked):
            return found
        found += _wanted(event, asked)
    return found if after <= asked.after else UNSET


def _too_old(event: Event, asked: DecisionsQuestion) -> bool:
    return event.seq <= asked.after or (asked.since is not None and event.at < asked.since)


def _answer(
    page: list[Row], newest: int, before: int | None, left_out: int | UnsetType = UNSET
) -> DecisionsAnswer:
    return DecisionsAnswer(
        ok=True,
        rows=tuple(page),
        more=before is not None,
        before=before,
        newest=newest,
        left_out=left_out,
    )


def _looking_for(asked: DecisionsQuestion) -> Callable[[bytes], bool]:
    """Return a function that skips most lines without decoding them."""
    beginnings = _BEGINNINGS[asked.what]
    parts = [msgspec.json.encode(asked.agent)] if asked.agent is not None else []
    if asked.verdict is not None:
        parts.append(b'"decision":"%b"' % asked.verdict.encode())
    if asked.rule:
        parts.append(msgspec.json.encode(asked.rule)[:-1])

    def may_match(line: bytes) -> bool:
        return line.startswith(beginnings) and all(part in line for part in parts)

    return may_match


def _wanted(event: Event, asked: DecisionsQuestion) -> bool:
    if asked.since is not None and event.at < asked.since:
        return False
    if isinstance(event, Decided):
        return asked.what != "events" and _is_decision(event, asked)
    if isinstance(event, SafetyEvent):
        shown = asked.what == "events" or (asked.what == "all" and not repeats_a_decision(event))
        return shown and _is_event(event, asked)
    return False


def _is_decision(event: Decided, asked: DecisionsQuestion) -> bool:
    if asked.agent is not None and event.agent != asked.agent:
        return False
    if asked.verdict is not None and event.decision is not asked.verdict:
        return False
    if asked.rule and not any(rule.startswith(asked.rule) for rule in _rules(event)):
        return False
    return not asked.text or _says(asked.text, _words(event))


def _is_event(event: SafetyEvent, asked: DecisionsQuestion) -> bool:
    if asked.verdict is not None or (asked.agent is not None and event.agent_id != asked.agent):
        return False
    if asked.rule and not str(event.metadata.get("rule", "")).startswith(asked.rule):
        return False
    return not asked.text or _says(asked.text, (event.event_type, event.reason))


def _says(text: str, words: Iterable[str]) -> bool:
    wanted = text.lower()
    return any(wanted in said.lower() for said in words)


def _rules(event: Decided) -> Iterator[str]:
    return (rule for verdict in event.verdicts for rule in (verdict.rule, *verdict.also))


def _words(event: Decided) -> Iterator[str]:
    proposal, target = event.proposal, event.proposal.target
    yield from (event.type, proposal.type, proposal.text, proposal.description, *proposal.paths)
    if target is not None:
        yield from (target.label, target.name, target.role, target.app, target.window, target.url)
    yield from (verdict.reason for verdict in event.verdicts)


def _decision_row(event: Decided) -> DecisionRow:
    proposal, headline = event.proposal, strictest(event.verdicts)
    text = proposal.text or proposal.description or _aim(event)
    asks, uses = event.asks, event.uses
    request_id = asks.request_id if asks else uses.request_id if uses else UNSET
    return DecisionRow(
        seq=event.seq,
        at=event.at,
        id=event.id,
        agent=event.agent,
        keyless=event.keyless,
        type=event.type,
        text=text[:ROW_CHARS],
        cut=len(text) > ROW_CHARS,
        path=proposal.paths[0][:ROW_CHARS] if proposal.paths else UNSET,
        paths=len(proposal.paths) or UNSET,
        project=proposal.project,
        session=proposal.session,
        risk=event.risk,
        decision=event.decision,
        rule=headline.rule,
        reason=_why(event, headline.reason)[:MESSAGE_CHARS],
        cause=_cause(event, headline.cause),
        request_id=request_id,
        first=event.first,
        dry_run=proposal.dry_run or UNSET,
    )


def _aim(event: Decided) -> str:
    """Return the target of an action without a text."""
    proposal, target = event.proposal, event.proposal.target
    said = (target.label or target.name or target.url or target.window) if target else ""
    return said or (proposal.paths[0] if proposal.paths else "")


def _why(event: Decided, reason: str) -> str:
    if event.uses is not None:
        words = f": {event.uses.words}" if event.uses.words else ""
        return f"approved by {event.uses.by}{words}"
    if event.grants and not event.verdicts:
        return f"granted by {' and '.join(event.grants)}"
    return reason


def _cause(event: Decided, cause: Cause) -> Cause | UnsetType:
    if event.uses is not None:
        return "human_approved"
    return cause if event.verdicts else UNSET


def _event_row(event: SafetyEvent) -> EventRow:
    facts = event.metadata
    return EventRow(
        seq=event.seq,
        at=event.at,
        type=event.event_type,
        agent=event.agent_id,
        severity=severity_of(event),
        message=sentence_of(event)[:MESSAGE_CHARS],
        by=_text(facts.get("by")),
        rule=_text(facts.get("rule")),
        request_id=_text(facts.get("request_id")),
        count=count if isinstance(count := facts.get("count"), int) else UNSET,
        project=_text(facts.get("project")) if "commit" in facts else UNSET,
        commit=_text(facts.get("commit")),
    )


def _text(said: object) -> str | UnsetType:
    return said if isinstance(said, str) and said else UNSET
