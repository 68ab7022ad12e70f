"""The two seams of the core: an actor observes; a guard observes and has an opinion."""

from collections.abc import Callable, Sequence
from typing import Protocol

from safetyd.core.events import Event, Proposed
from safetyd.core.kinds import Kind
from safetyd.core.verdict import Verdict


class Actor(Protocol):
    """State of its own that changes only by the events it observes."""

    @property
    def name(self) -> str: ...

    @property
    def hears(self) -> tuple[type[Event], ...]:
        """The kinds of event that `observe` is called with."""
        ...

    def observe(self, event: Event) -> Sequence[Event]:
        """Take note of `event`; return what it causes, if anything."""
        ...

    def save(self) -> Callable[[], bytes]:
        """Freeze the state now; the function that is returned encodes it, in another thread."""
        ...

    def load(self, saved: bytes) -> None:
        """Take on the state that `save` encoded."""
        ...


class Guard(Actor, Protocol):
    """An actor that also has an opinion. `check` reads; only `observe` changes."""

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        """Return `ALLOWED`, or what restricts this proposal and why."""
        ...
