"""Everything that can happen; `lines.py` makes one tagged union of it, the journal's format.

`Proposed` and `Ticked` only go in; all others are journalled, and replaying them rebuilds every
actor. `at` is wall time for people and deadlines, `t` is steady seconds for windows and gaps.
"""

from datetime import datetime
from typing import ClassVar, Literal

import msgspec

from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier, Tokens, Urgency
from safetyd.core.messages.telemetry import AnyTelemetry
from safetyd.core.messages.transcript import Transcript
from safetyd.core.messages.verdict import Cause, Severity, Verdict


class Moment(msgspec.Struct, frozen=True, gc=False):
    at: datetime
    t: float


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="event"):
    """Something that happened. The engine gives it its `seq`; nobody changes it after that."""

    lasting: ClassVar[bool] = True

    seq: int = 0
    at: datetime
    t: float


class Proposed(Event, kw_only=True, tag="proposed"):
    """An agent asks. It is written down inside its `Decided`."""

    lasting = False

    agent: str
    proposal: Proposal
    digest: str
    keyless: bool = False
    priced_nano: int | None = None  # what its tokens cost, in nano-dollars
    resolved: tuple[str, ...] = ()  # where its paths lead, if elsewhere than they say

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # intake gives every proposal an id


class Ticked(Event, kw_only=True, tag="ticked"):
    """Time passed. Actors answer with events and change on those, never on the tick."""

    lasting = False


class Asking(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The request that a decision opens, or joins if it is open already."""

    request_id: str
    action: bytes  # its action key, taken before anything is masked
    urgency: Urgency = "normal"
    deadline: datetime | None = None
    joins: bool = False  # it was open already


class Using(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The approval that an allow uses up."""

    request_id: str
    by: str
    until: datetime
    words: str = ""


class Decided(Event, kw_only=True, omit_defaults=True, tag="decided"):
    agent: str
    proposal: Proposal
    digest: str
    decision: Severity
    type: str  # after aliases
    tier: Tier
    reversibility: Reversibility
    risk: Risk
    keyless: bool = False
    priced_nano: int | None = None  # fixed here, because prices change
    verdicts: tuple[Verdict, ...] = ()  # the guards that restricted, in chain order
    first: bool = True  # False: a dry run or the repeat of an id, which takes nothing
    permission: bool = False  # the agent asked for a person, whatever the guards think
    asks: Asking | None = None
    uses: Using | None = None
    grants: tuple[str, ...] = ()  # that lifted something; an allow uses each of them once
    resolved: tuple[str, ...] = ()  # where its paths led, if elsewhere than they say

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # intake gives every proposal an id

    @property
    def stranger(self) -> bool:
        """Whether its agent's name, or a word of it, was one too many: nobody remembers those."""
        return any(verdict.guard == "keys" for verdict in self.verdicts)


class Refused(Event, kw_only=True, omit_defaults=True, tag="refused"):
    """Answers that left without a line of their own: one of these per agent, cause and 10 s."""

    agent: str
    cause: Cause
    count: int
    example: str


class Withheld(Event, kw_only=True, tag="withheld"):
    """An allow that was written down and then not sent."""

    agent: str
    id: str
    why: Literal["stopped", "late"]


class Reported(Event, kw_only=True, omit_defaults=True, tag="reported"):
    agent: str
    telemetry: AnyTelemetry
    keyless: bool = False
    priced_nano: int | None = None  # what an outcome's tokens cost, in nano-dollars


class Stopped(Event, kw_only=True, omit_defaults=True, tag="stopped"):
    """Nobody may act, or one agent may not, until every source is cleared."""

    source: str  # "operator", "anomaly", "environment" or "file:<path>"
    by: str
    reason: str = ""
    agent: str | None = None
    epoch: int


class Resumed(Event, kw_only=True, omit_defaults=True, tag="resumed"):
    sources: tuple[str, ...]
    by: str
    reason: str = ""
    agent: str | None = None
    epoch: int


class Forgotten(Event, kw_only=True, omit_defaults=True, tag="forgotten"):
    """An operator reset an agent's loop visits."""

    agent: str
    by: str
    session: str | None = None
    episode: str | None = None


class SessionClosed(Event, kw_only=True, tag="session_closed"):
    """A session is over: its agent said so, or fell silent. The implicit one is called ""."""

    agent: str
    session: str
    why: Literal["ended", "idle"]


class Transcribed(Event, kw_only=True, tag="transcribed"):
    """What a session did, told once it is over."""

    transcript: Transcript


class Settled(Event, kw_only=True, omit_defaults=True, tag="settled"):
    """An outcome counts: the first for an allowed proposal, or one that names no proposal.

    What the proposal said of itself is repeated here; `id` is None if it names none.
    """

    agent: str
    ok: bool
    id: str | None = None
    type: str = ""  # after aliases
    session: str = ""
    chain: str | None = None
    task: str | None = None
    model: str | None = None
    dependency: str | None = None  # the outcome's own, else the proposal's
    failed_dependency: bool = False  # not ok, and the outcome names the dependency that failed
    cost_usd: float | None = None
    tokens: Tokens | None = None
    priced_nano: int | None = None
    latency_ms: float | None = None
    files_changed: int | None = None
    allowed_t: float | None = None  # when its proposal was allowed
    keyless: bool = False


class Overdue(Event, kw_only=True, tag="overdue"):
    """Allowed actions whose outcomes nobody reported in time, or of which there are too many."""

    agent: str
    ids: tuple[str, ...]


class Answered(Event, kw_only=True, omit_defaults=True, tag="answered"):
    """A person approved or denied a request; `words` go back to the agent."""

    request_id: str
    agent: str
    id: str  # of the proposal
    answer: Literal["approved", "denied"]
    by: str
    via: str
    words: str = ""
    digest: str = ""  # of what the person saw
    waits: bool = False  # the agent does, so an allow goes straight to it
    assurance: str = ""  # by link: what showed that it is this person: button, code or device
    delivery: str = ""  # the message that the link or code was in
    peer: str = ""  # the address and browser that it came from


class Released(Event, kw_only=True, omit_defaults=True, tag="released"):
    """The guards looked again after an approval: it may be done, or `verdicts` hold it back."""

    request_id: str
    agent: str
    id: str
    verdicts: tuple[Verdict, ...] = ()
    waits: bool = False


class Expired(Event, kw_only=True, tag="expired"):
    """Nobody answered in time."""

    request_ids: tuple[str, ...]


class EscalationDenied(Event, kw_only=True, tag="escalation_denied"):
    """What a severe anomaly or a used-up budget asked of people was denied, or nobody answered."""

    agent: str
    request_id: str
    source: str  # of the pause that stays
    why: str  # denied or expired


class Cancelled(Event, kw_only=True, omit_defaults=True, tag="cancelled"):
    request_id: str
    by: str
    via: str
    reason: str = ""


class Superseded(Event, kw_only=True, tag="superseded"):
    """The agent asks something else instead."""

    request_id: str
    agent: str
    by_id: str


class Deferred(Event, kw_only=True, tag="deferred"):
    """Nobody is reminded before `until`, and the deadline moves along."""

    request_id: str
    by: str
    until: datetime


class Claimed(Event, kw_only=True, tag="claimed"):
    """Somebody is about to do what was approved, and nobody else may."""

    request_id: str
    agent: str
    id: str
    claimant: str


class Lapsed(Event, kw_only=True, tag="lapsed"):
    """Approvals that nobody used in their time."""

    request_ids: tuple[str, ...]


class Paused(Event, kw_only=True, omit_defaults=True, tag="paused"):
    """One agent may not act until every source is cleared."""

    agent: str
    source: Literal["operator", "anomaly", "budget"]
    by: str
    reason: str = ""


class Unpaused(Event, kw_only=True, omit_defaults=True, tag="unpaused"):
    agent: str
    sources: tuple[str, ...]
    by: str
    reason: str = ""
    approved: bool = False  # a person approved what had met the limit, so that rises


class SafeModeEntered(Event, kw_only=True, omit_defaults=True, tag="safe_mode_entered"):
    """Only reading is allowed: one agent, all without a key, or everybody if `agent` is None."""

    by: str  # an operator's name, or "safetyd"
    agent: str | None = None
    reason: str = ""
    errors: int = 0


class SafeModeExited(Event, kw_only=True, omit_defaults=True, tag="safe_mode_exited"):
    by: str
    agent: str | None = None
    reason: str = ""
    forced: bool = False


class BreakerMoved(Event, kw_only=True, omit_defaults=True, tag="breaker_moved"):
    breaker: str  # "api.openai.com", "api.openai.com/code" for one agent, "code:t-3" for a task
    state: Literal["closed", "half_open", "open"]
    reason: str
    agent: str | None = None
    keyless: bool = False  # it is for agents without a key; for all of them if `agent` is None
    failed: str = ""  # the agent whose probe failed or was late


class BudgetMarked(Event, kw_only=True, omit_defaults=True, tag="budget_marked"):
    """A budget first came near its limit, or first refused. Amounts are US dollars."""

    mark: Literal["warning", "exceeded"]
    scope: str
    id: str
    spent: float
    reserved: float
    limit: float
    estimate: float
    agent: str | None = None


class BudgetRaised(Event, kw_only=True, omit_defaults=True, tag="budget_raised"):
    """An operator permits so many US dollars more until the UTC day is over."""

    scope: Literal["day", "agent", "keyless", "model"]
    usd: float
    by: str
    reason: str
    id: str = ""  # the agent's or the model's name


class AnomalyFound(Event, kw_only=True, omit_defaults=True, tag="anomaly_found"):
    """A detector's condition began to hold."""

    rule: str
    severity: Literal["low", "medium", "high", "critical"]
    message: str
    agent: str | None = None
    breaker: str | None = None


class PersonSeen(Event, kw_only=True, tag="person_seen"):
    """Somebody did something that only a person does."""

    by: str
    how: str


class KeysChanged(Event, kw_only=True, tag="keys_changed"):
    """Who may connect has changed; each entry is a role, a name and a public key."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    by: str


class ConfigRejected(Event, kw_only=True, tag="config_rejected"):
    errors: tuple[str, ...]


class ClockStepped(Event, kw_only=True, tag="clock_stepped"):
    seconds: float


class AuditRecovered(Event, kw_only=True, tag="audit_recovered"):
    """A torn last line was cut off the audit file."""

    file: str
    torn_bytes: int
    torn_sha256: str


class SafetyEvent(Event, kw_only=True, omit_defaults=False, tag="safety_event"):
    """What people, logs and dashboards are told; `seq`, `at` and `t` are the journal's."""

    id: str
    timestamp: datetime
    event_type: str
    agent_id: str | None = None
    model_id: str | None = None
    breaker_id: str | None = None
    cost_snapshot: dict[str, float | str] | None = None
    reason: str
    metadata: dict[str, str | int | float | bool | None]
