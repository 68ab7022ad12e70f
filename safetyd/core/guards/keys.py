"""Known agents, and limits on names that anyone can invent.

An agent with a key is never forgotten, because that would reset its limits. The number of anonymous
names is limited: a new name replaces one that was never allowed anything, or else the one that has
been silent longest, but never one that is restricted. Other names that agents choose (sessions,
chains, models and so on) are limited, too. A proposal with one name too many is blocked, and the
name is not remembered.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, later, on
from safetyd.core.events.daemon_events import KeysChanged
from safetyd.core.events.decision_events import Decided, Proposed, Reported, Settled
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import Forgotten, NameForgotten, Resumed, Stopped
from safetyd.core.guards.known_words import MAX_COMMON, MAX_KEYLESS, Vocabulary
from safetyd.core.messages.telemetry import EpisodeEnded, Heartbeat, Outcome, SessionEnded
from safetyd.core.messages.verdict import ALLOW, ALLOWED, ASK, BLOCK, Severity, Verdict
from safetyd.core.sessions import MAX_SESSIONS, Sessions

# When each kind of name expires.
_ENDS: Final = {
    "session": "ends",
    "chain": "has not been used for a day",
    "episode": "ends or has not been used for a day",
    "task": "has not been used for a day",
    "model": "has not been used for a day",
    "dependency": "has not been used for a day",
}
_COMMON: Final = frozenset({"model", "dependency"})
# Who reached a limit on names that agents share, if it is not one agent.
_TOGETHER: Final = {
    MAX_COMMON: "All agents together",
    MAX_KEYLESS: "All anonymous agents together",
}


class Ties(NamedTuple):
    """Functions that return whether a name is still in use."""

    held: Callable[[str], bool]  # the agent is restricted, or has a pending request
    busy: Callable[[str], bool]  # the agent has actions in progress


class KnownAgent(msgspec.Struct, gc=False):
    """Counters of one agent."""

    keyless: bool
    heard_t: float
    allowed: int = 0
    asked: int = 0
    blocked: int = 0
    failed: int = 0
    stop_epoch: int = 0


class KeysState(msgspec.Struct):
    # Among anonymous agents, the one that has been silent longest is first.
    agents: dict[str, KnownAgent] = {}
    keyless: int = 0
    stop_epoch: int = 0  # the newest one
    words: Vocabulary = msgspec.field(default_factory=Vocabulary)


class KeysGuard(Guard):
    """Block names beyond the limits. `ties` says which names are in use."""

    name = "keys"
    _state: KeysState

    def __init__(self, max_agents: int, sessions: Sessions, ties: Ties) -> None:
        self._max_agents = max_agents
        self._sessions = sessions
        self._ties = ties
        self._state = KeysState()
        self.hears = hearing(
            on(Decided, self._decided),
            later(self._decided),
            on(Reported, self._reported),
            on(Settled, self._settled),
            on(Forgotten, self._forgotten),
            on(Stopped, self._told),
            on(Resumed, self._told),
            on(KeysChanged, self._changed),
        )

    @property
    def agents(self) -> dict[str, KnownAgent]:
        return self._state.agents

    def keyless(self, agent: str) -> bool:
        """Return whether a name has only been used without a key."""
        known = self._state.agents.get(agent)
        return known is None or known.keyless

    def others(self, *, keyless: bool) -> bool:
        """Return whether other agents with keys are known."""
        return len(self._state.agents) - self._state.keyless > (not keyless)

    def words(self, agent: str) -> dict[str, int]:
        """Return how many chains, episodes and tasks of an agent are remembered."""
        mine = self._state.words.of(agent)
        return {"chain": len(mine.chains), "episode": len(mine.episodes), "task": len(mine.tasks)}

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        if proposed.keyless and self._is_full(proposed.agent):
            return self._one_name_too_many(proposed.agent)
        agent, said = proposed.agent, proposed.proposal
        # Most proposals name none of these.
        if said.session is said.chain is said.episode is said.task is None and (
            said.model is said.dependency is None
        ):
            return ALLOWED
        if (
            said.session is None or self._sessions.admits(agent, said.session)
        ) and self._state.words.knows(agent, said):
            return ALLOWED
        return self._new_words(proposed)

    def known(self, settled: Settled) -> Settled:
        """Return an outcome without names that are not remembered."""
        settled = self._state.words.known(settled)
        if not settled.session or self._sessions.is_live(settled.agent, settled.session):
            return settled
        return msgspec.structs.replace(settled, session="")

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        return f"{self._state.keyless} of {self._max_agents} names of anonymous agents"

    def _is_full(self, agent: str) -> bool:
        if self._state.keyless < self._max_agents or agent in self._state.agents:
            return False
        return not any(self._loose(lambda _: True))

    def _loose(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """Yield matching anonymous names that are not restricted, longest silent first."""
        for name, known in self._state.agents.items():
            if known.keyless and wanted(name) and not self._ties.held(name):
                yield name

    def _expendable(self) -> str | None:
        """Return the name to forget to make room for a new one, if any."""
        agents, busy = self._state.agents, self._ties.busy
        unallowed = self._loose(lambda name: not agents[name].allowed and not busy(name))
        idle = self._loose(lambda name: not busy(name))
        any_ = self._loose(lambda _: True)
        return next((name for names in (unallowed, idle, any_) for name in names), None)

    def _one_name_too_many(self, agent: str) -> Verdict:
        reason = (
            f"All {self._max_agents} names for anonymous agents are in use, and none can be "
            f"released. Give {agent} a key, or raise bus.max_agents"
        )
        return Verdict(
            "keys",
            Severity.BLOCK,
            "keys.agents",
            reason,
            cause="rate_limit",
            limit_id="keys.agents",
            remedy=f"with a key, or with bus.max_agents = {self._state.keyless + 1}",
        )

    def _new_words(self, proposed: Proposed) -> Verdict:
        agent, said = proposed.agent, proposed.proposal
        words, keyless = self._state.words, proposed.keyless
        full = dict(words.too_many(agent, said, proposed.t, keyless=keyless))
        if not self._sessions.admits(agent, said.session or ""):
            full = {"session": MAX_SESSIONS, **full}
        return _one_word_too_many(agent, full) if full else ALLOWED

    def _decided(self, event: Decided) -> Sequence[Event]:
        if not event.verdicts or not event.stranger:
            forgotten = self._make_room(event)
            self._count(self._heard(event.agent, event.t, keyless=event.keyless), event)
            self._state.words.take(
                event.agent,
                event.proposal,
                event.t,
                keyless=event.keyless,
                blocked=event.decision is BLOCK,
            )
            return forgotten
        if event.agent in self._state.agents:
            self._count(self._heard(event.agent, event.t, keyless=event.keyless), event)
        return ()

    def _make_room(self, event: Decided) -> Sequence[Event]:
        """Forget a name if this one is new and the limit is reached."""
        state = self._state
        if not event.keyless or state.keyless < self._max_agents or event.agent in state.agents:
            return ()
        name = self._expendable()
        if name is None:
            return ()
        del state.agents[name]
        state.keyless -= 1
        state.words.agents.pop(name, None)
        return (NameForgotten(at=event.at, t=event.t, agent=name),)

    def _reported(self, event: Reported) -> None:
        if not event.keyless or event.agent in self._state.agents:
            self._note(self._heard(event.agent, event.t, keyless=event.keyless), event)

    def _settled(self, event: Settled) -> None:
        self._state.words.refresh(event)

    def _forgotten(self, event: Forgotten) -> None:
        self._state.words.of(event.agent).end_episodes(event.session, event.episode)

    def _changed(self, event: KeysChanged) -> None:
        """Record agents whose keys were revoked: anyone may use their names now."""
        keyed = {key.split(" ")[1] for key in event.added if key.startswith("agent ")}
        gone = {key.split(" ")[1] for key in event.removed if key.startswith("agent ")} - keyed
        for name, agent in self._state.agents.items():
            if name in gone and not agent.keyless:
                agent.keyless = True
                self._state.keyless += 1

    def _told(self, event: Stopped | Resumed) -> None:
        self._state.stop_epoch = max(self._state.stop_epoch, event.epoch)

    def _heard(self, name: str, t: float, *, keyless: bool) -> KnownAgent:
        agent = self._state.agents.get(name)
        if agent is None:
            agent = self._state.agents[name] = KnownAgent(keyless=keyless, heard_t=t)
            self._state.keyless += keyless
        elif agent.keyless and not keyless:
            agent.keyless = False
            self._state.keyless -= 1
        agent.heard_t = t
        if keyless:
            self._state.agents[name] = self._state.agents.pop(name)
        return agent

    def _count(self, agent: KnownAgent, event: Decided) -> None:
        if event.decision is ALLOW:
            agent.allowed += 1
        elif event.decision is ASK:
            agent.asked += 1
        else:
            agent.blocked += 1

    def _note(self, agent: KnownAgent, event: Reported) -> None:
        match event.telemetry:
            case Outcome(ok=ok) as outcome:
                agent.failed += not ok
                self._state.words.take_outcome(event.agent, outcome, event.t, keyless=event.keyless)
            case EpisodeEnded(episode=episode):
                self._state.words.of(event.agent).end_episodes(None, episode)
            case SessionEnded(session=session):
                self._state.words.of(event.agent).end_episodes(session, None)
            case Heartbeat(stop_epoch=int(epoch)) if epoch <= self._state.stop_epoch:
                agent.stop_epoch = max(agent.stop_epoch, epoch)


def _one_word_too_many(agent: str, full: dict[str, int]) -> Verdict:
    """Return one verdict for all kinds of names that reached their limit."""
    kind, *others = full
    common = kind in _COMMON
    plural = "dependencies" if kind == "dependency" else f"{kind}s"
    who = _TOGETHER.get(full[kind], agent) if common else agent
    limit = f"the limit of {full[kind]} {plural}"
    return Verdict(
        "keys",
        Severity.BLOCK,
        f"keys.{kind}",
        f"{who} reached {limit}. Use an existing {kind}",
        cause="rate_limit",
        also=tuple(f"keys.{other}" for other in others),
        limit_id=f"keys.{kind}:{agent}" if who == agent else f"keys.{kind}",
        remedy=f"with an existing {kind}, or when one {_ENDS[kind]}",
    )
