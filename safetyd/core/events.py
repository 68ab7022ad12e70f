"""Everything that can happen; `lines.py` makes one tagged union of it, the journal's format.

`Proposed` and `Ticked` only go in; all others are journalled, and replaying them rebuilds every
actor. `at` is wall time for people and deadlines, `t` is steady seconds for windows and gaps.
"""

from datetime import datetime
from typing import ClassVar, Literal

import msgspec

from safetyd.core.proposal import Proposal, Reversibility, Risk, Tier
from safetyd.core.telemetry import AnyTelemetry
from safetyd.core.verdict import Cause, Severity, Verdict


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

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # intake gives every proposal an id


class Ticked(Event, kw_only=True, tag="ticked"):
    """Time passed. Actors answer with events and change on those, never on the tick."""

    lasting = False


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
    verdicts: tuple[Verdict, ...] = ()  # the guards that restricted, in chain order
    first: bool = True  # False: a dry run or the repeat of an id, which takes nothing

    @property
    def id(self) -> str:
        return self.proposal.id or ""  # intake gives every proposal an id


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
