"""What happens to requests and grants.

Those that are not lasting follow from written events and are never written down: replay makes them
again.
"""

from datetime import datetime
from typing import Literal

from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.messages.binding import Seen
from safetyd.core.messages.verdict import Verdict


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
    once: bool = False  # denied: the agent may ask for the same again at once


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


class DenialLifted(Event, kw_only=True, tag="denial_lifted"):
    """A person lets an agent ask again for what was denied."""

    request_id: str
    agent: str
    by: str


class Claimed(Event, kw_only=True, tag="claimed"):
    """Somebody is about to do what was approved, and nobody else may."""

    request_id: str
    agent: str
    id: str
    claimant: str


class Lapsed(Event, kw_only=True, tag="lapsed"):
    """Approvals that nobody used in their time."""

    request_ids: tuple[str, ...]


class Granted(Event, kw_only=True, omit_defaults=True, tag="granted"):
    """A person permits a kind of action for a while, so that nobody is asked about it.

    Made from a request it lifts the `rules` that were shown; else the one rule that is named, or
    what the table of types asks.
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
    keyed: bool = False  # its agent had a key: whoever has the name without one is another
    seen: Seen | None = None  # of the request that it was made from: this again, and nothing else
    program: str = ""  # with its verb: commands in which nothing else is unknown
    session: str | None = None  # it holds in this one alone

    @property
    def wide(self) -> bool:
        """Whether any words of an agent pass by it."""
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
    """The time of these is over. One that is used up ends with its last `GrantUsed`."""

    grants: tuple[str, ...]


class Approved(Event, kw_only=True, tag="approved"):
    """An approval landed, and what it sets off at once is done: the guards are asked again."""

    lasting = False

    request_id: str
    waits: bool = False


class Allowed(Event, kw_only=True, tag="allowed"):
    """What a person approved is about to be done. It follows from what is written down."""

    lasting = False

    decided: Decided  # as if it had been allowed at once, now


class Dropped(Event, kw_only=True, tag="dropped"):
    """What was asked about is no longer waited for: it is over, or was approved.

    It follows from what is written down.
    """

    lasting = False

    agent: str
    id: str
