"""The form of an entry."""

from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from safetyd.core.events.event import Event, Level
from safetyd.core.messages.proposal import Urgency
from safetyd.core.recipients import ChannelKind

E = TypeVar("E", bound=Event)
Fact = str | int | float | bool | None
Facts = dict[str, Fact]

CHAT: Final[tuple[ChannelKind, ...]] = ("chat", "webhook")
MAIL_AND_CHAT: Final[tuple[ChannelKind, ...]] = ("email", *CHAT)
_SMS_FIRST: Final[tuple[ChannelKind, ...]] = ("sms", "desktop", "email", *CHAT)


class Notice(NamedTuple):
    """A type of SafetyEvent.

    `says` is a template of `agent`, `breaker` and the metadata; the reason follows it.
    """

    type: str
    severity: Level
    says: str = ""
    repeats: bool = False  # it tells of decisions, which are listed and logged by themselves


class Choice(NamedTuple, Generic[E]):
    """The notices of an event that has several, by a field or a function of it.

    People are not notified of what has none.
    """

    by: str | Callable[[E], str]
    notices: Mapping[str, Notice]


class Alert(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A message to people. `title` is the whole of it in a line, `text` what follows.

    Within ten minutes, another alert with the same `key` is the same alert.
    """

    key: str
    urgency: Urgency
    title: str
    text: str
    agent: str | None = None
    kinds: tuple[ChannelKind, ...] = ()  # in the order of preference; none named: all
    later: tuple[ChannelKind, ...] = ()  # where it is sent as well
    after_s: float = 0.0  # and how much later that is
    batched: bool = False  # it waits for other alerts, as long as `alert_batch_s` says
    not_on: tuple[str, ...] = ()  # channels that cannot carry it, by name
    always: bool = False  # at once and by itself, whatever holds back what is urgent
    clears: tuple[str, ...] = ()  # it is sent only if an alert with such a key was


def everywhere(alert: Alert) -> Alert:
    """Send it on every channel, the telephone first."""
    return replace(alert, kinds=_SMS_FIRST)


def at_once(alert: Alert) -> Alert:
    return everywhere(replace(alert, urgency="high", always=True))


def because(said: str, reason: str) -> str:
    return f"{said}: {reason}" if reason else said


class Entry(NamedTuple, Generic[E]):
    """What is said about one kind of event.

    `says` is its sentence; without one, its notice has it. With a `notice` it becomes a SafetyEvent
    with this `reason`, and `facts` as its metadata. All may be functions. Else `says` and `reason`
    are templates of the event's fields, and `facts` their names.
    """

    kind: type[E]
    says: str | Callable[[E], str] = ""
    notice: Notice | Choice[E] | None = None
    reason: str | Callable[[E], str] = "{reason}"
    facts: str | Callable[[E], Facts] = ""
    alert: Callable[[E], Alert | None] | None = None
    ends: Callable[[E], tuple[str, ...]] | None = None  # the keys of alerts that are over with it
    follows: bool | Callable[[E], bool] = False  # the engine makes it of other events
    compared: bool = False  # by a simulation, which otherwise reads only the time of what follows
    by_time: bool = False  # it follows when time has passed
    routine: bool = False  # the audit log leaves it out, unless all is asked for

    @property
    def notices(self) -> tuple[Notice, ...]:
        match self.notice:
            case None:
                return ()
            case Choice(notices=notices):
                return tuple(notices.values())
        return (self.notice,)

    def notice_of(self, event: E) -> Notice | None:
        if not isinstance(self.notice, Choice):
            return self.notice
        by, notices = self.notice
        return notices.get(getattr(event, by) if isinstance(by, str) else by(event))

    def says_of(self, event: E) -> str:
        return _filled(self.says, event)

    def reason_of(self, event: E) -> str:
        return _filled(self.reason, event)

    def facts_of(self, event: E) -> Facts:
        if isinstance(self.facts, str):
            return {name: _fact(getattr(event, name)) for name in self.facts.split()}
        return self.facts(event)


class _Fields(dict[str, object]):
    """The fields and properties of an event, by name."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def __missing__(self, name: str) -> object:
        return getattr(self._event, name)


def _filled(said: str | Callable[[E], str], event: E) -> str:
    return said.format_map(_Fields(event)) if isinstance(said, str) else said(event)


def _fact(value: Fact | tuple[str, ...]) -> Fact:
    return " ".join(value) if isinstance(value, tuple) else value
