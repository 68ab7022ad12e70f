"""Who has been heard: every agent ever seen, and a bound on names that no key protects.

Names are never forgotten, because forgetting one would reset its limits; one too many is refused.
"""

from collections.abc import Callable, Sequence

import msgspec

from safetyd.core.events import Decided, Event, Proposed, Reported, Resumed, Stopped
from safetyd.core.kinds import Kind
from safetyd.core.telemetry import Heartbeat, Outcome
from safetyd.core.verdict import ALLOWED, Severity, Verdict

# An agent's allowed actions that are still without an outcome; older ones are only counted.
MAX_OPEN_ACTIONS = 64


class Agent(msgspec.Struct, gc=False):
    """What is known of one agent."""

    keyless: bool
    heard_t: float
    allowed: int = 0
    asked: int = 0
    blocked: int = 0
    failed: int = 0
    stop_epoch: int = 0
    open_actions: list[str] = []
    unreported: int = 0  # dropped off `open_actions` without an outcome


class KeysState(msgspec.Struct):
    agents: dict[str, Agent] = {}
    keyless: int = 0
    stop_epoch: int = 0  # the newest that anybody was told of


class KeysGuard:
    name = "keys"
    hears: tuple[type[Event], ...] = (Decided, Reported, Stopped, Resumed)

    def __init__(self, max_agents: int) -> None:
        self._max_agents = max_agents
        self._state = KeysState()

    @property
    def agents(self) -> dict[str, Agent]:
        return self._state.agents

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        if not proposed.keyless or self._state.keyless < self._max_agents:
            return ALLOWED
        if proposed.agent in self._state.agents:
            return ALLOWED
        reason = (
            f"{self._max_agents} agents without a key are known and no more are taken: "
            f"give this one a key with `safetyd agent add {proposed.agent}` or raise bus.max_agents"
        )
        return Verdict(
            "keys",
            Severity.BLOCK,
            "keys.agents",
            reason,
            cause="rate_limit",
            limit_id="keys.agents",
        )

    def observe(self, event: Event) -> Sequence[Event]:
        match event:
            case Decided():
                if event.first and not _unknown(event):
                    self._count(self._heard(event.agent, event.t, keyless=event.keyless), event)
            case Reported():
                if not event.keyless or event.agent in self._state.agents:
                    self._note(self._heard(event.agent, event.t, keyless=event.keyless), event)
            case Stopped() | Resumed():
                self._state.stop_epoch = max(self._state.stop_epoch, event.epoch)
        return ()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=KeysState)

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
        if event.decision is Severity.ALLOW:
            agent.allowed += 1
            agent.open_actions.append(event.id)
            if len(agent.open_actions) > MAX_OPEN_ACTIONS:
                del agent.open_actions[0]
                agent.unreported += 1
        elif event.decision is Severity.ASK:
            agent.asked += 1
        else:
            agent.blocked += 1

    def _note(self, agent: Agent, event: Reported) -> None:
        match event.telemetry:
            case Outcome(id=id_, ok=ok):
                agent.failed += not ok
                if id_ in agent.open_actions:
                    agent.open_actions.remove(id_)
            case Heartbeat(stop_epoch=int(epoch)) if epoch <= self._state.stop_epoch:
                agent.stop_epoch = max(agent.stop_epoch, epoch)


def _unknown(event: Decided) -> bool:
    return bool(event.verdicts) and any(v.rule == "keys.agents" for v in event.verdicts)
