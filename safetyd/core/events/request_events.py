"""What happens to grants: made, used, revoked, over."""

from datetime import datetime

from safetyd.core.events.decision_events import Event
from safetyd.core.messages.binding import Seen


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

    @property
    def wide(self) -> bool:
        """Whether any words of an agent pass by it."""
        return self.text is None and self.seen is None


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
