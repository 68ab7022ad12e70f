"""Requests and answers, for tests."""

from typing import Any, Literal

import msgspec

from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.decision import Decision
from safetyd.core.policy import Policy
from tests.story import at, propose

Answer = Literal["approved", "denied"]


def push(t: float, id: str = "p1", agent: str = "code", **fields: object) -> Proposed:  # noqa: A002
    """Propose an action that needs approval."""
    fields = {"type": "push", "text": "git push origin main", **fields}
    return propose(t, agent, id, **fields)  # type: ignore[arg-type]


class QueueStory:
    """An engine, and operators who answer."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.engine = Engine(policy or Policy())
        self.journal: list[Event] = []

    def asks(self, t: float, id: str = "p1", **fields: object) -> Decision:  # noqa: A002
        return self.proposes(push(t, id, **fields))  # type: ignore[arg-type]

    def proposes(self, proposed: Proposed, *, permission: bool = False) -> Decision:
        decision, events = self.engine.decide(
            msgspec.structs.replace(proposed, permission=permission)
        )
        self.journal += events
        return decision

    def happens(self, *events: Event) -> list[Event]:
        caused = [lasting for event in events for lasting in self.engine.handle(event)]
        self.journal += caused
        return caused

    def answers(
        self, t: float, request_id: str | None, answer: Answer = "approved", **fields: Any
    ) -> Decision:
        """Answer a request. Return the final decision on its first proposal."""
        request = self.request(request_id)
        self.person_answers(t, request, answer, **fields)
        return self.final(request.asked.id, request.agent)

    def person_answers(
        self, t: float, request: Request, answer: Answer = "approved", **fields: Any
    ) -> None:
        said = {"by": "alice", "via": "cli", **fields}
        self.happens(
            Answered(
                at=at(t),
                t=float(t),
                request_id=request.id,
                agent=request.agent,
                id=request.asked.id,
                answer=answer,
                **said,
            )
        )

    def request(self, request_id: str | None) -> Request:
        request = self.engine.approvals.find(request_id or "")
        assert request is not None
        return request

    def final(self, id: str, agent: str = "code") -> Decision:  # noqa: A002
        decision = self.engine.recall.last(agent, id)
        assert decision is not None
        return decision

    def replayed(self) -> Engine:
        engine = Engine(self.engine.policy)
        engine.replay(self.journal)
        return engine
