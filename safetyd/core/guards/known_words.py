"""The words that agents choose: so many of a kind are remembered, and no more.

Each is kept with the time when it was last heard, to the minute. A word is forgotten only to make
room for a new one, and not before a day without it, so that no limit ends with its word.

Models and dependencies are everybody's words. Of those that only names without a key have used, and
can make up, half as many are remembered, so that agents with keys always find a place.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from safetyd.core.events.decision_events import Settled
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import Outcome

MAX_WORDS: Final = 64  # chains, episodes and tasks of one agent, each
MAX_COMMON: Final = 1000  # models, and dependencies, of all agents
MAX_KEYLESS: Final = MAX_COMMON // 2  # of these, what only agents without a key have used
REFRESH_S: Final = 60.0
# What was heard just before a refresh became due is still known for a whole day.
FORGET_S: Final = 86_400.0 + REFRESH_S

Heard = dict[str, float]  # when each word was heard, longest unheard first


class Words(msgspec.Struct, gc=False, omit_defaults=True):
    """The words of one agent."""

    chains: Heard = {}
    episodes: Heard = {}
    within: dict[str, str] = {}  # the session of an episode, where one was named
    tasks: Heard = {}

    def take_episode(self, episode: str, session: str | None, t: float) -> None:
        hear(self.episodes, episode, MAX_WORDS, t)
        self.within.pop(episode, None)
        if session:
            self.within[episode] = session
        if len(self.within) > len(self.episodes):
            self.within = {one: self.within[one] for one in self.within if one in self.episodes}

    def end_episodes(self, session: str | None, episode: str | None) -> None:
        """Forget all episodes, those of one session, or one."""
        for one in tuple(self.episodes):
            if session in {None, self.within.get(one)} and episode in {None, one}:
                del self.episodes[one]
                self.within.pop(one, None)


NO_WORDS: Final = Words()


class Common(NamedTuple):
    """The words of one kind that are everybody's: of agents with keys, and of those without."""

    keyed: Heard
    keyless: Heard

    def knows(self, word: str) -> bool:
        return word in self.keyed or word in self.keyless

    def fits(self, word: str, t: float, *, keyless: bool) -> bool:
        """Say whether a word is known, or may become so."""
        if self.knows(word):
            return True
        if keyless and len(self.keyless) >= MAX_KEYLESS:
            return _is_stale(self.keyless, t)
        room = len(self.keyed) + len(self.keyless) < MAX_COMMON
        return room or _is_stale(self.keyed, t) or _is_stale(self.keyless, t)

    def hear(self, word: str, t: float, *, keyless: bool) -> None:
        """Remember a word, if it fits; what an agent with a key uses is no longer made up."""
        if word in self.keyed:
            _refresh(self.keyed, word, t)
        elif word in self.keyless and keyless:
            _refresh(self.keyless, word, t)
        elif self.fits(word, t, keyless=keyless):
            self.keyless.pop(word, None)
            _forget(self.keyed, t)
            _forget(self.keyless, t)
            (self.keyless if keyless else self.keyed)[word] = t

    def most(self, *, keyless: bool) -> int:
        """Return how many there may be where one more does not fit."""
        return MAX_KEYLESS if keyless and len(self.keyless) >= MAX_KEYLESS else MAX_COMMON


class Vocabulary(msgspec.Struct):
    """Every word that is remembered, but for sessions, which have an end of their own."""

    agents: dict[str, Words] = {}  # of those that use any
    models: Heard = {}
    dependencies: Heard = {}
    keyless_models: Heard = {}
    keyless_dependencies: Heard = {}

    @property
    def _models(self) -> Common:
        return Common(self.models, self.keyless_models)

    @property
    def _dependencies(self) -> Common:
        return Common(self.dependencies, self.keyless_dependencies)

    def of(self, agent: str) -> Words:
        """Return an agent's words, to read or to forget."""
        return self.agents.get(agent, NO_WORDS)

    def knows(self, agent: str, said: Proposal) -> bool:
        """Say whether no word of a proposal is new."""
        # Written out, since every proposal that has one is asked about.
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
        """Yield each kind of which a proposal has one word too many, and how many there may be."""
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
            if word is not None and not common.fits(word, t, keyless=keyless):
                yield kind, common.most(keyless=keyless)

    def take(self, agent: str, said: Proposal, t: float, *, keyless: bool) -> None:
        """Remember the words of a proposal."""
        chain, episode = said.chain, said.episode
        if said.model is said.dependency is said.task is chain is episode is None:
            return
        self.take_outcome(agent, said, t, keyless=keyless)
        if chain is not None:
            hear(self._mine(agent).chains, chain, MAX_WORDS, t)
        if episode is not None:
            self._mine(agent).take_episode(episode, said.session, t)

    def take_outcome(
        self, agent: str, said: Proposal | Outcome, t: float, *, keyless: bool
    ) -> None:
        """Remember the words that an outcome can have as well, if they fit."""
        if said.model is not None:
            self._models.hear(said.model, t, keyless=keyless)
        if said.dependency is not None:
            self._dependencies.hear(said.dependency, t, keyless=keyless)
        if said.task is not None:
            hear(self._mine(agent).tasks, said.task, MAX_WORDS, t)

    def refresh(self, settled: Settled) -> None:
        """Take note that a chain and a task are in use, if they are known."""
        if settled.chain is settled.task is None:
            return
        mine = self.of(settled.agent)
        for heard, word in ((mine.chains, settled.chain), (mine.tasks, settled.task)):
            if word in heard:
                hear(heard, word, MAX_WORDS, settled.t)

    def known(self, settled: Settled) -> Settled:
        """Return an outcome without the words that are not remembered."""
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
    """Say whether a word is known, or may become so."""
    return word in heard or len(heard) < most or _is_stale(heard, t)


def hear(heard: Heard, word: str, most: int, t: float) -> None:
    """Remember a word, if it fits."""
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
    """Say whether the word that was not heard for longest may be forgotten."""
    return bool(heard) and next(iter(heard.values())) + FORGET_S <= t


def _forget(heard: Heard, t: float) -> None:
    while _is_stale(heard, t):
        del heard[next(iter(heard))]
