"""Sessions. Each starts with its first message, and ends when its agent ends it or falls silent.

An agent that names no session has an implicit one, called "".
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.decision_events import Decided, Reported, SessionClosed
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.messages.telemetry import Iteration, Outcome, SessionEnded, SessionStarted

MAX_SESSIONS: Final = 64  # named sessions of an agent, in addition to the implicit one
MAX_PER_TICK: Final = 64

Seconds = Annotated[float, Meta(gt=0)]


class SessionsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    idle_s: Seconds = 1800.0
    outcome_timeout_s: Seconds = 3600.0  # an allowed action without an outcome


class SessionsState(msgspec.Struct):
    heard_t: dict[str, float] = {}  # last message by agent, oldest first
    live: dict[str, list[str]] = {}  # by agent


class Sessions(Actor):
    """The live sessions. This actor emits `SessionClosed` for other actors."""

    name = "sessions"
    _state: SessionsState

    def __init__(self, config: SessionsConfig) -> None:
        self._idle_s = config.idle_s
        self._state = SessionsState()
        self.hears = hearing(
            on(Decided, self._decided),
            on(Reported, self._reported),
            on(SessionClosed, self._closed),
            on(Ticked, self._idle),
            on(NameForgotten, self._forgotten),
        )

    def live(self, agent: str) -> tuple[str, ...]:
        return tuple(self._state.live.get(agent, ()))

    def is_live(self, agent: str, session: str) -> bool:
        return session in self._state.live.get(agent, ())

    def admits(self, agent: str, session: str, *, keyless: bool = False) -> bool:
        """Return True if a session is live or may start. The implicit session may always start.

        Return False for an anonymous agent that has no live session yet.
        """
        live = self._state.live.get(agent, ())
        if keyless and not live:
            return False
        return not session or session in live or len(live) - ("" in live) < MAX_SESSIONS

    def _decided(self, event: Decided) -> None:
        if event.verdicts and event.stranger:
            return
        self._heard(event.agent, event.proposal.session or "", event.t)

    def _reported(self, event: Reported) -> Sequence[Event]:
        # The keys guard limits anonymous names only in proposals, so a report starts no session.
        if event.keyless and event.agent not in self._state.live:
            return ()
        match event.telemetry:
            case Outcome(session=session) | Iteration(session=session):
                self._told(event.agent, session or "", event.t)
            case SessionStarted(session=session):
                self._told(event.agent, session, event.t)
            case SessionEnded(session=session):
                if session in self._state.live.get(event.agent, ()):
                    return (_closed(event, event.agent, session, "ended"),)
            case _:
                self._refresh(event.agent, event.t)
        return ()

    def _told(self, agent: str, session: str, t: float) -> None:
        if session in self._state.live.get(agent, ()) or self.admits(agent, session):
            self._heard(agent, session, t)
        else:
            self._refresh(agent, t)

    def _heard(self, agent: str, session: str, t: float) -> None:
        live = self._state.live.setdefault(agent, [])
        if session not in live:
            live.append(session)
        self._state.heard_t.pop(agent, None)
        self._state.heard_t[agent] = t

    def _refresh(self, agent: str, t: float) -> None:
        if agent in self._state.live:
            self._state.heard_t.pop(agent, None)
            self._state.heard_t[agent] = t

    def _forgotten(self, event: NameForgotten) -> None:
        self._state.live.pop(event.agent, None)
        self._state.heard_t.pop(event.agent, None)

    def _idle(self, tick: Ticked) -> Sequence[Event]:
        closed: list[Event] = []
        for agent, heard_t in self._state.heard_t.items():
            if tick.t < heard_t + self._idle_s or len(closed) >= MAX_PER_TICK:
                break
            closed += [_closed(tick, agent, name, "idle") for name in self._state.live[agent]]
        return closed

    def _closed(self, event: SessionClosed) -> None:
        live = self._state.live.get(event.agent, [])
        if event.session in live:
            live.remove(event.session)
        if not live:
            self._state.live.pop(event.agent, None)
            self._state.heard_t.pop(event.agent, None)


def _closed(cause: Event, agent: str, session: str, why: str) -> SessionClosed:
    return SessionClosed(
        at=cause.at,
        t=cause.t,
        agent=agent,
        session=session,
        why="ended" if why == "ended" else "idle",
    )
