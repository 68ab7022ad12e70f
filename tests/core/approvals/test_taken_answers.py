"""When guards consume limits for actions that need approval (see guards.md)."""

from typing import Any, Final

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.guard_events import BreakerMoved, NameForgotten
from safetyd.core.events.request_events import Allowed, Cancelled, Dropped, Expired
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.kernel import State
from safetyd.core.messages.proposal import Target
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, outcome, propose, resume, stop, tick

DEAR: Final[dict[str, Any]] = {"cost_usd": 2.0, "chain": "c1", "session": "s1"}


def reserved(engine: Engine, t: float) -> dict[str, float]:
    """Return the reserved money by scope, in dollars."""
    standings = engine.guards.budget.standings(at(t))
    return {one.scope: one.account.reserved / 1e9 for one in standings}


def pending(engine: Engine, t: float) -> dict[str, float]:
    """Return what actions that need approval would cost, by scope, in dollars."""
    guard = engine.guards.budget
    sums = guard.pending()
    return {one.scope: sums.of(one) / 1e9 for one in guard.standings(at(t)) if sums.of(one)}


EVERYWHERE: Final = {"day": 2.0, "agent": 2.0, "chain": 2.0, "session": 2.0}


@pytest.mark.parametrize("again", ["", "p2"], ids=["asked once", "asked again"])
def test_pending_money_is_shown_once_in_every_scope_and_reserved_in_none(again: str) -> None:
    queue = QueueStory()

    queue.asks(0, **DEAR)
    if again:
        queue.asks(1, again, **DEAR)

    assert pending(queue.engine, 1) == EVERYWHERE
    assert not any(reserved(queue.engine, 1).values())
    restored = Engine.restore(queue.engine.save()())
    assert pending(restored, 1) == EVERYWHERE
    assert not any(reserved(restored, 1).values())


@pytest.mark.parametrize("waits", [True, False])
def test_money_is_taken_from_the_day_once_the_action_may_be_done(waits: bool) -> None:  # noqa: FBT001
    queue = QueueStory()
    asked = queue.asks(0, **DEAR)
    queue.answers(1, asked.request_id, waits=waits)

    if not waits:
        assert not any(reserved(queue.engine, 1).values()), "who proposes it again brings its own"
        assert queue.asks(2, "p2", **DEAR).allowed

    held = reserved(queue.engine, 2)
    assert (held["chain"], held["session"], held["day"]) == (2.0, 2.0, 2.0)


def denied(queue: QueueStory, request_id: str) -> None:
    queue.answers(1, request_id, "denied")


def expired(queue: QueueStory, _request_id: str) -> None:
    assert any(isinstance(event, Expired) for event in queue.happens(tick(8 * 86_400.0)))


def cancelled(queue: QueueStory, request_id: str) -> None:
    queue.happens(Cancelled(at=at(1), t=1.0, request_id=request_id, by="alice", via="cli"))


def held_back(queue: QueueStory, request_id: str) -> None:
    queue.happens(stop(1))
    queue.answers(2, request_id)


@pytest.mark.parametrize("end", [denied, expired, cancelled, held_back])
def test_what_will_not_be_done_gives_its_money_back(end) -> None:
    queue = QueueStory()
    asked = queue.asks(0, **DEAR)

    end(queue, asked.request_id)

    assert not any(reserved(queue.engine, 0).values())
    assert not pending(queue.engine, 0)
    assert queue.engine.guards.safe_mode.status("code", 2.0).state is State.READY


def test_what_was_spent_while_an_action_was_pending_may_leave_no_room_for_it() -> None:
    queue = QueueStory(Policy(budget=BudgetConfig(chain_usd=3.0)))
    asked = queue.asks(0, **DEAR)
    assert queue.proposes(propose(1, id="p2", cost_usd=2.0, chain="c1")).allowed

    queue.answers(2, asked.request_id, waits=True)

    held = queue.asks(3, **DEAR)
    assert (held.decision, held.cause) == ("block", "budget")


def test_an_approved_action_is_under_way_once_it_is_begun_and_not_before() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    assert queue.engine.actions.under_way("code") == ()

    queue.answers(1, asked.request_id, waits=True)

    assert queue.engine.actions.under_way("code") == ("p1",)
    queue.happens(outcome(2))
    assert queue.engine.actions.under_way("code") == ()


def test_an_agent_is_counted_as_asked_and_then_as_allowed() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(1, asked.request_id, waits=True)

    known = queue.engine.keys.agents["code"]

    assert (known.asked, known.allowed) == (1, 1)


def dispatched(queue: QueueStory, t: float, id_: str) -> str:
    """Propose a dispatch that needs approval."""
    proposed = propose(t, "ops", id_, "dispatch", target=Target(name="worker"), confidence=0.1)
    return queue.proposes(proposed).request_id or ""


def test_a_round_begins_and_the_cooldown_runs_from_when_a_dispatch_is_approved() -> None:
    queue = QueueStory()
    request_id = dispatched(queue, 0, "p1")
    iterations, cooldown = queue.engine.guards.iterations, queue.engine.guards.cooldown
    assert (iterations.count("ops"), cooldown.cooling("ops", 0)) == (0, {})

    queue.answers(100, request_id, waits=True)

    assert iterations.count("ops") == 1
    assert cooldown.cooling("ops", 100) == {"worker": 60.0}


def test_an_approved_action_takes_a_probe_of_its_breaker() -> None:
    queue = QueueStory()
    asked = queue.asks(0, dependency="api")
    moved = BreakerMoved(at=at(1), t=1.0, breaker="api", state="open", reason="5 of 5 failed")
    queue.happens(moved)
    assert probes(queue) == 0

    queue.answers(1_000, asked.request_id, waits=True)

    assert probes(queue) == 1


def probes(queue: QueueStory) -> int:
    (breaker,) = queue.engine.guards.breaker.tripped
    return breaker.probes_out


def test_a_kernel_executes_from_when_a_person_approves_until_the_outcome() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    assert state(queue) is State.READY

    queue.answers(1, asked.request_id, waits=True)
    assert state(queue) is State.EXECUTING

    queue.happens(outcome(2))
    assert state(queue) is State.READY


def state(queue: QueueStory) -> State:
    return queue.engine.guards.safe_mode.status("code", 2.0).state


def test_what_follows_is_never_written_down_and_the_same_on_replay() -> None:
    queue = QueueStory()
    queue.answers(1, queue.asks(0, **DEAR).request_id, waits=True)
    held = queue.asks(2, "p2", text="git push other", **DEAR)
    queue.happens(stop(3))
    queue.answers(4, held.request_id, waits=True)
    queue.happens(resume(5))

    assert not [e for e in queue.journal if isinstance(e, (Allowed, Dropped))]
    assert replayed_actors(queue) == queue.engine.save()().actors


def replayed_actors(queue: QueueStory) -> dict[str, bytes]:
    return queue.replayed().save()().actors


def test_pending_money_of_a_name_that_is_forgotten_is_not_spent() -> None:
    queue = QueueStory()
    queue.asks(0, **DEAR)

    queue.happens(NameForgotten(at=at(1), t=1.0, agent="code"))

    day = next(queue.engine.guards.budget.standings(at(1)))
    assert (day.spent, pending(queue.engine, 1)) == (0, {})
