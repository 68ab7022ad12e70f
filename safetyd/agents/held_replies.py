"""Sends final decisions about requests: to agents that wait, and on the bus."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from safetyd.agents.commits_before import NO_COMMITS, CommitsBefore, commit_first
from safetyd.agents.emergency_stop import StopFlag
from safetyd.bus.publisher import Publisher, Replies
from safetyd.core.approvals.final_decisions import HELD, Conclusion
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.guards.stop import describe
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Severity

MAX_HELD: Final = 64  # replies held for one proposal; after that, the oldest is dropped

Shape = Callable[[Decision, Request | None], object]


class HeldReply(NamedTuple):
    """A reply that is held. It will contain the decision, or the result of `shape`."""

    publisher: Replies
    reply: bytes
    shape: Shape | None = None


class HeldReplies:
    """Holds replies until a request ends. A restart drops them; then agents propose again."""

    def __init__(
        self,
        publishers: Mapping[bool, Publisher],
        stop_flag: StopFlag,
        commits: CommitsBefore = NO_COMMITS,
    ) -> None:
        self._commits = commits
        self._stop_flag = stop_flag
        self._publishers = publishers  # the key is True for anonymous agents
        self._held: dict[tuple[str, str], list[HeldReply]] = {}

    def hold(self, request: Request, id_: str, held: HeldReply) -> bool:
        """Hold a reply until the request ends. Return False if `id_` is of another request."""
        if id_ not in (request.asked.id, *request.joined):
            return False
        waiting = self._held.setdefault((request.agent, id_), [])
        waiting.append(held)
        del waiting[:-MAX_HELD]
        return True

    def drop(self, agent: str, id_: str, reply: bytes) -> None:
        """Drop a held reply that the agent no longer waits for."""
        left = [held for held in self._held.pop((agent, id_), []) if held.reply != reply]
        if left:
            self._held[agent, id_] = left

    def waits(self, request: Request) -> bool:
        """Return True if an agent waits for the answer to the proposal that made the request."""
        return (request.agent, request.asked.id) in self._held

    def conclude(self, state: EngineState, given: Sequence[Conclusion]) -> Callable[[], None]:
        """Return a function that sends final decisions. Call it once they are durable."""
        prepared = [self._prepared(state, *each) for each in given]

        def send() -> None:
            for tell in prepared:
                tell()

        return send

    def _prepared(
        self, state: EngineState, request: Request, decision: Decision
    ) -> Callable[[], None]:
        """Return a function that sends a decision, after a commit if one must come first."""
        tell = partial(self._tell, decision, request)
        if not decision.allowed:
            return tell
        first = commit_first(state, decision.agent, decision.id)
        return partial(self._commits.after, decision.agent, decision.id, first, tell)

    def _tell(self, decision: Decision, request: Request) -> None:
        decision = self._permitted(decision)
        publisher = self._publishers.get(request.asked.keyless)
        waiting = self._held.pop((decision.agent, decision.id), [])
        if publisher is not None:
            publisher.decide(b"", decision)
            publisher.soon()
        for held in waiting:
            if held.shape is None:
                held.publisher.reply(held.reply, decision)
            else:
                held.publisher.answer(held.reply, held.shape(decision, request))

    def _permitted(self, decision: Decision) -> Decision:
        """Return a block if a stop began before an allow was sent. The approval stays valid."""
        stop = self._stop_flag.holds(decision.agent) if decision.allowed else None
        if stop is None:
            return decision
        reason = f"{HELD}{describe(stop)}"
        return msgspec.structs.replace(
            decision,
            decision=Severity.BLOCK,
            cause="stopped",
            reason=reason,
            claim_required=False,
            expires_at=None,
            agent_message="An operator approved this, but you are stopped. Propose it again later.",
        )
