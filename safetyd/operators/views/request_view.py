"""What people see of requests: the queue, one card, and the history."""

from collections.abc import Iterator
from itertools import dropwhile, islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core.approvals.assurance import says_all
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.messages.verdict import strictest
from safetyd.core.outbox.deliveries import Delivery
from safetyd.operators.views.paging import View, fitting

UNKNOWN: Final = "classify.unknown_type"
ROW_CHARS: Final = 200  # of a text that is only one of many

Limit = Annotated[int, Meta(ge=1, le=1000)]


class PendingQuestion(msgspec.Struct, kw_only=True):
    limit: Limit = 1000
    after: str = ""
    agent: str | None = None


class HistoryQuestion(msgspec.Struct, kw_only=True):
    limit: Limit = 100
    after: str = ""


class RequestQuestion(msgspec.Struct, kw_only=True):
    id: str


def pending(engine: Engine, moment: Moment, wanted: PendingQuestion) -> View:
    """Return what waits for a person, oldest first, after the request `after`.

    That one may have been answered since it was shown.
    """
    waiting = list(engine.approvals.pending(wanted.agent))
    last = engine.approvals.find(wanted.after)
    if last is not None:
        waiting = [known for known in waiting if known.asked.seq > last.asked.seq]
    page = fitting(_row(engine, known, moment) for known in waiting[: wanted.limit])
    count = engine.approvals.pending_count(wanted.agent)
    return {
        "requests": page,
        "pending": count,
        "channels": list(engine.policy.telling.channels),
        "more": len(page) < len(waiting),
    }


def request(engine: Engine, moment: Moment, named: str) -> View:
    """Return the card of one request; its id may be cut short as far as it names one."""
    found = engine.approvals.named(named)
    if len(found) != 1:
        error = "no request has this id" if not found else f"{len(found)} requests begin so"
        return {"ok": False, "error": f"{named}: {error}", "code": "not_found"}
    (known,) = found
    return {"request": _card(engine, known, moment)}


def history(engine: Engine, _moment: Moment, page: HistoryQuestion) -> View:
    """Return how requests ended, newest first, after the request `after`."""
    ended = engine.approvals.answered()
    if page.after:
        ended = list(dropwhile(lambda known: known.id != page.after, ended))[1:]
    rows = fitting(_ended(known) for known in ended[: page.limit])
    return {"history": rows, "more": len(rows) < len(ended)}


def _row(engine: Engine, known: Request, moment: Moment) -> View:
    asked = known.asked
    left_s = None if known.deadline is None else (known.deadline - moment.at).total_seconds()
    return {
        "id": known.id,
        "agent": asked.agent,
        "type": asked.type,
        "unknown": UNKNOWN in known.rules,  # nobody configured this type
        "text": asked.proposal.text[:ROW_CHARS],
        "description": asked.proposal.description[:ROW_CHARS],
        "whole": says_all(asked.proposal)
        and len(asked.proposal.text) <= ROW_CHARS
        and not known.gives,
        "urgency": known.urgency,
        "risk": asked.risk,
        "rule": strictest(asked.verdicts).rule,
        "reason": strictest(asked.verdicts).reason,
        "asked_at": asked.at,
        "deadline": known.deadline,
        "left_s": None if left_s is None else round(left_s, 1),
        "until": known.until,
        "repeats": known.repeats,
        "digest": asked.digest,
        "permission": asked.permission,
        "undeliverable": engine.outbox.undeliverable(known.id),
    }


def _card(engine: Engine, known: Request, moment: Moment) -> View:
    asked = known.asked
    return {
        **_row(engine, known, moment),
        "state": known.state,
        "proposal": asked.proposal,
        "verdicts": asked.verdicts,
        "tier": asked.tier,
        "reversibility": asked.reversibility,
        "gives": known.gives,
        "resolved": asked.resolved,
        "answer": known.answer,
        "valid_until": known.valid_until,
        "used": known.used,
        "claimant": known.claimant,
        "before": [_ended(other) for other in _same_kind(engine, known)],
        "told": [_told(delivery) for delivery in engine.outbox.told(known.id)],
    }


def _told(delivery: Delivery) -> View:
    return {
        "delivery": delivery.id,
        "recipient": delivery.recipient,
        "channel": delivery.channel,
        "state": delivery.state,
        "at": delivery.told_at or delivery.at,
    }


def _same_kind(engine: Engine, known: Request, most: int = 5) -> Iterator[Request]:
    """Yield the last answers to the same kind: agent, type and project."""
    wanted = _kind(known)
    alike = (r for r in engine.approvals.answered() if r is not known and _kind(r) == wanted)
    return islice(alike, most)


def _kind(known: Request) -> tuple[str, str, str | None]:
    return known.agent, known.asked.type, known.asked.proposal.project


def _ended(known: Request) -> View:
    answer = known.answer
    waited_s = None if answer is None else (answer.at - known.asked.at).total_seconds()
    return {
        "request_id": known.id,
        "agent": known.agent,
        "action": known.asked.type,
        "text": known.asked.proposal.text[:ROW_CHARS],
        "decision": known.state,
        "decided_at": None if answer is None else answer.at,
        "decided_via": None if answer is None else answer.via,
        "decided_by": None if answer is None else answer.by,
        "words": "" if answer is None else answer.words,
        "response_time_seconds": None if waited_s is None else round(waited_s, 3),
        "used": known.used,
    }
