"""The two interfaces of the core: actors observe events, and guards also judge proposals."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar, cast

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.request_events import Allowed
from safetyd.core.messages.verdict import Verdict

Heard = TypeVar("Heard", bound=Event)
Caused = Sequence[Event] | None
Handler = Callable[[Event], Caused]
Hears = Mapping[type[Event], Handler]


class Nothing(msgspec.Struct):
    """The state of an actor without memory."""


class Actor:
    """An object whose state changes only when it observes events.

    `hears` maps event types to handlers, which may return further events. `_state` is a struct that
    can be serialised.
    """

    name: str
    hears: Hears = MappingProxyType({})
    _state: msgspec.Struct = Nothing()

    def observe(self, event: Event) -> Sequence[Event]:
        """Handle `event` if `hears` has a handler for it. Return the events that it causes."""
        act = self.hears.get(type(event))
        return act(event) or () if act and counts(event) else ()

    def save(self) -> Callable[[], bytes]:
        """Freeze the state. The returned function encodes it and may run in another thread."""
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        """Restore the state that `save` encoded."""
        self._state = msgspec.msgpack.decode(saved, type=type(self._state))


class Guard(Actor, ABC):
    """An actor that also judges proposals. `check` never changes state; only events do."""

    @abstractmethod
    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        """Return `ALLOWED`, or a verdict that restricts the proposal."""
        ...

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        """Describe the current state of this guard for a proposal like this one, in a few words."""
        return ""

    def check_again(self, proposed: Proposed, kind: Kind) -> Verdict:
        """Judge a proposal again after an operator has approved it."""
        return self.check(proposed, kind)


def hearing(*pairs: tuple[type[Event], Handler]) -> Hears:
    """Return the handlers of an actor. The arguments are pairs from `on`."""
    return dict(pairs)


def on(kind: type[Heard], act: Callable[[Heard], Caused]) -> tuple[type[Event], Handler]:
    """Pair an event type with its handler."""
    return kind, cast("Handler", act)


def later(act: Callable[[Decided], Caused]) -> tuple[type[Event], Handler]:
    """Return a handler that treats an approved action like one that was allowed immediately."""
    return on(Allowed, lambda event: act(event.decided))


def counts(event: Event) -> bool:
    """Return False for decisions on dry runs and repeated ids, which actors ignore."""
    return type(event) is not Decided or event.first
