"""Events of requests and grants.

Events that are not `lasting` follow from journalled events; a replay creates them again.
"""

from datetime import datetime
from typing import Literal

from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.messages.binding import Seen
from safetyd.core.messages.verdict import Verdict


class Answered(Event, kw_only=True, omit_defaults=True, tag="answered"):
    """An operator approved or denied a request. `words` are sent to the agent."""

    request_id: str
    agent: str
    id: str  # of the proposal
    answer: Literal["approved", "denied"]
    by: str
    via: str
    words: str = ""
    digest: str = ""  # of what the operator saw
    waits: bool = False  # the agent waits, so the decision is sent to it at once
    assurance: str = ""  # by link: how the operator was identified: button, code or device
    delivery: str = ""  # the message that the link or code was in
    peer: str = ""  # the address and browser that it came from
    once: bool = False  # denied: the agent may request the same again at once


class Released(Event, kw_only=True, omit_defaults=True, tag="released"):
    """The guards judged an approved action again. `verdicts` are those that still block it."""

    request_id: str
    agent: str
    id: str
    verdicts: tuple[Verdict, ...] = ()
    waits: bool = False


class Expired(Event, kw_only=True, tag="expired"):
    """Nobody answered in time."""

    request_ids: tuple[str, ...]


class EscalationDenied(Event, kw_only=True, tag="escalation_denied"):
    """A request to end a pause was denied or expired."""

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
    """The agent replaced the request with another one."""

    request_id: str
    agent: str
    by_id: str


class Deferred(Event, kw_only=True, tag="deferred"):
    """An operator postponed a request: no reminder before `until`, and a later deadline."""

    request_id: str
    by: str
    until: datetime


class DenialLifted(Event, kw_only=True, tag="denial_lifted"):
    """An operator allows an agent to request a denied action again."""

    request_id: str
    agent: str
    by: str


class Claimed(Event, kw_only=True, tag="claimed"):
    """An agent claimed an approved action; no other may execute it."""

    request_id: str
    agent: str
    id: str
    claimant: str


class Lapsed(Event, kw_only=True, tag="lapsed"):
    """Approvals that expired unused."""

    request_ids: tuple[str, ...]


class Granted(Event, kw_only=True, omit_defaults=True, tag="granted"):
    """An operator approved a kind of action in advance, for a limited time.

    A grant made from a request lifts the `rules` that were shown. Others lift the rule that they
    name, or what the type table requires.
    """

    id: str
    agent: str
    by: str
    via: str
    reason: str
    uses: int
    until: datetime
    request_id: str = ""
    type: str | None = None  # after aliases
    project: str | None = None  # of the request that it was made from
    rules: tuple[str, ...] = ()
    text: str | None = None  # RE2
    paths: tuple[str, ...] = ()  # globs
    max_usd: float | None = None
    keyed: bool = False  # its agent had a key; an anonymous agent of the same name is another
    seen: Seen | None = None  # of the request that it was made from: exactly this again
    program: str = ""  # with its subcommand: commands in which nothing else is unknown
    session: str | None = None  # only in this session

    @property
    def wide(self) -> bool:
        """Whether it accepts any text of an agent."""
        return self.text is None and self.seen is None and not self.program


class GrantUsed(Event, kw_only=True, omit_defaults=True, tag="grant_used"):
    """A proposal was allowed because of a grant."""

    grant: str
    agent: str
    id: str  # of the proposal
    left: int  # uses
    cost_nano: int = 0


class GrantRevoked(Event, kw_only=True, omit_defaults=True, tag="grant_revoked"):
    grant: str
    agent: str
    by: str
    reason: str = ""


class GrantEnded(Event, kw_only=True, tag="grant_ended"):
    """Grants that expired. A used-up grant ends with its last `GrantUsed`."""

    grants: tuple[str, ...]


class Approved(Event, kw_only=True, tag="approved"):
    """An approval was recorded. The guards now judge the action again."""

    lasting = False

    request_id: str
    waits: bool = False


class Allowed(Event, kw_only=True, tag="allowed"):
    """An approved action starts. It follows from journalled events."""

    lasting = False

    decided: Decided  # as if it were allowed now


class Dropped(Event, kw_only=True, tag="dropped"):
    """A proposal is no longer pending: its request ended or was approved.

    It follows from journalled events.
    """

    lasting = False

    agent: str
    id: str
