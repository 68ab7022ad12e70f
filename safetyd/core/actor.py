"""The two seams of the core: an actor observes; a guard observes and has an opinion."""

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
    """The state of who remembers nothing."""


class Actor:
    """State of its own that changes only by the events it observes.

    `hears` has, for each kind of event that concerns it, what takes note of such an event and
    returns what that causes, if anything. `_state` is a struct that can be written down.
    """

    name: str
    hears: Hears = MappingProxyType({})
    _state: msgspec.Struct = Nothing()

    def observe(self, event: Event) -> Sequence[Event]:
        """Take note of `event` if it concerns this actor; return what it causes."""
        act = self.hears.get(type(event))
        return act(event) or () if act and counts(event) else ()

    def save(self) -> Callable[[], bytes]:
        """Freeze the state now; the function that is returned encodes it, in another thread."""
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        """Take on the state that `save` encoded."""
        self._state = msgspec.msgpack.decode(saved, type=type(self._state))


class Guard(Actor, ABC):
    """An actor that also has an opinion. `check` reads; only what it hears changes it."""

    @abstractmethod
    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        """Return `ALLOWED`, or what restricts this proposal and why."""
        ...

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        """Say in a few words where this guard stands now for such a proposal; it changes nothing.

        Nobody waits for it: it is for people who ask.
        """
        return ""

    def check_again(self, proposed: Proposed, kind: Kind) -> Verdict:
        """Return the same about a proposal that was asked about and is approved now."""
        return self.check(proposed, kind)


def hearing(*pairs: tuple[type[Event], Handler]) -> Hears:
    """Return what an actor hears, made of what `on` returns."""
    return dict(pairs)


def on(kind: type[Heard], act: Callable[[Heard], Caused]) -> tuple[type[Event], Handler]:
    """Pair a kind of event with what takes note of it."""
    return kind, cast("Handler", act)


def later(act: Callable[[Decided], Caused]) -> tuple[type[Event], Handler]:
    """Take note of what a person allowed as of what is allowed at once."""
    return on(Allowed, lambda event: act(event.decided))


def counts(event: Event) -> bool:
    """Say whether actors are told: a dry run or the repeat of an id takes nothing."""
    return type(event) is not Decided or event.first
