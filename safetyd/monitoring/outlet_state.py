"""How an outlet is: what it has taken, and what keeps it."""

from datetime import datetime

import msgspec


class OutletState(msgspec.Struct, frozen=True, kw_only=True):
    """What an outlet has taken, as far as is known since the start."""

    name: str
    seq: int | None  # the last event that it has; None: it was not reached yet
    behind: int  # events; all that there are, if it was not reached yet
    last_success: datetime | None  # when it last took events, or said that it has them all
    errors: int
    problem: str  # why it takes nothing now, or nothing
