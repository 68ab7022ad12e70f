"""Names that agents choose (chains, episodes, tasks, models, dependencies), with limits.

Each is stored with the time of its last use, to the minute. A name is forgotten only to make room
for a new one, and only after a day without use, so that no limit is reset early.

Models and dependencies are shared by all agents, but each agent may add only a part of them.
Anonymous agents, which can invent names, may add only half of the names, so there is always room
for names of agents with keys. A blocked proposal adds none.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from safetyd.core.events.decision_events import Settled
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.sender_limits import SenderLimits

MAX_WORDS: Final = 64  # per agent: this many chains, episodes and tasks each
MAX_COMMON: Final = 1000  # for all agents: this many models and dependencies each
MAX_KEYLESS: Final = MAX_COMMON // 2  # maximum number of those used only anonymously
REFRESH_S: Final = 60.0
# A stored time may be REFRESH_S too old, but a name must be known for a whole day.
FORGET_S: Final = 86_400.0 + REFRESH_S

_LIMITS: Final = SenderLimits()

Heard = dict[str, float]  # last use of each name, oldest first
NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


class Words(msgspec.Struct, gc=False, omit_defaults=True):
    """The names that one agent uses."""

    chains: Heard = {}
    episodes: Heard = {}
    within: dict[str, str] = {}  # the session of an episode, if it has one
    tasks: Heard = {}

    def take_episode(self, episode: str, session: str | None, t: float) -> None:
        hear(self.episodes, episode, MAX_WORDS, t)
        self.within.pop(episode, None)
        if session:
            self.within[episode] = session
        if len(self.within) > len(self.episodes):
            self.within = {one: self.within[one] for one in self.within if one in self.episodes}

    def end_episodes(self, session: str | None, episode: str | None) -> None:
        """Forget all episodes, those of one session, or one episode."""
        for one in tuple(self.episodes):
            if session in {None, self.within.get(one)} and episode in {None, one}:
                del self.episodes[one]
                self.within.pop(one, None)


NO_WORDS: Final = Words()


class Common(NamedTuple):
    """Shared names of one kind: those used with keys, and those used only anonymously.

    `added_by` maps a name to the agent that was the first to use it.
    """

    keyed: Heard
    keyless: Heard
    added_by: Mapping[str, str]

    def knows(self, word: str) -> bool:
        return word in self.keyed or word in self.keyless

    def fits(self, word: str, agent: str, t: float, *, keyless: bool) -> bool:
        """Return whether a name is known or may be added."""
        return self.knows(word) or self.limit(agent, t, keyless=keyless) is None

    def limit(self, agent: str, t: float, *, keyless: bool) -> int | None:
        """Return the limit that an agent's next new name would exceed, if any."""
        part = _LIMITS.anonymous_names if keyless else _LIMITS.names
        if self._added(agent, t) >= part:
            return part
        if keyless and len(self.keyless) >= MAX_KEYLESS:
            return None if _is_stale(self.keyless, t) else MAX_KEYLESS
        room = len(self.keyed) + len(self.keyless) < MAX_COMMON
        return (
            None if room or _is_stale(self.keyed, t) or _is_stale(self.keyless, t) else MAX_COMMON
        )

    def hear(self, word: str, agent: str, t: float, *, keyless: bool) -> bool:
        """Add a name or refresh it. Return True if it was added.

        A name used with a key no longer counts as anonymous.
        """
        if word in self.keyed:
            _refresh(self.keyed, word, t)
        elif word in self.keyless and keyless:
            _refresh(self.keyless, word, t)
        elif self.fits(word, agent, t, keyless=keyless):
            self.keyless.pop(word, None)
            _forget(self.keyed, t)
            _forget(self.keyless, t)
            (self.keyless if keyless else self.keyed)[word] = t
            return True
        return False

    def _added(self, agent: str, t: float) -> int:
        """Return how many names an agent added that must not be forgotten yet."""
        since = t - FORGET_S
        mine = (word for word, who in self.added_by.items() if who == agent)
        return sum(self.keyed.get(word, self.keyless.get(word, since)) > since for word in mine)


class Vocabulary(msgspec.Struct):
    """All remembered names except sessions, which end by themselves."""

    agents: dict[str, Words] = {}  # only agents that use any
    models: Heard = {}
    dependencies: Heard = {}
    keyless_models: Heard = {}
    keyless_dependencies: Heard = {}
    # Who added a model or a dependency; unset until somebody does, and in older checkpoints.
    added_by: dict[str, dict[str, str]] | UnsetType = UNSET

    @property
    def _models(self) -> Common:
        added_by = NOBODY if self.added_by is UNSET else self.added_by.get("model", NOBODY)
        return Common(self.models, self.keyless_models, added_by)

    @property
    def _dependencies(self) -> Common:
        added_by = NOBODY if self.added_by is UNSET else self.added_by.get("dependency", NOBODY)
        return Common(self.dependencies, self.keyless_dependencies, added_by)

    def of(self, agent: str) -> Words:
        """Return the names of an agent."""
        return self.agents.get(agent, NO_WORDS)

    def knows(self, agent: str, said: Proposal) -> bool:
        """Return whether a proposal uses only known names."""
        # Unrolled for speed: this runs for every proposal.
        mine = self.agents.get(agent, NO_WORDS)
        return (
            (said.chain is None or said.chain in mine.chains)
            and (said.episode is None or said.episode in mine.episodes)
            and (said.task is None or said.task in mine.tasks)
            and (said.model is None or self._models.knows(said.model))
            and (said.dependency is None or self._dependencies.knows(said.dependency))
        )

    def too_many(
        self, agent: str, said: Proposal, t: float, *, keyless: bool
    ) -> Iterator[tuple[str, int]]:
        """Yield each kind of name whose limit a proposal exceeds, and the limit."""
        mine = self.of(agent)
        for kind, word, heard in (
            ("chain", said.chain, mine.chains),
            ("episode", said.episode, mine.episodes),
            ("task", said.task, mine.tasks),
        ):
            if word is not None and not fits(heard, word, MAX_WORDS, t):
                yield kind, MAX_WORDS
        for kind, word, common in (
            ("model", said.model, self._models),
            ("dependency", said.dependency, self._dependencies),
        ):
            if word is None or common.knows(word):
                continue
            if (limit := common.limit(agent, t, keyless=keyless)) is not None:
                yield kind, limit

    def take(
        self, agent: str, said: Proposal, t: float, *, keyless: bool, blocked: bool = False
    ) -> None:
        """Remember the names in a proposal. If it was `blocked`, only those of its agent."""
        chain, episode = said.chain, said.episode
        if said.model is said.dependency is said.task is chain is episode is None:
            return
        if blocked:
            self._take_task(agent, said, t)
        else:
            self.take_outcome(agent, said, t, keyless=keyless)
        if chain is not None:
            hear(self._mine(agent).chains, chain, MAX_WORDS, t)
        if episode is not None:
            self._mine(agent).take_episode(episode, said.session, t)

    def take_outcome(
        self, agent: str, said: Proposal | Outcome, t: float, *, keyless: bool
    ) -> None:
        """Remember the names that proposals and outcomes have in common, up to the limits."""
        model, dependency = said.model, said.dependency
        if model is not None and self._models.hear(model, agent, t, keyless=keyless):
            self._added("model", self._models, model, agent)
        if dependency is not None and self._dependencies.hear(
            dependency, agent, t, keyless=keyless
        ):
            self._added("dependency", self._dependencies, dependency, agent)
        self._take_task(agent, said, t)

    def _added(self, kind: str, common: Common, word: str, agent: str) -> None:
        """Record who added a name, and forget this of names that are gone."""
        if self.added_by is UNSET:
            self.added_by = {}
        known = {name: who for name, who in common.added_by.items() if common.knows(name)}
        self.added_by[kind] = {**known, word: agent}

    def _take_task(self, agent: str, said: Proposal | Outcome, t: float) -> None:
        if said.task is not None:
            hear(self._mine(agent).tasks, said.task, MAX_WORDS, t)

    def refresh(self, settled: Settled) -> None:
        """Refresh the chain and task of an outcome, if they are known."""
        if settled.chain is settled.task is None:
            return
        mine = self.of(settled.agent)
        for heard, word in ((mine.chains, settled.chain), (mine.tasks, settled.task)):
            if word in heard:
                hear(heard, word, MAX_WORDS, settled.t)

    def known(self, settled: Settled) -> Settled:
        """Return an outcome without names that are not remembered."""
        if settled.chain is settled.task is settled.model is settled.dependency is None:
            return settled
        mine = self.of(settled.agent)
        strange = {
            kind: None
            for kind, word, known in (
                ("chain", settled.chain, mine.chains.__contains__),
                ("task", settled.task, mine.tasks.__contains__),
                ("model", settled.model, self._models.knows),
                ("dependency", settled.dependency, self._dependencies.knows),
            )
            if word is not None and not known(word)
        }
        return msgspec.structs.replace(settled, **strange) if strange else settled

    def _mine(self, agent: str) -> Words:
        mine = self.agents.get(agent)
        if mine is None:
            mine = self.agents[agent] = Words()
        return mine


def fits(heard: Heard, word: str, most: int, t: float) -> bool:
    """Return whether a name is known or may be added."""
    return word in heard or len(heard) < most or _is_stale(heard, t)


def hear(heard: Heard, word: str, most: int, t: float) -> None:
    """Add or refresh a name, up to the limit."""
    if word in heard:
        _refresh(heard, word, t)
    elif fits(heard, word, most, t):
        _forget(heard, t)
        heard[word] = t


def _refresh(heard: Heard, word: str, t: float) -> None:
    if t - heard[word] >= REFRESH_S:
        del heard[word]
        heard[word] = t


def _is_stale(heard: Heard, t: float) -> bool:
    """Return whether the least recently used name may be forgotten."""
    return bool(heard) and next(iter(heard.values())) + FORGET_S <= t


def _forget(heard: Heard, t: float) -> None:
    while _is_stale(heard, t):
        del heard[next(iter(heard))]
