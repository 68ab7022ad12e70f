"""What happens to proposals and actions: proposed, decided, reported, settled; and to sessions."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier, Tokens, Urgency
from safetyd.core.messages.telemetry import AnyTelemetry
from safetyd.core.messages.transcript import Transcript
from safetyd.core.messages.verdict import Cause, Severity, Verdict


class Proposed(Event, kw_only=True, tag="proposed"):
    """An agent asks. It is written down inside its `Decided`."""

    lasting = False

    agent: str
    proposal: Proposal
    digest: str
    keyless: bool = False
    priced_nano: int | None = None  # what its tokens cost, in nano-dollars
    resolved: tuple[str, ...] = ()  # where its paths lead, if elsewhere than they say
    permission: bool = False  # the agent asks for a person, whatever the guards think

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # intake gives every proposal an id


class Asking(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The request that a decision opens, or joins if it is open already."""

    request_id: str
    action: bytes  # its action key, taken before anything is masked
    urgency: Urgency = "normal"
    deadline: datetime | None = None
    joins: bool = False  # it was open already
    takes_over: bool = False  # and is now of this proposal, which waits for the answer


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
    """Allowed actions whose outcomes did not come in time or will not, or that are too many."""

    agent: str
    ids: tuple[str, ...]
