"""How long a tool call of a coding agent waits for an operator."""

from collections.abc import Callable
from typing import Final

from safetyd.core.messages.decision import Decision
from safetyd.core.recipients import ChannelKind, TellingConfig, quiet_until
from safetyd.hosts.hosts_config import HostsConfig

LONG_S: Final = 240.0  # if somebody who is awake gets a message that they can answer
BRIEF_S: Final = 55.0
MAX_SESSIONS: Final = 1024  # sessions that are remembered
_ANSWERED_ON: Final[frozenset[ChannelKind]] = frozenset({"email", "sms", "chat", "desktop"})


class WaitTimes:
    """Chooses the time for each call, unless `hosts.wait_s` sets it.

    After a wait without an answer, later calls of the session wait briefly until an operator
    answers something. `answers` returns the number of answers so far.
    """

    def __init__(
        self,
        config: Callable[[], HostsConfig],
        telling: Callable[[], TellingConfig],
        answers: Callable[[], int],
    ) -> None:
        self._config = config
        self._telling = telling
        self._answers = answers
        self._in_vain: dict[tuple[str, str], int] = {}  # the number of answers then, by session

    def wait_s(self, session: str, pending: Decision) -> float:
        """Return how long a call waits; 0 if nobody can be notified in that time."""
        config = self._config()
        wait_s = config.wait_s
        if wait_s is None:
            waited = self._in_vain.get((pending.agent, session)) == self._answers()
            wait_s = LONG_S if not waited and self._is_somebody_awake(pending) else BRIEF_S
        return wait_s if config.wait_if_unreachable or pending.answerable_within(wait_s) else 0.0

    def unanswered(self, session: str, agent: str) -> None:
        """Record that a call waited in vain."""
        self._in_vain.pop((agent, session), None)
        self._in_vain[agent, session] = self._answers()
        if len(self._in_vain) > MAX_SESSIONS:
            del self._in_vain[next(iter(self._in_vain))]

    def _is_somebody_awake(self, pending: Decision) -> bool:
        """Return True if somebody is awake who can answer on one of their channels."""
        telling, at = self._telling(), pending.at
        return any(
            (at is None or quiet_until(who.quiet, at) is None)
            and any(telling.channels.get(channel) in _ANSWERED_ON for channel in who.channels)
            for who in telling.recipients
            if who.hears_of(pending.agent)
        )
