"""Limits on pending requests, of one agent and of all anonymous agents."""

import msgspec
import pytest

from safetyd.core.approvals.request import ApprovalsConfig, size_of
from safetyd.core.approvals.request_index import RequestIndex
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.request_events import Superseded
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory, push
from tests.story import at, tick

BYTES = MAX_MESSAGE_BYTES
LARGE = msgspec.Raw(b'{"diff":"%b"}' % (b"x" * (BYTES // 2)))


def policy(**bounds: int) -> Policy:
    return Policy(approvals=ApprovalsConfig(**bounds))


def test_bytes_of_what_waits_of_one_agent_have_a_bound() -> None:
    queue = QueueStory(policy(max_pending_bytes_per_agent=BYTES))
    asked = queue.asks(0, "p1", context=LARGE)

    refused = queue.asks(1, "p2", text="git push 2", context=LARGE)
    small = queue.asks(2, "p3", text="git push 3")
    other = queue.asks(3, "p4", agent="ops", context=LARGE)

    assert (refused.decision, refused.cause) == (Severity.BLOCK, "rate_limit")
    assert refused.limit_id == "approvals.agent_bytes:code"
    assert {asked.status, small.status, other.status} == {"pending"}


@pytest.mark.parametrize(
    ("bounds", "rule"),
    [
        ({"max_pending_keyless": 1}, "approvals.keyless"),
        ({"max_pending_bytes_keyless": BYTES}, "approvals.keyless_bytes"),
    ],
)
def test_agents_without_a_key_share_a_bound_whatever_they_are_called(
    bounds: dict[str, int], rule: str
) -> None:
    queue = QueueStory(policy(**bounds))

    first = queue.proposes(_keyless("a"))
    second = queue.proposes(_keyless("b"))
    keyed = queue.asks(0, agent="ops", context=LARGE)

    assert (first.status, keyed.status) == ("pending", "pending")
    assert (second.decision, second.limit_id) == (Severity.BLOCK, rule)
    assert next(iter(bounds)) in second.reason


def test_what_asks_no_longer_makes_room() -> None:
    queue = QueueStory(policy(max_pending_keyless=1))
    first = queue.proposes(_keyless("a")).request_id or ""
    assert queue.proposes(_keyless("b")).decision is Severity.BLOCK

    queue.happens(Superseded(at=at(1), t=1.0, request_id=first, agent="a", by_id="p2"))

    assert queue.proposes(_keyless("c", 2)).status == "pending"


def test_sums_are_the_same_after_a_replay_and_a_checkpoint() -> None:
    queue = QueueStory()
    for number, agent in enumerate("abca"):
        queue.proposes(_keyless(agent, id_=f"p{number}", text=f"git push {number}"))
    queue.asks(1, "mine", text="git push mine")
    joined = queue.asks(2, "again", text="git push mine")
    queue.answers(3, queue.proposes(_keyless("b", id_="p1", text="git push 1")).request_id)
    queue.asks(4, "soon", text="git push soon", timeout_s=1.0)
    queue.happens(tick(10))

    restored = Engine.restore(queue.engine.save()()).approvals

    sums = _sums(queue.engine.approvals)
    assert sums == _sums(restored) == _sums(queue.replayed().approvals)
    assert sums["keyless"][0] == 3
    assert sums["code"] == (1, size_of(queue.request(joined.request_id).asked.proposal))


def _keyless(agent: str, t: float = 0, id_: str = "p1", **fields: object) -> Proposed:
    return push(t, id_, agent, keyless=True, context=LARGE, **fields)


def _sums(index: RequestIndex) -> dict[str, tuple[int, int]]:
    found = {agent: index.waiting(agent) for agent in ("a", "b", "c", "code")}
    found |= {"all": index.waiting(), "keyless": index.keyless}
    return {name: (waiting.count, waiting.bytes) for name, waiting in found.items()}
