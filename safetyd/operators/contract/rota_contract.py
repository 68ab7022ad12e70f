"""The rota: who is on call now, and in the next days."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done


class OnCallNow(msgspec.Struct, frozen=True, kw_only=True):
    """Who is on call, and who is next. An empty list of `names` means that nobody is on call."""

    names: tuple[str, ...]  # Sorted.
    until: datetime | None  # Null if that does not change within ten weeks.
    then: tuple[str, ...]  # Who is on call after that.


class DutyTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A time during which the same people are on call. Without `names`, it is a gap."""

    names: tuple[str, ...]  # Sorted.
    starts: datetime  # Its start; of the first one, the present time.
    ends: datetime | None  # Null if nothing changes within ten weeks.


class RotaAnswer(Done, frozen=True, kw_only=True):
    """The rota. Without one, `on_call` is null and everybody is notified of urgent requests."""

    on_call: OnCallNow | None  # Null without a rota.
    turns: tuple[DutyTurn, ...]  # The first one is the present one.
    timezone: str  # The zone of weekly shifts.
    calendar: str  # The calendar in the configuration, or empty.
    read_until: datetime | None  # Later shifts of the calendar are not known yet.
    problem: str  # Why the calendar cannot be read now, or empty.
    unmatched: tuple[str, ...]  # Entries of the calendar that name no recipient.


class RotaQuestion(Question[RotaAnswer], frozen=True, kw_only=True, tag="rota"):
    """Show who is on call now and next, and when nobody is."""

    paths = ("/rota",)
    days: Annotated[int, Meta(ge=1, le=28)] = 7  # How many days to show.
