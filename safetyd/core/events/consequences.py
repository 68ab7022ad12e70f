"""What follows from written events and is never written down: replay makes it again."""

from safetyd.core.events.decision_events import Decided, Event


class Approved(Event, kw_only=True, tag="approved"):
    """An approval landed, and what it sets off at once is done: the guards are asked again."""

    lasting = False

    request_id: str
    waits: bool = False


class Allowed(Event, kw_only=True, tag="allowed"):
    """What a person approved is about to be done. It follows from what is written down."""

    lasting = False

    decided: Decided  # as if it had been allowed at once, now


class NameForgotten(Event, kw_only=True, tag="name_forgotten"):
    """A name without a key made room for another one: whatever is known of it goes.

    It follows from what is written down.
    """

    lasting = False

    agent: str


class Dropped(Event, kw_only=True, tag="dropped"):
    """What was asked about is no longer waited for: it is over, or was approved.

    It follows from what is written down.
    """

    lasting = False

    agent: str
    id: str
