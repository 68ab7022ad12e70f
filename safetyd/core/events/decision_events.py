"""Events of proposals, actions and sessions."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier, Tokens, Urgency
from safetyd.core.messages.telemetry import AnyTelemetry
from safetyd.core.messages.transcript import Transcript
from safetyd.core.messages.verdict import Cause, Severity, Verdict


class Proposed(Event, kw_only=True, tag="proposed"):
    """An agent proposes an action. It is journalled as part of its `Decided`."""

    lasting = False

    agent: str
    proposal: Proposal
    digest: str
    keyless: bool = False
    priced_nano: int | None = None  # what its tokens cost, in nano-dollars
    resolved: tuple[str, ...] = ()  # its resolved paths, if they differ
    permission: bool = False  # a permission request, which needs approval in any case

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # every accepted proposal has an id


class Asking(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The request that a decision opens or joins."""

    request_id: str
    action: bytes  # its action key, computed before masking
    urgency: Urgency = "normal"
    deadline: datetime | None = None
    joins: bool = False  # it was open before
    takes_over: bool = False  # this proposal waits for the answer and takes it over


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
    type: str  # after aliases
    tier: Tier
    reversibility: Reversibility
    risk: Risk
    keyless: bool = False
    priced_nano: int | None = None  # recorded, because prices change
    verdicts: tuple[Verdict, ...] = ()  # restricting verdicts, in chain order
    first: bool = True  # False: a dry run or a repeated id, which consumes nothing
    permission: bool = False  # a permission request, which needs approval in any case
    asks: Asking | None = None
    uses: Using | None = None
    grants: tuple[str, ...] = ()  # that lifted a verdict; an allow uses each once
    resolved: tuple[str, ...] = ()  # its resolved paths, if they differ

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # every accepted proposal has an id

    @property
    def stranger(self) -> bool:
        """Whether it exceeded a limit on names. Such names are not remembered."""
        return any(verdict.guard == "keys" for verdict in self.verdicts)


class Refused(Event, kw_only=True, omit_defaults=True, tag="refused"):
    """Refusals that are only counted: one event per agent, cause and 10 s."""

    agent: str
    cause: Cause
    count: int
    example: str


class Withheld(Event, kw_only=True, tag="withheld"):
    """An allow that was journalled but not sent."""

    agent: str
    id: str
    why: Literal["stopped", "late"]


class Reported(Event, kw_only=True, omit_defaults=True, tag="reported"):
    agent: str
    telemetry: AnyTelemetry
    keyless: bool = False
    priced_nano: int | None = None  # what an outcome's tokens cost, in nano-dollars


class SessionClosed(Event, kw_only=True, tag="session_closed"):
    """A session ended: by its agent, or because it was idle. The implicit one is called ""."""

    agent: str
    session: str
    why: Literal["ended", "idle"]


class Transcribed(Event, kw_only=True, tag="transcribed"):
    """The transcript of a session that ended."""

    transcript: Transcript


class Settled(Event, kw_only=True, omit_defaults=True, tag="settled"):
    """An outcome that counts: the first of an allowed proposal, or one without a proposal.

    It repeats fields of the proposal. Without a proposal, `id` is None.
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
    """Allowed actions without an outcome: it was late, will not come, or there are too many."""

    agent: str
    ids: tuple[str, ...]
