"""Requests for approval, their answers, and grants."""

from typing import Final

from safetyd.core.catalogue.entry import Entry, Facts, Notice
from safetyd.core.events import request_events as events

_DECIDED: Final = Notice(
    "PERMISSION_DECIDED", "low", "request {request_id} {decision} by {by} via {via}"
)


def _end(request_id: str, end: str, by: str, via: str) -> Facts:
    return {"request_id": request_id, "decision": end, "by": by, "via": via}


def _unanswered(event: events.Expired) -> str:
    ids = event.request_ids
    if len(ids) == len(event.reasons) == 1:
        return f"{ids[0]}: {event.reasons[0]}"
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"nobody answered {ids[0]}{more} in time"


def _not_approved(event: events.EscalationDenied) -> str:
    if event.source:
        return f"{event.agent} stays paused: {event.why}"
    return f"request {event.request_id} {'expired' if event.why == 'expired' else 'was denied'}"


def _released(event: events.Released) -> str:
    held = ", ".join(verdict.rule for verdict in event.verdicts)
    result = f"was approved, but is blocked by {held}" if held else "can start"
    return f"request {event.request_id} {result}"


def _grant(event: events.Granted) -> Facts:
    facts: Facts = {"grant": event.id, "by": event.by, "via": event.via}
    facts |= {"type": event.type, "rule": " ".join(event.rules), "uses": event.uses}
    return facts | {"until": event.until.isoformat(), "request_id": event.request_id}


ENTRIES: Final = (
    Entry(
        events.Answered,
        notice=_DECIDED,
        reason="{words}",
        facts=lambda event: _end(event.request_id, event.answer, event.by, event.via),
    ),
    Entry(
        events.Cancelled,
        notice=_DECIDED,
        facts=lambda event: _end(event.request_id, "cancelled", event.by, event.via),
        follows=lambda event: event.via == "unpause",
    ),
    Entry(
        events.Superseded,
        notice=_DECIDED,
        reason="{by_id}",
        facts=lambda event: _end(event.request_id, "superseded", event.agent, "bus"),
        follows=True,
        compared=True,
    ),
    Entry(
        events.Claimed,
        notice=Notice("ACTION_CLAIMED", "low"),
        reason="{id} is about to start",
        facts="request_id id",
    ),
    Entry(events.Deferred, says="{by} deferred request {request_id} until {until}"),
    Entry(events.DenialLifted, says="{by} lifted the denial of request {request_id} of {agent}"),
    Entry(
        events.Expired,
        notice=Notice("PERMISSION_EXPIRED", "medium"),
        reason=_unanswered,
        facts=lambda event: {"request_id": event.request_ids[0], "count": len(event.request_ids)},
        follows=True,
        by_time=True,
    ),
    Entry(
        events.Lapsed,
        says=lambda event: f"approvals expired unused: {', '.join(event.request_ids)}",
        follows=True,
        by_time=True,
    ),
    Entry(events.Released, says=_released, follows=True),
    Entry(
        events.Granted,
        notice=Notice("GRANT_CREATED", "low", "{by} created {grant} for {agent}"),
        facts=_grant,
        # A grant with a folder follows from an approval. Operators make all other grants.
        follows=lambda event: bool(event.folder),
    ),
    Entry(
        events.GrantUsed,
        notice=Notice("GRANT_USED", "low", repeats=True),
        reason="{grant} allowed {id}",
        facts="grant id left",
        follows=True,
    ),
    Entry(
        events.GrantRevoked,
        notice=Notice("GRANT_REVOKED", "low", "{by} revoked {grant} of {agent}"),
        facts="grant by",
        # A denial ends a grant that was suggested. Operators revoke all other grants.
        follows=lambda event: bool(event.request_id),
    ),
    Entry(
        events.GrantEnded,
        says=lambda event: f"grants expired: {', '.join(event.grants)}",
        follows=True,
        by_time=True,
    ),
    Entry(
        events.EscalationDenied,
        notice=Notice("ESCALATION_DENIED", "high"),
        reason=_not_approved,
        facts=lambda event: {
            "request_id": event.request_id,
            "kind": "request",
            "source": event.source,
        },
        follows=True,
    ),
)
