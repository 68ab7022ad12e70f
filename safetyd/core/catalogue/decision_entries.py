"""Proposals, decisions, outcomes and sessions."""

from typing import Final

from safetyd.core.anonymous_pool import counted_as
from safetyd.core.catalogue.entry import MAIL_AND_CHAT, Alert, Choice, Entry, Facts, Notice
from safetyd.core.events import decision_events as events
from safetyd.core.guards.gate.own_config import OWN
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.messages.verdict import BLOCK, strictest

_BLOCKED: Final = "{rule} blocked {agent}"
_RATE: Final = Notice("RATE_LIMIT_BLOCK", "medium", _BLOCKED, repeats=True)
_OTHER: Final = Notice("ACTION_BLOCKED", "medium", _BLOCKED, repeats=True)
_ASKED: Final = Notice(
    "PERMISSION_REQUESTED", "low", "{agent} needs approval for {type}", repeats=True
)
# The notices of blocked proposals, by cause; "blocked" is for all other causes.
BLOCKS: Final = {
    "rate_limit": _RATE,
    "mode_violation": Notice("MODE_VIOLATION", "high", _BLOCKED, repeats=True),
    "blocked": _OTHER,
}


def _outcome(event: events.Decided) -> str:
    if event.decision is BLOCK:
        cause = strictest(event.verdicts).cause
        return cause if cause in BLOCKS else "blocked"
    return "asked" if event.asks is not None and not event.asks.joins else ""


def _decision(event: events.Decided) -> str:
    rules = ", ".join(verdict.rule for verdict in event.verdicts)
    shown = f"{event.agent} {event.type} {event.id} -> {event.decision}"
    text = event.proposal.text
    return f"{shown}{f' [{rules}]' if rules else ''}{f': {text}' if text else ''}"


def _facts(event: events.Decided) -> Facts:
    rule = strictest(event.verdicts).rule
    if event.asks is None:
        return {"rule": rule, "count": 1}
    facts: Facts = {"request_id": event.asks.request_id, "id": event.id, "type": event.type}
    return facts | {"rule": rule, "urgency": event.asks.urgency}


def _blocked(event: events.Decided) -> Alert | None:
    """Return an alert if a proposal is prohibited or names resources of safetyd.

    Return it even if other guards blocked the proposal as well.
    """
    # Names beyond the limit cause no alert, because anyone can invent them.
    if event.decision is not BLOCK or event.stranger:
        return None
    for verdict in event.verdicts:
        if verdict.rule == OWN and verdict.decision is BLOCK:
            return Alert(
                key=f"own {counted_as(event)}",
                urgency="normal",
                kinds=MAIL_AND_CHAT,
                title=f"PROTECTED: {event.agent} tried to access what belongs to safetyd",
                text=f"{verdict.rule} blocked it. Details: safetyd explain {event.id}\n"
                f"To stop the agent: safetyd stop --agent {event.agent}",
                agent=event.agent,
            )
        if verdict.cause == "prohibited" and verdict.decision is BLOCK:
            return Alert(
                key=f"prohibited {counted_as(event)} {event.type}",
                urgency="normal",
                kinds=MAIL_AND_CHAT,
                title=f"PROHIBITED: {event.agent} proposed {event.type}",
                # The reason is omitted: it contains the agent's words, and a command that permits
                # the action.
                text=f"{verdict.rule} blocked it. Details: safetyd explain {event.id}",
                agent=event.agent,
            )
    return None


def _report(event: events.Reported) -> str:
    said = event.telemetry
    if not isinstance(said, Outcome):
        return f"{event.agent} {said.__struct_config__.tag}"
    went = "ok" if said.ok else f"failed: {said.error}"
    return f"{event.agent} outcome of {said.id or 'an action without a proposal'}: {went}"


def _unreported(event: events.Overdue) -> str:
    more = f" and {len(event.ids) - 1} more" if len(event.ids) > 1 else ""
    return f"no outcome reported for {event.ids[0]}{more}"


ENTRIES: Final = (
    Entry(
        events.Decided,
        says=_decision,
        notice=Choice(_outcome, {**BLOCKS, "asked": _ASKED}),
        reason=lambda event: strictest(event.verdicts).reason,
        facts=_facts,
        alert=_blocked,
    ),
    Entry(
        events.Refused,
        notice=Choice(
            lambda event: "rate_limit" if event.cause == "rate_limit" else "blocked", BLOCKS
        ),
        reason="{example}",
        facts=lambda event: {"rule": f"intake.{event.cause}", "count": event.count},
    ),
    Entry(events.Withheld, says="the decision to allow {id} was not sent to {agent}: {why}"),
    Entry(events.Reported, says=_report),
    Entry(
        events.Settled,
        says="{agent}: outcome of {id} recorded, ok: {ok}",
        follows=True,
        compared=True,
    ),
    Entry(
        events.Overdue,
        notice=Choice(
            lambda event: "" if event.said else "missing",
            {"missing": Notice("OUTCOME_UNKNOWN", "low")},
        ),
        reason=_unreported,
        facts=lambda event: {"id": event.ids[0], "count": len(event.ids)},
        follows=True,
        by_time=True,
    ),
    Entry(
        events.SessionClosed,
        says="session {session!r} of {agent} ended: {why}",
        follows=True,
        by_time=True,
    ),
    Entry(
        events.Transcribed,
        says="transcript of session {transcript.session_id!r} of {transcript.agent}",
        follows=True,
        by_time=True,
    ),
)
