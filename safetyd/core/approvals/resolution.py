"""Turns verdicts into requests, unless a grant or an approval covers them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.approvals.grants import Grants, Look
from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.reachability import Reachability
from safetyd.core.approvals.request import (
    Answer,
    ApprovalsConfig,
    Request,
    request_id,
    urgency_of,
)
from safetyd.core.approvals.request_deadline import RequestDeadline, deadline_of, renewed
from safetyd.core.events.decision_events import Asking, Proposed, RememberedProgram, Using
from safetyd.core.guards.budget.purchases import PURCHASE_RULE
from safetyd.core.guards.guard_chain import Chain
from safetyd.core.messages.binding import binding
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ASK, BLOCK, Verdict, strictest

LINKS_MOVED: Final = "approvals.links_moved"
DENIED_BEFORE: Final = "approvals.denied"  # the same action was denied within the last day
# The verdict on a permission request, which always needs approval.
ASKED: Final = Verdict("approvals", ASK, "approvals.asked", "The agent asks for approval")
# The operator must see the exact text.
UNTOLD: Final = Verdict(
    "approvals",
    BLOCK,
    "approvals.text",
    "The request must contain the exact text to execute. Add it as context.text",
    remedy="with context.text in the request",
)


# Returns the program whose further calls an approval would also cover.
Remember = Callable[[Proposed, Kind, Sequence[Verdict]], RememberedProgram | None]


def nothing(_proposed: Proposed, _kind: Kind, _verdicts: Sequence[Verdict]) -> None:
    """Remember no program."""


class Involved(NamedTuple):
    """The remaining verdicts, and the request that they open or the approval that lifts them."""

    verdicts: tuple[Verdict, ...]
    asks: Asking | None = None
    uses: Using | None = None
    grants: tuple[str, ...] = ()


class RequestResolution:
    """Turns verdicts that operators can lift into approval requests."""

    def __init__(
        self,
        approvals: Approvals,
        grants: Grants,
        guards: Chain,
        config: ApprovalsConfig,
        people: Reachability,
        remember: Remember = nothing,
    ) -> None:
        self._approvals = approvals
        self._grants = grants
        self._guards = guards
        self._config = config
        self._people = people
        self._remember = remember

    def involve(
        self, proposed: Proposed, kind: Kind, verdicts: tuple[Verdict, ...], seq: int
    ) -> Involved:
        """Remove verdicts that a grant or an approval covers. Request approval for the rest.

        `seq` is the number of the decision. The id of a new request is derived from it.
        """
        look = looking(self._guards, proposed, kind, again=False)
        left, grants = self._grants.lift(proposed, kind, verdicts, look)
        if not left:
            return Involved((), grants=grants)
        involved = self._involve(proposed, kind, left, seq)
        return involved._replace(grants=grants) if grants else involved

    def granted_before(
        self,
        proposed: Proposed,
        kind: Kind,
        verdicts: tuple[Verdict, ...],
        grants: tuple[str, ...],
    ) -> tuple[Verdict, ...]:
        """Return the verdicts on an approved action that its grants no longer lift."""
        look = looking(self._guards, proposed, kind, again=True)
        return self._grants.lift(proposed, kind, verdicts, look, only=grants).verdicts

    def _involve(
        self, proposed: Proposed, kind: Kind, verdicts: tuple[Verdict, ...], seq: int
    ) -> Involved:
        action = _action(proposed, kind, verdicts)
        approval = self._approvals.usable(proposed, kind, action)
        if approval is not None:
            verdicts = unlifted(verdicts, approval)
            if not verdicts:
                return Involved((), uses=_using(approval))
        if strictest(verdicts).decision is not ASK:
            return Involved(verdicts)
        known = self._approvals.joinable(proposed, action)
        if known is not None:
            return Involved(verdicts, self._join(known, proposed, kind))
        denied = self._approvals.denied(proposed, action)
        if denied is not None and denied.answer is not None:
            return Involved((*verdicts, _denial(denied.id, denied.answer)))
        return self._ask(proposed, kind, verdicts, request_id(proposed.agent, proposed.id, seq))

    def _ask(
        self, proposed: Proposed, kind: Kind, verdicts: tuple[Verdict, ...], id_: str
    ) -> Involved:
        config = self._config
        if (full := self._approvals.full(proposed)) is not None:
            return Involved((*verdicts, full))
        soonest = self._deadline(proposed, kind)
        urgency = urgency_of(
            proposed.proposal, kind, soonest.at, proposed.at, config.urgent_cost_usd
        )
        reachable = self._people.notified_from(proposed, kind, urgency, soonest.at)
        deadline = self._fitting(soonest, reachable, proposed, kind)
        return Involved(
            verdicts,
            Asking(
                request_id=id_,
                action=_action(proposed, kind, verdicts),
                urgency=urgency,
                deadline=deadline.at,
                rule=deadline.rule,
                reachable_from=reachable,
                remembers=self._remember(proposed, kind, verdicts),
            ),
        )

    def _join(self, known: Request, proposed: Proposed, kind: Kind) -> Asking:
        """Join a pending request. If the new proposal asks for a later deadline, renew it.

        If the new proposal waits for the answer, it takes the request over, because its sender is
        most likely still connected.
        """
        asked = known.asked
        same = (asked.digest, asked.keyless) == (proposed.digest, proposed.keyless)
        reachable = self._people.reachable_from(proposed, kind, known.urgency)
        joining = Asking(
            request_id=known.id,
            action=known.action,
            urgency=known.urgency,
            reachable_from=reachable,
            joins=True,
            takes_over=same and proposed.proposal.wait,
        )
        if known.deadline is None:
            return joining
        before = RequestDeadline(known.deadline, known.rule)
        wished = self._fitting(self._deadline(proposed, kind), reachable, proposed, kind)
        deadline, rule = renewed(asked.at, before, wished)
        return msgspec.structs.replace(joining, deadline=deadline, rule=rule)

    def _fitting(
        self, deadline: RequestDeadline, reachable: datetime | None, proposed: Proposed, kind: Kind
    ) -> RequestDeadline:
        """Return the deadline, or a later one for a coding agent if nobody is reachable before it.

        A coding agent continues with other work, so an answer in the morning is not too late.
        """
        if not proposed.host or reachable is None or reachable < deadline.at:
            return deadline
        return self._deadline(proposed, kind, waits=False)

    def _deadline(
        self, proposed: Proposed, kind: Kind, *, waits: bool | None = None
    ) -> RequestDeadline:
        return deadline_of(
            proposed.proposal,
            kind,
            proposed.at,
            self._config.terms,
            self._people.quiet_hours(proposed.agent),
            waits=proposed.proposal.wait if waits is None else waits,
        )


def looking(guards: Chain, proposed: Proposed, kind: Kind, *, again: bool) -> Look:
    """Return a function that returns a guard's verdict without some rules."""
    classify, gate = guards.classify, guards.gate

    def look(guard: str, lifted: frozenset[str]) -> Verdict:
        if guard == gate.name:
            return gate.check_without(proposed, kind, lifted, again=again)
        return classify.check_without(proposed, kind, lifted)

    return look


def asked_for(proposal: Proposal, kind: Kind) -> Verdict:
    """Return the verdict on a permission request before the guards judge it."""
    return UNTOLD if kind.in_text and not proposal.text else ASKED


def _action(proposed: Proposed, kind: Kind, verdicts: Sequence[Verdict]) -> bytes:
    """Return the key of an action. For a permission request, that is its digest."""
    if ASKED in verdicts:
        return proposed.digest.encode()
    return binding(proposed.agent, kind.type, proposed.proposal, proposed.resolved)


def links_moved(why: str) -> Verdict:
    """Return the verdict on an approved action whose paths lead elsewhere now."""
    remedy = "if it is proposed again"
    return Verdict("approvals", ASK, LINKS_MOVED, why, remedy=remedy)


def unlifted(verdicts: Sequence[Verdict], approval: Request) -> tuple[Verdict, ...]:
    """Return the verdicts that an approval does not lift: blocks, and rules that were not shown.

    A rule about the price of a purchase counts as shown: operators always see the price, and an
    approval covers no higher one.
    """
    shown = approval.rules | {PURCHASE_RULE}
    return tuple(
        verdict
        for verdict in verdicts
        if verdict.decision is not ASK or not {verdict.rule, *verdict.also} <= shown
    )


def _denial(request_id: str, answer: Answer) -> Verdict:
    """Return the verdict of an earlier denial of the same action."""
    words = f": {answer.words}" if answer.words else ""
    return Verdict(
        "approvals",
        BLOCK,
        DENIED_BEFORE,
        f"{answer.by} denied the same action at {answer.at:%H:%M}Z ({request_id}){words}",
        cause="human_denied",
        remedy=f"after `safetyd deny {request_id} --once` and a new approval",
    )


def _using(approval: Request) -> Using:
    answer, until = approval.answer, approval.valid_until
    if answer is None or until is None:
        raise AssertionError("an approval that is used must have an answer")
    return Using(request_id=approval.id, by=answer.by, until=until, words=answer.words)
