"""Events of requests and grants.

Events that are not `lasting` follow from journalled events; a replay creates them again.
"""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.messages.binding import Seen
from safetyd.core.messages.verdict import Verdict


class Answered(Event, kw_only=True, omit_defaults=True, tag="answered"):
    """An operator approved or denied a request. `words` are sent to the agent."""

    request_id: str
    agent: str
    id: str  # The id of the proposal.
    answer: Literal["approved", "denied"]
    by: str
    via: str
    words: str = ""
    digest: str = ""  # The digest of the proposal that the operator saw.
    waits: bool = False  # True: the agent waits, so it receives the decision immediately.
    assurance: str = ""  # How a link identified the operator: button, code or device.
    delivery: str = ""  # The message that contained the link or code.
    peer: str = ""  # The address and browser that the answer came from.
    once: bool = False  # True: after this denial, the agent may request the action again.
    moved: str = ""  # Why the action is no longer the one that the operator saw.


class Released(Event, kw_only=True, omit_defaults=True, tag="released"):
    """The guards judged an approved action again. `verdicts` still restrict it."""

    request_id: str
    agent: str
    id: str
    verdicts: tuple[Verdict, ...] = ()
    waits: bool = False


class Expired(Event, kw_only=True, tag="expired"):
    """Nobody answered in time."""

    request_ids: tuple[str, ...]
    # For each request, the rule that closed it and how to ask again. Empty in older journals.
    reasons: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()  # The agent of each request. Empty in older journals.

    @property
    def agent(self) -> str | None:
        """Return the agent if all requests are of one agent."""
        return self.agents[0] if len(set(self.agents)) == 1 else None


class EscalationDenied(Event, kw_only=True, tag="escalation_denied"):
    """A request was denied or expired."""

    agent: str
    request_id: str
    source: str  # The source of the pause that stays; empty if the request was for an action.
    why: str  # Either denied or expired.


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
    """An agent claimed an approved action. No other claimant may execute it."""

    request_id: str
    agent: str
    id: str
    claimant: str


class Lapsed(Event, kw_only=True, tag="lapsed"):
    """Approvals expired unused."""

    request_ids: tuple[str, ...]


class Learned(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The past answers that a grant was suggested for. A denial of the shape ends the grant."""

    suggestion: str  # The id of the suggestion.
    shape: str  # The command with placeholders for parts that may differ.
    approved: int  # How many requests were approved, and since when.
    since: datetime


class Granted(Event, kw_only=True, omit_defaults=True, tag="granted"):
    """An operator approved a kind of action in advance, for a limited time.

    A grant made from a request lifts the `rules` that the operator saw. Other grants lift the rule
    that they name, or else the approval that the type table requires.
    """

    id: str
    agent: str
    by: str
    via: str
    reason: str
    uses: int
    until: datetime
    request_id: str = ""
    type: str | None = None  # The action type, with aliases resolved.
    project: str | None = None  # The project of the request that the grant was made from.
    rules: tuple[str, ...] = ()
    text: str | None = None  # An RE2 pattern that all texts must match.
    paths: tuple[str, ...] = ()  # Globs that all paths must match.
    max_usd: float | None = None
    # True: the agent had a key. The grant does not cover an anonymous agent of the same name.
    keyed: bool = False
    seen: Seen | None = None  # The exact action of the request that the grant was made from.
    # A program with its subcommand. The grant covers commands in which nothing else needs approval.
    program: str = ""
    session: str | None = None  # The only session in which the grant applies.
    folder: str = ""  # The only project folder in which it applies, for coding agents.
    learned: Learned | None = None  # Set if it was suggested after many approvals.
    # The words of the calls of the program that the operator saw. Other options are not covered.
    words: tuple[str, ...] = ()

    @property
    def wide(self) -> bool:
        """True if the grant accepts any text."""
        return self.text is None and self.seen is None and not self.program


class GrantUsed(Event, kw_only=True, omit_defaults=True, tag="grant_used"):
    """A proposal was allowed because of a grant."""

    grant: str
    agent: str
    id: str  # The id of the proposal.
    left: int  # How many uses remain.
    cost_nano: int = 0


class GrantRevoked(Event, kw_only=True, omit_defaults=True, tag="grant_revoked"):
    """An operator revoked a grant, or denied a request like those that it was suggested for."""

    grant: str
    agent: str
    by: str
    reason: str = ""
    request_id: str = ""  # The denied request that ended the grant.


class GrantEnded(Event, kw_only=True, tag="grant_ended"):
    """Grants expired. A used-up grant ends with its last `GrantUsed` event instead."""

    grants: tuple[str, ...]


class Approved(Event, kw_only=True, tag="approved"):
    """An approval was recorded. The guards now judge the action again."""

    lasting = False

    request_id: str
    waits: bool = False
    moved: str = ""  # Why the action is no longer the one that the operator saw.


class Allowed(Event, kw_only=True, tag="allowed"):
    """An approved action starts. It follows from journalled events."""

    lasting = False

    decided: Decided  # The decision, as if the action were allowed now.


class Dropped(Event, kw_only=True, tag="dropped"):
    """A proposal is no longer pending: its request ended or was approved.

    It follows from journalled events.
    """

    lasting = False

    agent: str
    id: str
