"""Events of the rota: the shifts that a calendar contains, and changes of who is on duty."""

from datetime import datetime

import msgspec

from safetyd.core.events.event import Event


class DatedShift(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One shift: a recipient, its start and its end."""

    who: str  # The name of a recipient.
    starts: datetime  # The first instant of the shift.
    ends: datetime  # The first instant after it.


class RotaRead(Event, kw_only=True, omit_defaults=True, tag="rota_read"):
    """A calendar contains other shifts than before. They replace the earlier ones."""

    calendar: str  # As in the configuration.
    shifts: tuple[DatedShift, ...]  # All shifts until `until`, the oldest first.
    until: datetime  # Later shifts were not read yet.
    unmatched: tuple[str, ...] = ()  # Entries that name no recipient.


class RotaUnread(Event, kw_only=True, tag="rota_unread"):
    """A calendar cannot be read any more. The last known shifts still apply."""

    calendar: str  # As in the configuration.
    why: str  # Why it cannot be read.


class DutyChanged(Event, kw_only=True, omit_defaults=True, tag="duty_changed"):
    """Other people are on duty. If `on` is empty, nobody is."""

    on: tuple[str, ...]  # Who is on duty now.
    off: tuple[str, ...] = ()  # Who was on duty before and is not any more.
    first: bool = False  # True: nobody was recorded before, so nobody hands over.
