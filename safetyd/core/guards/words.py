"""The words that agents choose: so many of a kind are remembered, and no more.

Each is kept with the time when it was last heard, to the minute. A word is forgotten only to make
room for a new one, and not before a day without it, so that no limit ends with its word.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from safetyd.core.events import Settled
from safetyd.core.proposal import Proposal
from safetyd.core.telemetry import Outcome

MAX_WORDS: Final = 64  # chains, episodes and tasks of one agent, each
MAX_COMMON: Final = 1000  # models, and dependencies, of all agents
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


class Vocabulary(msgspec.Struct):
    """Every word that is remembered, but for sessions, which have an end of their own."""

    agents: dict[str, Words] = {}  # of those that use any
    models: Heard = {}
    dependencies: Heard = {}

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
            and (said.model is None or said.model in self.models)
            and (said.dependency is None or said.dependency in self.dependencies)
        )

    def too_many(self, agent: str, said: Proposal, t: float) -> Iterator[tuple[str, int]]:
        """Yield each kind of which a proposal has one word too many, and how many there may be."""
        mine = self.of(agent)
        for kind, word, heard, most in (
            ("chain", said.chain, mine.chains, MAX_WORDS),
            ("episode", said.episode, mine.episodes, MAX_WORDS),
            ("task", said.task, mine.tasks, MAX_WORDS),
            ("model", said.model, self.models, MAX_COMMON),
            ("dependency", said.dependency, self.dependencies, MAX_COMMON),
        ):
            if word is not None and not fits(heard, word, most, t):
                yield kind, most

    def take(self, agent: str, said: Proposal, t: float) -> None:
        """Remember the words of a proposal."""
        chain, episode = said.chain, said.episode
        if said.model is said.dependency is said.task is chain is episode is None:
            return
        self.take_outcome(agent, said, t)
        if chain is not None:
            hear(self._mine(agent).chains, chain, MAX_WORDS, t)
        if episode is not None:
            self._mine(agent).take_episode(episode, said.session, t)

    def take_outcome(self, agent: str, said: Proposal | Outcome, t: float) -> None:
        """Remember the words that an outcome can have as well, if they fit."""
        if said.model is not None:
            hear(self.models, said.model, MAX_COMMON, t)
        if said.dependency is not None:
            hear(self.dependencies, said.dependency, MAX_COMMON, t)
        if said.task is not None:
            hear(self._mine(agent).tasks, said.task, MAX_WORDS, t)

    def refresh(self, settled: Settled) -> None:
        """Take note that a chain and a task are in use, if they are known."""
        mine = self.of(settled.agent)
        for heard, word in ((mine.chains, settled.chain), (mine.tasks, settled.task)):
            if word in heard:
                hear(heard, word, MAX_WORDS, settled.t)

    def known(self, settled: Settled) -> Settled:
        """Return an outcome without the words that are not remembered."""
        mine = self.of(settled.agent)
        strange = {
            kind: None
            for kind, word, heard in (
                ("chain", settled.chain, mine.chains),
                ("task", settled.task, mine.tasks),
                ("model", settled.model, self.models),
                ("dependency", settled.dependency, self.dependencies),
            )
            if word is not None and word not in heard
        }
        return msgspec.structs.replace(settled, **strange) if strange else settled

    def _mine(self, agent: str) -> Words:
        mine = self.agents.get(agent)
        if mine is None:
            mine = self.agents[agent] = Words()
        return mine


def fits(heard: Heard, word: str, most: int, t: float) -> bool:
    """Say whether a word is known, or may become so."""
    if word in heard or len(heard) < most:
        return True
    return next(iter(heard.values())) + FORGET_S <= t


def hear(heard: Heard, word: str, most: int, t: float) -> None:
    """Remember a word, if it fits."""
    last_t = heard.get(word)
    if last_t is None:
        if fits(heard, word, most, t):
            _forget(heard, t)
            heard[word] = t
    elif t - last_t >= REFRESH_S:
        del heard[word]
        heard[word] = t


def _forget(heard: Heard, t: float) -> None:
    while heard and next(iter(heard.values())) + FORGET_S <= t:
        del heard[next(iter(heard))]
