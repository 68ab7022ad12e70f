"""One approval request: its content, its answer, and whether an approval can still be used.

    pending --> approved --> used, or lapsed after its validity
       |
       +------> denied, expired, cancelled, superseded

A pending request can be deferred. It then stays pending, and its deadline is later.
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.approvals.request_deadline import DeadlineTerms, Minutes, closing
from safetyd.core.events.decision_events import DeadlineRule, Decided, Proposed, RememberedProgram
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.request_events import Answered, Cancelled, Expired, Released, Superseded
from safetyd.core.messages.binding import as_shown, no_dearer, permits
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES, Proposal, Urgency, digest
from safetyd.core.messages.verdict import ASK, Verdict

UNPAUSE: Final = "unpause"  # the type of a request to end a pause that an anomaly caused
# This many repeated proposals receive the final decision; further ones are only counted.
MAX_JOINED: Final = 64
URGENT_WAIT_S: Final = 900.0
DENIED_FOR: Final = timedelta(days=1)  # how long a denial covers the same action

Pending = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=MAX_MESSAGE_BYTES)]
State = Literal["pending", "approved", "denied", "expired", "cancelled", "superseded"]

_ENDS: Final[dict[type[Event], State]] = {
    Released: "approved",
    Expired: "expired",
    Cancelled: "cancelled",
    Superseded: "superseded",
}
_LIVE: Final = re.compile(r"\b(prod|production|live)\b", re.IGNORECASE)
_OPERATES: Final = frozenset(
    {"deploy", "publish", "db_write", "drop_database", "start_service", "open_port"}
)


class ApprovalsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    timeout_minutes: Minutes = 60.0  # wait = true; 0: the maximum
    queued_timeout_minutes: Minutes = 1440.0  # wait = false; 0: the maximum
    approved_valid_minutes: Annotated[float, Meta(gt=0, le=525_600)] = 1440.0
    max_pending_per_agent: Pending = 50
    max_pending_bytes_per_agent: Bytes = 2 * 1024 * 1024
    max_pending_keyless: Pending = 500  # for all anonymous agents together
    max_pending_bytes_keyless: Bytes = 16 * 1024 * 1024
    urgent_cost_usd: Annotated[float, Meta(ge=0)] = 20.0

    @property
    def terms(self) -> DeadlineTerms:
        return DeadlineTerms(self.timeout_minutes, self.queued_timeout_minutes)


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An answer to a request. `words` are a message to the agent or a reason."""

    by: str
    via: str
    at: datetime
    words: str = ""


class KeptChange(msgspec.Struct, frozen=True, gc=False):
    """The commit that contains an action's changes."""

    project: str
    commit: str


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    id: str
    asked: Decided  # the proposal and its verdicts
    action: bytes
    urgency: Urgency
    deadline: datetime | None
    state: State = "pending"
    until: datetime | None = None  # if deferred: no reminder before this time
    answer: Answer | None = None
    repeats: int = 0
    joined: tuple[str, ...] = ()  # ids of repeated proposals
    valid_until: datetime | None = None  # if approved: when the approval expires
    used: str = ""  # the id of the proposal that used the approval
    used_digest: str = ""
    claimant: str | None = None
    lapsed: bool = False
    lost: tuple[str, ...] = ()  # ids that now belong to another request
    ends_t: float | None = None  # when it expires, by the steady clock
    opened: str = ""  # id of the first proposal, if another one has taken the request over
    change: KeptChange | None = None  # the commit of the action, if any
    once: bool = False  # if denied: the agent may request the action again
    rule: DeadlineRule = ""  # the rule that set the deadline

    @property
    def agent(self) -> str:
        return self.asked.agent

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its proposals, starting with the first."""
        used = (self.used,) if self.used else ()
        ids = (self.asked.id, *self.joined, *used)
        return tuple(id_ for id_ in ids if id_ not in self.lost) if self.lost else ids

    def digest_of(self, id_: str) -> str:
        """Return the digest of the approved proposal with this id."""
        return self.used_digest if id_ == self.used and self.used_digest else self.asked.digest

    @property
    def pending(self) -> bool:
        return self.state == "pending"

    @property
    def unused(self) -> bool:
        """True if it was approved and the approval can still be used."""
        return self.state == "approved" and not self.used and not self.lapsed

    @property
    def ends(self) -> datetime | None:
        """When the request or its unused approval expires."""
        if self.pending:
            return self.deadline
        return self.valid_until if self.unused else None

    def over(self, at: datetime, t: float) -> bool:
        """Return whether the time to answer the request, or to use its approval, is over.

        It is over if either clock says so: the steady clock stops while the daemon does not run,
        and the wall clock can be set back.
        """
        wall = self.deadline if self.pending else self.valid_until
        steady = self.ends_t
        return (wall is not None and at >= wall) or (steady is not None and t >= steady)

    @property
    def closing(self) -> str:
        """Why it was closed without an answer, or will be, and how to ask again."""
        lasted = timedelta() if self.deadline is None else self.deadline - self.asked.at
        return closing(self.rule, lasted.total_seconds(), deferred=self.until is not None)

    @property
    def pauses(self) -> str:
        """The source of a pause that an approval clears, if any."""
        if self.own:
            return "anomaly"
        return "budget" if "budget.session" in self.rules else ""

    @property
    def gives(self) -> str:
        """A sentence that says what an approval permits besides the action, or an empty string."""
        if self.pauses == "budget":
            return "Approval also ends the pause and grants the session the same budget again"
        if (also := self.remembers) is None:
            return ""
        return (
            f"Approval also covers further calls of {also.program} by {self.agent} in "
            f"{also.folder}, with no other options, for {also.hours:g} h"
        )

    @property
    def remembers(self) -> RememberedProgram | None:
        """The program whose further calls an approval also covers, if any."""
        return None if self.asked.asks is None else self.asked.asks.remembers

    @property
    def own(self) -> bool:
        """True if safetyd itself asks to end a pause. Agents can propose the same type."""
        return self.asked.type == UNPAUSE and self.asked.id == self.id

    @property
    def shown(self) -> Proposal:
        """The proposal. For a permission request, with the project and folder from its context."""
        proposal = self.asked.proposal
        return as_shown(proposal) if self.asked.permission else proposal

    def answered_by(self, event: Event) -> bool:
        """Return whether this event closed the request. Only the first answer counts."""
        answer = self.answer
        if answer is None or answer.at != event.at:
            return False
        if isinstance(event, Answered):
            said = event.answer, event.by, event.via
            return said == (self.state, answer.by, answer.via)
        return self.state == _ENDS.get(type(event))

    @property
    def denied_until(self) -> datetime | None:
        """Return the time until which the same action is denied automatically, or None.

        If an operator denies a budget or the end of a pause, the action itself is not denied.
        """
        if self.state != "denied" or self.answer is None or self.once or self.pauses:
            return None
        return self.answer.at + DENIED_FOR

    def covers(self, action: bytes, proposed: Proposed) -> bool:
        """Return whether a proposal is the action that the operator saw.

        A permission request covers later proposals of the action that it showed.
        """
        seen, proposal = self.asked.proposal, proposed.proposal
        if self.asked.permission and action != self.action:
            return self.asked.resolved == proposed.resolved and permits(seen, proposal)
        return action == self.action and no_dearer(seen, proposal)

    @property
    def rules(self) -> frozenset[str]:
        """The rules that the operator saw. An approval lifts exactly these."""
        return frozenset(r for v in self.asked.verdicts for r in (v.rule, *v.also))


def request_id(agent: str, id_: str, seq: int) -> str:
    """Return the id of a request. It is the same on every replay."""
    name = f"{agent}\0{id_}\0{seq}".encode()
    return f"req_{hashlib.sha256(name).hexdigest()[:12]}"


def unpause(event: Paused) -> Request:
    """Return the request to end a pause. It has no deadline."""
    id_ = request_id(event.agent, UNPAUSE, event.seq)
    said = f"{event.reason}. Usual is {event.usual}." if event.usual else event.reason
    proposal = Proposal(type=UNPAUSE, id=id_, description=said)
    verdict = Verdict("pause", ASK, "pause.anomaly", event.reason)
    asked = Decided(
        seq=event.seq,
        at=event.at,
        t=event.t,
        agent=event.agent,
        proposal=proposal,
        digest=digest(event.agent, {"type": UNPAUSE, "description": said}),
        decision=ASK,
        type=UNPAUSE,
        tier="requires_permission",
        reversibility="reversible",
        risk="high",
        verdicts=(verdict,),
    )
    return Request(id=id_, asked=asked, action=UNPAUSE.encode(), urgency="normal", deadline=None)


def urgency_of(
    proposal: Proposal, kind: Kind, deadline: datetime | None, at: datetime, urgent_cost_usd: float
) -> Urgency:
    """Return the urgency that the agent stated, raised by at most one step.

    It is raised for risky, expensive and live actions, and if the agent waits only briefly.
    """
    if proposal.urgency == "low":
        return "normal" if kind.risk in {"high", "prohibited"} else "low"
    if proposal.urgency == "high":
        return "high"
    soon = proposal.wait and deadline is not None and _seconds(deadline, at) <= URGENT_WAIT_S
    dear = urgent_cost_usd > 0 and (proposal.cost_usd or 0.0) >= urgent_cost_usd
    live = kind.type in _OPERATES and any(map(_LIVE.search, _words(proposal)))
    return "high" if soon or dear or live else "normal"


def size_of(proposal: Proposal) -> int:
    """Return the size of a proposal in bytes of JSON."""
    return len(msgspec.json.encode(proposal))


def _seconds(deadline: datetime, at: datetime) -> float:
    return (deadline - at).total_seconds()


def _words(proposal: Proposal) -> Sequence[str]:
    target = proposal.target
    named = () if target is None else (target.label, target.name, target.app, target.url)
    return (proposal.text, *named, *proposal.paths)
