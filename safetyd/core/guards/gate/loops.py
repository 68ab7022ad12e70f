"""Loop detection: counts the screen states that an agent visited, and new actions there."""

import hashlib
from collections.abc import Callable
from typing import Final, Literal, TypeVar

import msgspec

from safetyd.core.messages.binding import diff_of
from safetyd.core.messages.proposal import Observation, Proposal

# Per agent: 64 episodes, 64 sessions without episodes, and the implicit session.
MAX_EPISODES: Final = 129
RING: Final = 256  # maximum number of states, and of signatures, per episode
SELDOM: Final = 10

LoopCounts = Literal["repeats", "states"]

_PATIENT: Final = frozenset({"scroll", "key", "wait", "screenshot"})
Value = TypeVar("Value")
_encode = msgspec.msgpack.Encoder().encode


class Visit(msgspec.Struct, frozen=True):
    """One proposal, for loop detection."""

    agent: str
    episode: str
    session: str | None
    state: str
    signature: str
    patient: bool  # its type is often repeated, so only every tenth visit counts


class Episode(msgspec.Struct):
    """States and actions since the episode began, oldest first."""

    session: str | None
    seen: dict[str, None] = {}
    visits: dict[str, int] = {}
    patient_in_a_row: int = 0


class Loops:
    """Visits per agent and episode.

    Up to 129 episodes per agent are remembered. Beyond that, the least recently used one is
    forgotten.
    """

    def __init__(self, counts: LoopCounts) -> None:
        self._literal = counts == "states"
        self._agents: dict[str, dict[str, Episode]] = {}

    def visits_with(self, visit: Visit) -> int:
        """Return the number of visits to the state, including this one. 0 if it does not count."""
        episode = self._agents.get(visit.agent, {}).get(visit.episode) or Episode(visit.session)
        if not self._counts(visit, episode):
            return 0
        return 1 if self._is_progress(visit, episode) else episode.visits.get(visit.state, 0) + 1

    def add(self, visit: Visit) -> None:
        episode = self._enter(visit)
        counts = self._counts(visit, episode)
        if self._is_progress(visit, episode):
            episode.visits.clear()
        _push(episode.seen, visit.signature, None)
        if counts:
            _push(episode.visits, visit.state, episode.visits.get(visit.state, 0) + 1)
        episode.patient_in_a_row = episode.patient_in_a_row + 1 if visit.patient else 0

    def forget(self, agent: str, *, session: str | None = None, episode: str | None = None) -> None:
        """Drop an agent's episodes: all of them, those of one session, or one episode."""
        kept = {
            name: known
            for name, known in self._agents.pop(agent, {}).items()
            if (session is not None and session != known.session)
            or (episode is not None and name != _episode_key(episode))
        }
        if kept:
            self._agents[agent] = kept

    def close(self, agent: str, session: str) -> None:
        """Drop the visits of a session that belong to no episode."""
        episodes = self._agents.get(agent, {})
        if episodes.pop(_session_key(session or None), None) and not episodes:
            del self._agents[agent]

    def save(self) -> Callable[[], bytes]:
        saved = _encode(self._agents)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._agents = msgspec.msgpack.decode(saved, type=dict[str, dict[str, Episode]])

    def _enter(self, visit: Visit) -> Episode:
        episodes = self._agents.setdefault(visit.agent, {})
        episode = episodes.pop(visit.episode, None) or Episode(visit.session)
        episode.session = visit.session
        _push(episodes, visit.episode, episode, most=MAX_EPISODES)
        return episode

    def _counts(self, visit: Visit, episode: Episode) -> bool:
        if self._literal or not visit.patient:
            return True
        return (episode.patient_in_a_row + 1) % SELDOM == 0

    def _is_progress(self, visit: Visit, episode: Episode) -> bool:
        return not self._literal and visit.signature not in episode.seen


def visit_of(agent: str, kind: str, proposal: Proposal, text: str) -> Visit | None:
    """Return the visit that a proposal makes, or None if it has no observation.

    `kind` is the resolved type, and `text` the text with secrets masked.
    """
    state = state_hash(proposal.observation) if proposal.observation else ""
    if not state:
        return None
    signature = _signature(state, kind, text, proposal)
    session = proposal.session or None
    episode = _session_key(session)
    if proposal.episode is not None:
        episode = _episode_key(proposal.episode)
    return Visit(agent, episode, session, state, signature, kind in _PATIENT)


def state_hash(observation: Observation) -> str:
    """Return the hash of the observed state, or an empty string if nothing was observed."""
    parts = [observation.window_title, observation.app_name, observation.url]
    if observation.screen_hash:
        parts.append(observation.screen_hash)
    return _short_hash("|".join(parts).encode("utf-8", "replace")) if any(parts) else ""


def _signature(state: str, kind: str, text: str, proposal: Proposal) -> str:
    """Return the hash of an action in a state. Different paths or diffs make a different action."""
    done = (state, kind, proposal.target, text)
    diff = None if proposal.context is None else diff_of(proposal)
    if diff is None and not proposal.paths:
        return _short_hash(_encode(done))
    return _short_hash(_encode((*done, proposal.paths, diff)))


def _short_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _episode_key(episode: str) -> str:
    return f"episode {episode}"


def _session_key(session: str | None) -> str:
    return "session" if session is None else f"session {session}"


def _push(ring: dict[str, Value], key: str, value: Value, most: int = RING) -> None:
    """Move `key` to the end, and drop the first entry if there are more than `most`."""
    ring.pop(key, None)
    ring[key] = value
    if len(ring) > most:
        del ring[next(iter(ring))]
