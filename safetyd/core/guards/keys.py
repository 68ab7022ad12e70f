"""Who has been heard: every agent ever seen, and bounds on names that anybody can make up.

An agent's name is never forgotten, because that would reset its limits. Names without a key are
bounded, as are the words that agents choose: one too many is refused, and nobody remembers it.
"""

from typing import Final

import msgspec

from safetyd.core.actor import Guard, hearing, later, on
from safetyd.core.events import (
    Decided,
    Forgotten,
    Moment,
    Proposed,
    Reported,
    Resumed,
    Settled,
    Stopped,
)
from safetyd.core.guards.words import Vocabulary
from safetyd.core.kinds import Kind
from safetyd.core.sessions import MAX_SESSIONS, Sessions
from safetyd.core.telemetry import EpisodeEnded, Heartbeat, Outcome, SessionEnded
from safetyd.core.verdict import ALLOW, ALLOWED, ASK, Severity, Verdict

# How each kind of word comes to an end.
_ENDS: Final = {
    "session": "ended",
    "chain": "was not used for a day",
    "episode": "ended or was not used for a day",
    "task": "was not used for a day",
    "model": "was not used for a day",
    "dependency": "was not used for a day",
}
_COMMON: Final = frozenset({"model", "dependency"})


class Agent(msgspec.Struct, gc=False):
    """What is known of one agent."""

    keyless: bool
    heard_t: float
    allowed: int = 0
    asked: int = 0
    blocked: int = 0
    failed: int = 0
    stop_epoch: int = 0


class KeysState(msgspec.Struct):
    agents: dict[str, Agent] = {}
    keyless: int = 0
    stop_epoch: int = 0  # the newest that anybody was told of
    words: Vocabulary = msgspec.field(default_factory=Vocabulary)


class KeysGuard(Guard):
    """The guard. Which sessions are live, `sessions` knows."""

    name = "keys"
    _state: KeysState

    def __init__(self, max_agents: int, sessions: Sessions) -> None:
        self._max_agents = max_agents
        self._sessions = sessions
        self._state = KeysState()
        self.hears = hearing(
            on(Decided, self._decided),
            later(self._decided),
            on(Reported, self._reported),
            on(Settled, self._settled),
            on(Forgotten, self._forgotten),
            on(Stopped, self._told),
            on(Resumed, self._told),
        )

    @property
    def agents(self) -> dict[str, Agent]:
        return self._state.agents

    def keyless(self, agent: str) -> bool:
        """Say whether nobody with a key was ever heard under a name."""
        known = self._state.agents.get(agent)
        return known is None or known.keyless

    def others(self, *, keyless: bool) -> bool:
        """Say whether agents with a key are known, beside one that has a key itself."""
        return len(self._state.agents) - self._state.keyless > (not keyless)

    def words(self, agent: str) -> dict[str, int]:
        """Return how many words of its own an agent has that are remembered, by their kind."""
        mine = self._state.words.of(agent)
        return {"chain": len(mine.chains), "episode": len(mine.episodes), "task": len(mine.tasks)}

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        if proposed.keyless and self._is_full(proposed.agent):
            return self._one_name_too_many(proposed.agent)
        agent, said = proposed.agent, proposed.proposal
        # Most have none of these words.
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
        """Return an outcome without the words that nobody remembers."""
        settled = self._state.words.known(settled)
        if not settled.session or self._sessions.is_live(settled.agent, settled.session):
            return settled
        return msgspec.structs.replace(settled, session="")

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        return f"{self._state.keyless} of {self._max_agents} names without a key"

    def _is_full(self, agent: str) -> bool:
        return self._state.keyless >= self._max_agents and agent not in self._state.agents

    def _one_name_too_many(self, agent: str) -> Verdict:
        reason = (
            f"{self._max_agents} agents without a key are known and no more are taken: "
            f"{agent} needs a key, or bus.max_agents must be raised"
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
        full = dict(self._state.words.too_many(agent, said, proposed.t))
        if not self._sessions.admits(agent, said.session or ""):
            full = {"session": MAX_SESSIONS, **full}
        return _one_word_too_many(agent, full) if full else ALLOWED

    def _decided(self, event: Decided) -> None:
        if not event.verdicts or not event.stranger:
            self._count(self._heard(event.agent, event.t, keyless=event.keyless), event)
            self._state.words.take(event.agent, event.proposal, event.t)
        elif event.agent in self._state.agents:
            self._count(self._heard(event.agent, event.t, keyless=event.keyless), event)

    def _reported(self, event: Reported) -> None:
        if not event.keyless or event.agent in self._state.agents:
            self._note(self._heard(event.agent, event.t, keyless=event.keyless), event)

    def _settled(self, event: Settled) -> None:
        self._state.words.refresh(event)

    def _forgotten(self, event: Forgotten) -> None:
        self._state.words.of(event.agent).end_episodes(event.session, event.episode)

    def _told(self, event: Stopped | Resumed) -> None:
        self._state.stop_epoch = max(self._state.stop_epoch, event.epoch)

    def _heard(self, name: str, t: float, *, keyless: bool) -> Agent:
        agent = self._state.agents.get(name)
        if agent is None:
            agent = self._state.agents[name] = Agent(keyless=keyless, heard_t=t)
            self._state.keyless += keyless
        elif agent.keyless and not keyless:
            agent.keyless = False
            self._state.keyless -= 1
        agent.heard_t = t
        return agent

    def _count(self, agent: Agent, event: Decided) -> None:
        if event.decision is ALLOW:
            agent.allowed += 1
        elif event.decision is ASK:
            agent.asked += 1
        else:
            agent.blocked += 1

    def _note(self, agent: Agent, event: Reported) -> None:
        match event.telemetry:
            case Outcome(ok=ok) as outcome:
                agent.failed += not ok
                self._state.words.take_outcome(event.agent, outcome, event.t)
            case EpisodeEnded(episode=episode):
                self._state.words.of(event.agent).end_episodes(None, episode)
            case SessionEnded(session=session):
                self._state.words.of(event.agent).end_episodes(session, None)
            case Heartbeat(stop_epoch=int(epoch)) if epoch <= self._state.stop_epoch:
                agent.stop_epoch = max(agent.stop_epoch, epoch)


def _one_word_too_many(agent: str, full: dict[str, int]) -> Verdict:
    """Make one verdict of all kinds that are full, and of how many words each has."""
    kind, *others = full
    common = kind in _COMMON
    plural = "dependencies" if kind == "dependency" else f"{kind}s"
    whose = "all agents together use" if common else f"{agent} uses"
    return Verdict(
        "keys",
        Severity.BLOCK,
        f"keys.{kind}",
        f"{whose} {full[kind]} {plural} and no more are taken: name one that is known",
        cause="rate_limit",
        also=tuple(f"keys.{other}" for other in others),
        limit_id=f"keys.{kind}" if common else f"keys.{kind}:{agent}",
        remedy=f"with a {kind} that is known, or once one {_ENDS[kind]}",
    )
