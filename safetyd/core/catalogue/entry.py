"""The structure of a catalogue entry."""

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

    `says` is a template that may contain `agent`, `breaker` and metadata. The reason is appended.
    """

    type: str
    severity: Level
    says: str = ""
    repeats: bool = False  # it repeats a decision, which is listed and logged separately


class Choice(NamedTuple, Generic[E]):
    """Several notices of one event. `by` is the field or function that chooses one.

    If `notices` has no entry for the value, no SafetyEvent is made.
    """

    by: str | Callable[[E], str]
    notices: Mapping[str, Notice]


class Alert(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A notification about an event. `title` is one line, `text` adds details.

    Within ten minutes, alerts with the same `key` count as one alert.
    """

    key: str
    urgency: Urgency
    title: str
    text: str
    agent: str | None = None
    kinds: tuple[ChannelKind, ...] = ()  # kinds of channels, the preferred first; empty: all
    later: tuple[ChannelKind, ...] = ()  # kinds of channels that get it later
    after_s: float = 0.0  # how much later
    batched: bool = False  # it waits `alert_batch_s` for other alerts
    not_on: tuple[str, ...] = ()  # names of channels on which it is not sent
    always: bool = False  # sent immediately in a separate message, without limits
    clears: tuple[str, ...] = ()  # all-clear: sent only if an alert with one of these keys was sent


def everywhere(alert: Alert) -> Alert:
    """Return the alert for channels of every kind, SMS first."""
    return replace(alert, kinds=_SMS_FIRST)


def at_once(alert: Alert) -> Alert:
    return everywhere(replace(alert, urgency="high", always=True))


def because(said: str, reason: str) -> str:
    return f"{said}: {reason}" if reason else said


class Entry(NamedTuple, Generic[E]):
    """The words and properties of one kind of event.

    `says` is the sentence of the event; if it is empty, the sentence of the notice is used. An
    event with a `notice` becomes a SafetyEvent with this `reason`, and with `facts` as its
    metadata. `says` and `reason` are templates with the fields of the event. `facts` are names of
    fields. Each of these can also be a function.
    """

    kind: type[E]
    says: str | Callable[[E], str] = ""
    notice: Notice | Choice[E] | None = None
    reason: str | Callable[[E], str] = "{reason}"
    facts: str | Callable[[E], Facts] = ""
    alert: Callable[[E], Alert | None] | None = None
    ends: Callable[[E], tuple[str, ...]] | None = None  # keys of the alerts that this event ends
    follows: bool | Callable[[E], bool] = False  # the engine derives it from other events
    compared: bool = False  # a simulation compares it with the record
    by_time: bool = False  # a tick causes it
    routine: bool = False  # `safetyd audit` omits it unless --all is given

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
