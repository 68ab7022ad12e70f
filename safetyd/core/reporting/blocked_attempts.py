"""Blocked attempts on safetyd itself and blocked dangerous commands, for operators."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.anonymous_pool import counted_as
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import NameForgotten, PersonSeen
from safetyd.core.guards.gate.own_config import OWN
from safetyd.core.messages.verdict import BLOCK

RECENT_S: Final = 3600.0
MAX_TIMES: Final = 1000  # of each agent
ACK: Final = "ack"  # how an operator acknowledges

_DANGEROUS: Final = ("gate.blocklist:", "gate.shell:irreversible")


class OwnAttempts(msgspec.Struct, frozen=True):
    """Blocked attempts of an agent on safetyd's own resources since the last acknowledgement."""

    agent: str
    count: int
    since: datetime
    id: str  # of the last one


class DangerousCommands(msgspec.Struct, frozen=True):
    """Blocked dangerous commands of an agent in the last hour."""

    agent: str
    count: int


class _Times(msgspec.Struct):
    agent: str
    times: list[float]


class BlockedAttemptsState(msgspec.Struct):
    """By agent; agents without a key count as one."""

    own: dict[str, OwnAttempts] = {}
    dangerous: dict[str, _Times] = {}
    acknowledged_t: float | None = None


class BlockedAttempts(Actor):
    """Stores blocked attempts until an operator acknowledges them or an hour has passed."""

    name = "blocked_attempts"
    _state: BlockedAttemptsState

    def __init__(self) -> None:
        self._state = BlockedAttemptsState()
        self.hears = hearing(
            on(Decided, self._decided), on(PersonSeen, self._seen), on(NameForgotten, self._gone)
        )

    @property
    def own(self) -> tuple[OwnAttempts, ...]:
        return tuple(self._state.own.values())

    def dangerous(self, t: float) -> Iterator[DangerousCommands]:
        for one in self._state.dangerous.values():
            if count := sum(t - then < RECENT_S for then in one.times):
                yield DangerousCommands(one.agent, count)

    def acknowledged(self, t: float) -> bool:
        """Return whether an operator acknowledged after `t`."""
        return self._state.acknowledged_t is not None and self._state.acknowledged_t > t

    def _decided(self, event: Decided) -> None:
        if event.decision is not BLOCK or event.stranger or event.proposal.dry_run:
            return
        rules = [verdict.rule for verdict in event.verdicts if verdict.decision is BLOCK]
        who = counted_as(event)
        if OWN in rules:
            before = self._state.own.get(who)
            count, since = (before.count, before.since) if before else (0, event.at)
            self._state.own[who] = OwnAttempts(event.agent, count + 1, since, event.id)
        if any(rule.startswith(_DANGEROUS) for rule in rules):
            known = self._state.dangerous.get(who)
            times = known.times if known else []
            recent = [then for then in times[-MAX_TIMES + 1 :] if event.t - then < RECENT_S]
            self._state.dangerous[who] = _Times(event.agent, [*recent, event.t])

    def _seen(self, event: PersonSeen) -> None:
        if event.how == ACK:
            self._state.own.clear()
            self._state.acknowledged_t = event.t

    def _gone(self, event: NameForgotten) -> None:
        self._state.own.pop(event.agent, None)
        self._state.dangerous.pop(event.agent, None)
