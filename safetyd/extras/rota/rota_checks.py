"""Checks `[people.rota]`, and the actions for which recipients may be woken."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final
from zoneinfo import available_timezones

from safetyd.core.action_types import Kinds
from safetyd.core.rota import WAKE_CLASSES, RotaConfig
from safetyd.core.text.near_names import meant
from safetyd.extras.rota.calendar_reader import place_problem

_ROTA: Final = "people.rota"


def rota_problems(rota: RotaConfig, names: Collection[str]) -> Iterator[str]:
    """Yield every problem of a rota. `names` are the recipients."""
    if rota.timezone not in {"", *available_timezones()}:
        why = "is not an IANA time zone such as Europe/Berlin"
        yield f"{_ROTA}.timezone: {rota.timezone!r} {why}"
    if why := place_problem(rota.calendar):
        yield f"{_ROTA}.calendar {why}"
    for number, shift in enumerate(rota.shifts):
        if shift.who not in names:
            why = f"{shift.who!r} is not a recipient; {meant(shift.who, names)}"
            yield f"{_ROTA}.shifts[{number}].who: {why}"


def wake_problems(wake_for: Mapping[str, Sequence[str]], kinds: Kinds) -> Iterator[str]:
    """Yield the unknown action types in `wake_for`, which is given for each recipient."""
    aliases = (alias for several in kinds.aliases().values() for alias in several)
    known = (*WAKE_CLASSES, *kinds.known, *aliases)
    for recipient, actions in wake_for.items():
        for action in actions:
            if action not in WAKE_CLASSES and not kinds.named(action).known:
                why = f"{action!r} is not an action type; {meant(action, known)}"
                yield f"recipients.{recipient}.wake_for: {why}"
