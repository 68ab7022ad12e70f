"""Events of proposals, actions and sessions."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier, Tokens, Urgency
from safetyd.core.messages.telemetry import AnyTelemetry
from safetyd.core.messages.transcript import Transcript
from safetyd.core.messages.verdict import Cause, Severity, Verdict

# The rule that set a deadline. It is empty in older journals.
DeadlineRule = Literal["", "stated", "waiting", "queued", "urgent", "longest", "renewed"]


class Proposed(Event, kw_only=True, tag="proposed"):
    """An agent proposes an action. The journal stores this as part of the `Decided` event."""

    lasting = False

    agent: str
    proposal: Proposal
    digest: str
    keyless: bool = False
    priced_nano: int | None = None  # The price of its tokens, in nano-dollars.
    resolved: tuple[str, ...] = ()  # The resolved paths, if they differ from those proposed.
    changed: tuple[str, ...] = ()  # Those of the resolved paths that a command writes or deletes.
    permission: bool = False  # True: a permission request, which always needs approval.
    host: str = ""  # The coding agent whose hook proposed it.

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # every accepted proposal has an id


class RememberedProgram(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A program whose further calls an approval also covers."""

    program: str  # With its subcommand.
    folder: str  # The project.
    hours: float  # How long the approval covers them.
    words: tuple[str, ...] = ()  # The words of the calls that the request shows.


class Asking(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The request that a decision opens or joins."""

    request_id: str
    action: bytes  # The key of the action, computed before secrets are masked.
    urgency: Urgency = "normal"
    deadline: datetime | None = None
    rule: DeadlineRule = ""  # The rule that set the deadline.
    # When somebody who may answer can be notified, if nobody can be now.
    reachable_from: datetime | None = None
    joins: bool = False  # True: the request was already open.
    # True: this proposal waits for the answer, and the request now belongs to it.
    takes_over: bool = False
    # The program whose further calls an approval also covers.
    remembers: RememberedProgram | None = None


class Using(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The approval that an allowed action uses."""

    request_id: str
    by: str
    until: datetime
    words: str = ""


class Decided(Event, kw_only=True, omit_defaults=True, tag="decided"):
    agent: str
    proposal: Proposal
    digest: str
    decision: Severity
    type: str  # The action type, with aliases resolved.
    tier: Tier
    reversibility: Reversibility
    risk: Risk
    keyless: bool = False
    priced_nano: int | None = None  # The price of its tokens at that time, in nano-dollars.
    # The verdicts that restrict the action, in the order of the guards.
    verdicts: tuple[Verdict, ...] = ()
    first: bool = True  # False: a dry run or a repeated id, which uses no limit or budget.
    permission: bool = False  # True: a permission request, which always needs approval.
    asks: Asking | None = None
    uses: Using | None = None
    # Grants that lifted a verdict. If the action is allowed, each of them is used once.
    grants: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()  # The resolved paths, if they differ from those proposed.
    changed: tuple[str, ...] = ()  # Those of the resolved paths that a command writes or deletes.
    host: str = ""  # The coding agent whose hook proposed it.

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # every accepted proposal has an id

    @property
    def stranger(self) -> bool:
        """True if the proposal exceeded a limit on names. Such names are not remembered."""
        return any(verdict.guard == "keys" for verdict in self.verdicts)


class Refused(Event, kw_only=True, omit_defaults=True, tag="refused"):
    """Refused messages that are only counted: one event per agent and cause every 10 s."""

    agent: str
    cause: Cause
    count: int
    example: str


class Withheld(Event, kw_only=True, tag="withheld"):
    """The decision to allow an action was journalled, but not sent to the agent."""

    agent: str
    id: str
    why: Literal["stopped", "late"]


class Reported(Event, kw_only=True, omit_defaults=True, tag="reported"):
    agent: str
    telemetry: AnyTelemetry
    keyless: bool = False
    priced_nano: int | None = None  # The price of an outcome's tokens, in nano-dollars.
    host: str = ""  # The coding agent whose hook reported it.
    # The price of its tokens if a coding agent stated the cost, which then counts instead.
    tokens_nano: int | None = None


class SessionClosed(Event, kw_only=True, tag="session_closed"):
    """A session was ended by its agent, or was idle too long. The implicit session is called ""."""

    agent: str
    session: str
    why: Literal["ended", "idle"]


class Transcribed(Event, kw_only=True, tag="transcribed"):
    """The transcript of a session that ended."""

    transcript: Transcript


class Settled(Event, kw_only=True, omit_defaults=True, tag="settled"):
    """An outcome that counts: the first of an allowed proposal, or one without a proposal.

    Some fields are copied from the proposal. If there was no proposal, `id` is None.
    """

    agent: str
    ok: bool
    id: str | None = None
    type: str = ""  # The action type, with aliases resolved.
    session: str = ""
    chain: str | None = None
    task: str | None = None
    model: str | None = None
    dependency: str | None = None  # From the outcome, or else from the proposal.
    # True: the action failed, and the outcome names the dependency that failed.
    failed_dependency: bool = False
    cost_usd: float | None = None
    tokens: Tokens | None = None
    priced_nano: int | None = None
    latency_ms: float | None = None
    files_changed: int | None = None
    # When the proposal was allowed, by the steady clock, in seconds.
    allowed_t: float | None = None
    keyless: bool = False
    host: str = ""  # The coding agent whose hook reported it.
    # The price of its tokens if a coding agent stated the cost, which then counts instead.
    tokens_nano: int | None = None


class Overdue(Event, kw_only=True, tag="overdue"):
    """safetyd no longer expects outcomes of these allowed actions.

    The outcomes are too late, the agent reported that there will be none, or the agent has too many
    open actions.
    """

    agent: str
    ids: tuple[str, ...]
    said: bool = False  # the agent reported that there will be none
