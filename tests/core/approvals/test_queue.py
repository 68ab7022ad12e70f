"""Requests: opened, joined, answered, used, expired."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from safetyd.core.approvals import request_index
from safetyd.core.approvals.assurance import approvable
from safetyd.core.approvals.request import ApprovalsConfig, KeptChange
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.history_events import Committed
from safetyd.core.events.request_events import (
    Cancelled,
    Deferred,
    DenialLifted,
    Dropped,
    Expired,
    Lapsed,
    Released,
)
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory, push
from tests.story import at, propose, resume, stop, tick

DAY_S = 86_400.0
MINUTE_S = 60.0


@pytest.mark.req("S3.17")
def test_a_restricted_action_opens_a_request() -> None:
    queue = QueueStory()

    decision = queue.asks(0)

    assert (decision.decision, decision.status) == (Severity.ASK, "pending")
    assert decision.request_id is not None
    assert decision.request_id.startswith("req_")
    assert "A person has been asked" in decision.agent_message
    assert [request.id for request in queue.engine.approvals.pending()] == [decision.request_id]


def test_a_dry_run_asks_nobody() -> None:
    queue = QueueStory()

    decision = queue.asks(0, dry_run=True)

    assert (decision.status, decision.request_id) == ("final", None)
    assert queue.engine.approvals.pending_count() == 0


@pytest.mark.req("S3.19")
def test_an_approval_goes_back_with_its_words() -> None:
    queue = QueueStory()
    asked = queue.asks(0)

    final = queue.answers(5, asked.request_id, words="looks good")

    assert (final.decision, final.status, final.cause) == (
        Severity.ALLOW,
        "final",
        "human_approved",
    )
    assert final.reason.endswith("by alice: looks good")
    assert final.claim_required
    assert final.expires_at == at(5) + timedelta(days=1)


def test_a_denial_blocks_with_its_reason() -> None:
    queue = QueueStory()
    asked = queue.asks(0)

    final = queue.answers(5, asked.request_id, "denied", words="not on a Friday")

    assert (final.decision, final.cause) == (Severity.BLOCK, "human_denied")
    assert final.reason.endswith("by alice: not on a Friday")


def test_the_first_answer_wins() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(5, asked.request_id, "denied", by="alice")

    final = queue.answers(6, asked.request_id, "approved", by="bob")

    assert final.cause == "human_denied"
    request = queue.request(asked.request_id)
    assert request.answer is not None
    assert (request.state, request.answer.by) == ("denied", "alice")


@pytest.mark.req("S3.22")
@pytest.mark.parametrize(("wait", "minutes"), [(True, 60), (False, 1440)])
def test_silence_is_no_answer(wait: bool, minutes: int) -> None:  # noqa: FBT001
    queue = QueueStory()
    queue.asks(0, wait=wait)

    assert not any(isinstance(e, Expired) for e in queue.happens(tick(minutes * MINUTE_S - 1)))
    assert any(isinstance(e, Expired) for e in queue.happens(tick(minutes * MINUTE_S)))

    final = queue.final("p1")
    assert (final.decision, final.cause) == (Severity.BLOCK, "expired_no_response")
    assert "Do not act" in final.agent_message


def test_the_asker_may_name_another_time_up_to_thirty_days() -> None:
    queue = QueueStory()
    service = {"type": "start_service"}  # can be undone

    assert queue.asks(0, "p1", text="a", timeout_s=90.0).expires_at == at(90)
    assert queue.asks(0, "p2", text="b", timeout_s=0.2).expires_at == at(1)
    longest = queue.asks(0, "p3", text="c", timeout_s=0.0, **service)
    assert longest.expires_at == at(30 * DAY_S)
    longer = queue.asks(0, "p4", text="d", timeout_s=99 * DAY_S, **service)
    assert longer.expires_at == at(30 * DAY_S)


def test_the_same_action_in_other_words_joins_the_open_request() -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1")

    second = queue.asks(1, "p2", description="please")

    assert second.request_id == first.request_id
    assert queue.engine.approvals.pending_count() == 1
    assert queue.request(first.request_id).repeats == 1

    queue.answers(2, first.request_id)
    assert [queue.final(id_).cause for id_ in ("p1", "p2")] == ["human_approved", "superseded"]


def test_a_joined_proposal_extends_the_deadline() -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1", wait=True, timeout_s=5.0)

    second = queue.asks(3, "p2", wait=True, timeout_s=60.0)
    third = queue.asks(4, "p3", wait=True, timeout_s=1.0)

    assert (first.expires_at, second.expires_at, third.expires_at) == (at(5), at(63), at(63))
    assert not any(isinstance(e, Expired) for e in queue.happens(tick(62)))
    assert any(isinstance(e, Expired) for e in queue.happens(tick(63)))
    assert queue.request(first.request_id).ends_t == 63


def test_of_those_that_wait_the_last_one_gets_the_approval() -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1", wait=True)
    queue.asks(1, "p2", wait=True)
    queue.asks(2, "p3", wait=True)
    queue.asks(3, "p4")

    queue.answers(4, first.request_id, waits=True)

    finals = {id_: queue.final(id_).cause for id_ in ("p1", "p2", "p3", "p4")}
    assert finals == dict.fromkeys(finals, "superseded") | {"p3": "human_approved"}
    assert queue.request(first.request_id).used == "p3"
    assert queue.engine.actions.find("code", "p3") is not None
    assert queue.replayed().save()() == queue.engine.save()()


@pytest.mark.parametrize("other", [{"digest": "sha256:2"}, {"keyless": True}], ids=str)
def test_what_is_not_quite_the_same_takes_no_request_over(other: dict[str, Any]) -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1", wait=True)
    queue.asks(1, "p2", wait=True, **other)

    queue.answers(2, first.request_id, waits=True)

    assert queue.request(first.request_id).used == "p1"


def test_the_reservation_of_the_first_proposal_is_released_at_the_end() -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1", wait=True)
    queue.asks(1, "p2", wait=True)
    queue.asks(2, "p3", wait=True)
    request = queue.request(first.request_id)

    assert (request.asked.id, request.opened, request.joined) == ("p3", "p1", ("p1", "p2"))
    ended = queue.engine.approvals.hears[Expired]
    caused = ended(Expired(at=at(9), t=9.0, request_ids=(request.id,))) or ()
    dropped = [event.id for event in caused if isinstance(event, Dropped)]
    assert dropped == ["p1"]


@pytest.mark.parametrize("words", ["", "not today"])
def test_without_an_approval_all_proposals_of_a_request_end_the_same(words: str) -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1", timeout_s=5.0)
    queue.asks(1, "p2", timeout_s=5.0)

    if words:
        queue.answers(2, first.request_id, "denied", words=words)
    else:
        queue.happens(tick(6))

    causes = {queue.final(id_).cause for id_ in ("p1", "p2")}
    assert causes == {"human_denied" if words else "expired_no_response"}


def test_a_repeated_pending_id_gets_the_same_answer() -> None:
    queue = QueueStory()
    first = queue.asks(0)

    again = queue.asks(3 * DAY_S)

    assert (again.request_id, again.status) == (first.request_id, "pending")
    assert queue.request(first.request_id).repeats == 0


@pytest.mark.req("S3.23")
def test_an_approval_is_used_once_by_the_same_action_in_a_later_cycle() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(5, asked.request_id)

    used = queue.asks(3600, "p7", description="in other words")
    assert (used.decision, used.cause, used.request_id) == (
        Severity.ALLOW,
        "human_approved",
        asked.request_id,
    )

    again = queue.asks(3601, "p8")
    assert (again.decision, again.status) == (Severity.ASK, "pending")
    assert again.request_id != asked.request_id


def test_the_id_that_asked_uses_its_approval_once_as_well() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(5, asked.request_id)

    assert queue.asks(6).allowed
    assert queue.asks(7).allowed, "the same id, told the same"
    assert queue.asks(8, "p2").status == "pending", "the approval is used up"


def test_what_another_id_used_is_not_allowed_to_the_one_that_asked() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(5, asked.request_id)
    assert queue.asks(6, "p2").allowed

    assert queue.asks(7, "p1").status == "pending"


def test_an_unused_approval_lapses() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(5, asked.request_id)

    caused = queue.happens(tick(DAY_S + 5))

    assert any(isinstance(event, Lapsed) for event in caused)
    assert queue.asks(DAY_S + 6, "p2").status == "pending"


def test_an_approval_during_a_stop_is_recorded_and_releases_nothing() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.happens(stop(1))

    final = queue.answers(2, asked.request_id)

    assert (final.decision, final.cause) == (Severity.BLOCK, "stopped")
    assert queue.request(asked.request_id).unused
    assert not queue.asks(3, "p2").allowed
    queue.happens(resume(4))
    assert queue.asks(5, "p3").cause == "human_approved"


def test_a_rule_that_was_not_shown_needs_a_new_approval() -> None:
    queue = QueueStory()
    asked = queue.proposes(push(0, "p1", confidence=0.95))
    queue.answers(5, asked.request_id)

    unsure = queue.proposes(push(6, "p2", confidence=0.1))

    assert unsure.status == "pending"
    assert unsure.request_id != asked.request_id
    assert unsure.triggered_rules == ("gate.confidence",)


def test_a_permission_covers_one_proposal_of_its_type_that_names_it() -> None:
    queue = QueueStory()
    asked = queue.proposes(propose(0, id="a1", type="push", text="git push a"), permission=True)
    queue.answers(5, asked.request_id)

    other = queue.asks(6, "p1", text="git push a")
    foreign = queue.asks(7, "p2", text="git push b", request_id=asked.request_id)
    named = queue.asks(8, "p3", text="git push a", request_id=asked.request_id)
    again = queue.asks(9, "p4", text="git push a", request_id=asked.request_id)

    assert [d.status for d in (other, foreign, named, again)] == [
        *("pending", "pending"),
        *("final", "pending"),
    ]
    assert named.cause == "human_approved"


@pytest.mark.parametrize("kind", ["run_shell", "send_email", "never_heard_of"])
def test_a_permission_request_must_contain_its_text(kind: str) -> None:
    queue = QueueStory()

    refused = queue.proposes(propose(0, id="a1", type=kind, description="x"), permission=True)

    assert (refused.decision, refused.status) == (Severity.BLOCK, "final")
    assert refused.triggered_rules[0] == "approvals.text"
    assert not queue.engine.approvals.pending_count()


def test_an_approval_of_a_proposal_covers_the_same_proposal_that_names_it_and_no_other() -> None:
    queue = QueueStory()
    asked = queue.asks(0, "p1")
    queue.answers(5, asked.request_id)

    other = queue.asks(6, "p2", text="git push elsewhere", request_id=asked.request_id)
    foreign = queue.asks(7, "p3", agent="mail", request_id=asked.request_id)
    same = queue.asks(8, "p4", request_id=asked.request_id)

    assert [d.status for d in (other, foreign, same)] == ["pending", "pending", "final"]
    assert same.cause == "human_approved"


def test_a_permission_request_needs_approval_even_if_the_action_is_allowed() -> None:
    queue = QueueStory()

    asked = queue.proposes(propose(0, type="read_file"), permission=True)

    assert (asked.status, asked.triggered_rules) == ("pending", ("approvals.asked",))


def test_an_agent_with_too_many_open_requests_is_refused() -> None:
    queue = QueueStory(Policy(approvals=ApprovalsConfig(max_pending_per_agent=2)))
    for number in range(2):
        assert queue.asks(0, f"p{number}", text=f"git push {number}").status == "pending"

    refused = queue.asks(0, "p2", text="git push 2")

    assert (refused.decision, refused.cause) == (Severity.BLOCK, "rate_limit")
    assert refused.limit_id == "approvals.agent:code"
    assert queue.proposes(push(0, agent="ops")).status == "pending"


def test_a_deferred_request_stays_pending_and_its_deadline_moves_along() -> None:
    queue = QueueStory()
    asked = queue.asks(0, wait=True)

    queue.happens(
        Deferred(at=at(60), t=60, request_id=asked.request_id or "", by="alice", until=at(3660))
    )

    request = queue.request(asked.request_id)
    assert request.pending
    assert request.deadline == at(7200)
    assert not any(isinstance(e, Expired) for e in queue.happens(tick(7199)))
    assert any(isinstance(e, Expired) for e in queue.happens(tick(7200)))


def test_a_cancelled_request_ends_for_everybody() -> None:
    queue = QueueStory()
    asked = queue.asks(0)

    queue.happens(
        Cancelled(at=at(1), t=1, request_id=asked.request_id or "", by="alice", via="cli")
    )

    assert queue.final("p1").cause == "cancelled"


def paused(t: float, agent: str = "code") -> Paused:
    return Paused(at=at(t), t=t, agent=agent, source="anomaly", by="safetyd", reason="odd clicks")


def test_people_are_asked_whether_an_agent_that_an_anomaly_paused_may_go_on() -> None:
    queue = QueueStory()
    queue.happens(paused(0), paused(1))

    (request,) = queue.engine.approvals.pending()
    assert (request.asked.type, request.deadline, request.repeats) == ("unpause", None, 1)
    assert not queue.proposes(propose(2, type="read_file")).allowed

    queue.person_answers(3, request)
    assert queue.proposes(propose(4, id="p2", type="read_file")).allowed


@pytest.mark.req("S1.36")
def test_a_denied_end_of_a_pause_keeps_the_pause_and_is_reported() -> None:
    queue = QueueStory()
    queue.happens(paused(0))
    (request,) = queue.engine.approvals.pending()

    queue.person_answers(1, request, "denied")

    told = [event for event in queue.journal if isinstance(event, SafetyEvent)]
    assert "ESCALATION_DENIED" in [event.event_type for event in told]
    assert not queue.proposes(propose(2, type="read_file")).allowed


@pytest.mark.req("S1.36")
def test_a_request_that_is_denied_or_expires_is_an_escalation_that_was_denied() -> None:
    queue = QueueStory()
    denied, expired = queue.asks(0, "p1", text="one"), queue.asks(0, "p2", text="two", timeout_s=60)
    queue.person_answers(1, queue.request(denied.request_id), "denied")
    queue.happens(tick(100))

    told = [event for event in queue.journal if isinstance(event, SafetyEvent)]
    ended = [event for event in told if event.event_type == "ESCALATION_DENIED"]
    assert [(event.agent_id, event.reason) for event in ended] == [
        ("code", f"request {denied.request_id} was denied"),
        ("code", f"request {expired.request_id} expired"),
    ]
    (timeout,) = (event for event in told if event.event_type == "PERMISSION_EXPIRED")
    assert timeout.agent_id == "code"


def test_an_agent_may_ask_something_else_instead() -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1", text="git push a")

    second = queue.asks(1, "p2", text="git push b", supersedes="p1")

    assert second.status == "pending"
    assert queue.request(first.request_id).state == "superseded"
    assert queue.final("p1").cause == "superseded"


def test_an_agent_cannot_supersede_requests_of_another() -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1")

    queue.asks(1, "p2", agent="ops", supersedes="p1")

    assert queue.request(first.request_id).pending


def test_a_permission_that_is_asked_in_other_words_takes_the_place_of_the_first() -> None:
    queue = QueueStory()
    first = queue.proposes(propose(0, id="a1", type="push", digest="sha256:1"), permission=True)

    second = queue.proposes(propose(1, id="a1", type="push", digest="sha256:2"), permission=True)

    assert queue.request(first.request_id).state == "superseded"
    assert second.status == "pending"
    assert second.request_id != first.request_id


def test_a_permission_that_is_asked_again_in_the_same_words_is_the_same_request() -> None:
    queue = QueueStory()
    first = queue.proposes(propose(0, id="a1", type="push"), permission=True)

    again = queue.proposes(propose(1, id="a1", type="push"), permission=True)

    assert again.request_id == first.request_id
    assert queue.request(first.request_id).pending


def test_a_joined_proposal_keeps_its_own_digest() -> None:
    queue = QueueStory()
    first = queue.asks(0, "p1", digest="sha256:1")
    joined = queue.asks(1, "p2", digest="sha256:2")

    again = queue.asks(2, "p2", digest="sha256:2")
    other = queue.asks(3, "p2", digest="sha256:1")
    queue.answers(4, first.request_id, "denied")

    assert joined.request_id == again.request_id == first.request_id
    assert (again.digest, other.cause) == ("sha256:2", "conflict")
    final = queue.final("p2")
    assert (final.cause, final.digest) == ("human_denied", "sha256:2")


def test_a_request_keeps_its_context_through_a_checkpoint() -> None:
    queue = QueueStory()
    context, extra = msgspec.Raw(b'{"branch":"fix"}'), msgspec.Raw(b'{"colour":[1,"red"]}')
    asked = queue.asks(0, context=context, extra=extra)

    restored = type(queue.engine).restore(queue.engine.save()())

    found = restored.approvals.find(asked.request_id or "")
    assert found is not None
    assert msgspec.json.encode(found.asked.proposal.context) == bytes(context)
    assert restored.approvals.save()() == queue.engine.approvals.save()()


def test_a_day_whose_money_went_meanwhile_holds_an_approval_back() -> None:
    queue = QueueStory(Policy(budget=BudgetConfig(day_usd=5, session_usd=0, chain_usd=0)))
    asked = queue.asks(0, cost_usd=3.0)
    assert queue.proposes(propose(1, "ops", "x", cost_usd=4.0)).allowed

    final = queue.answers(2, asked.request_id)

    assert (final.decision, final.cause) == (Severity.BLOCK, "budget")
    assert queue.request(asked.request_id).unused


def test_an_agent_cannot_end_a_pause_with_a_proposal_of_its_own() -> None:
    queue = QueueStory()
    asked = queue.proposes(propose(0, type="unpause", text="a harmless thing"))
    queue.happens(paused(1))
    request = queue.request(asked.request_id)

    queue.answers(2, asked.request_id)

    assert (request.own, request.pauses) == (False, "")
    assert not queue.proposes(propose(3, id="p2", type="read_file")).allowed
    assert [each.own for each in queue.engine.approvals.pending()] == [True]


def test_what_an_approval_gives_beside_the_action_is_said_and_not_approved_in_passing() -> None:
    queue = QueueStory(Policy(budget=BudgetConfig(session_usd=1.0)))
    plain = queue.request(queue.asks(0, "p0").request_id)
    queue.proposes(propose(1, id="p1", cost_usd=1.0))
    paid = queue.request(queue.proposes(propose(2, id="p2", text="x", cost_usd=1.0)).request_id)

    assert (plain.gives, paid.pauses) == ("", "budget")
    assert paid.gives
    assert approvable(paid, "cli", ())
    assert not approvable(paid, "sms", ())
    assert not approvable(paid, "desktop", ())


def committed(t: float, commit: str = "4f2a", why: Any = "after", **of: str) -> Committed:
    named: dict[str, Any] = {"agent": "code", "id": "p1", "project": "shop", **of}
    return Committed(at=at(t), t=t, commit=commit, why=why, **named)


def test_an_approved_request_knows_what_its_action_changed() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.answers(5, asked.request_id)
    queue.happens(committed(6, "aaaa"))
    before = queue.request(asked.request_id).change

    queue.asks(7, "p2")
    queue.happens(
        committed(8, "bbbb", "before", id="p2"),
        committed(9, "4f2a", id="p2"),
        committed(10, "", id="p2"),
        committed(11, "cccc", id="p2", agent="other"),
    )

    assert before is None, "nobody has used the approval yet"
    assert queue.request(asked.request_id).change == KeptChange("shop", "4f2a")
    replayed = queue.replayed().approvals.find(asked.request_id or "")
    assert replayed == queue.request(asked.request_id)


def test_the_change_of_a_waiting_agent_is_recorded_too() -> None:
    queue = QueueStory()
    asked = queue.asks(0, wait=True)
    queue.answers(5, asked.request_id, waits=True)

    queue.happens(committed(6))

    assert queue.request(asked.request_id).change == KeptChange("shop", "4f2a")


def denied(queue: QueueStory, t: float = 0, **fields: Any) -> str:
    request_id = queue.asks(t, **fields).request_id or ""
    queue.answers(t + 1, request_id, "denied")
    return request_id


@pytest.mark.parametrize(
    ("t", "fields"),
    [
        (DAY_S + 1, {}),
        (2, {"cost_usd": 3.0}),
        (2, {"keyless": True}),
        (2, {"agent": "ops"}),
    ],
    ids=["a day later", "at a lower price", "by a namesake without a key", "by another agent"],
)
def test_a_denial_answers_nothing_else(t: float, fields: dict[str, Any]) -> None:
    queue = QueueStory()
    denied(queue, cost_usd=5.0)
    assert queue.asks(min(t, DAY_S), "again", cost_usd=5.0).cause == "human_denied"

    assert queue.asks(t, "p2", **{"cost_usd": 5.0, **fields}).status == "pending"


def test_a_dearer_repeat_of_what_was_denied_is_denied() -> None:
    queue = QueueStory()
    denied(queue, cost_usd=5.0)

    assert queue.asks(2, "p2", cost_usd=6.0).cause == "human_denied"


def test_an_approval_takes_the_place_of_an_older_denial() -> None:
    queue = QueueStory()
    denied(queue, cost_usd=5.0)
    cheaper = queue.asks(2, "p2", cost_usd=3.0)
    queue.answers(3, cheaper.request_id, "approved")

    assert queue.asks(4, "p3", cost_usd=5.0).status == "pending"


def test_a_denial_that_was_lifted_or_is_unknown_is_not_lifted_again() -> None:
    queue = QueueStory()
    request_id = denied(queue)
    for known in (request_id, request_id, "req_unknown"):
        queue.happens(DenialLifted(at=at(2), t=2.0, request_id=known, agent="code", by="alice"))

    assert queue.asks(3, "p2").status == "pending"


def test_a_forgotten_denial_no_longer_denies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_index, "MAX_CLOSED", 1)
    queue = QueueStory()
    denied(queue)
    denied(queue, 2, id="p2", text="git push origin other")

    assert queue.asks(4, "p3").status == "pending"


def test_an_approved_action_whose_links_lead_elsewhere_needs_approval_again() -> None:
    queue = QueueStory()
    asked = queue.asks(0, "p1", wait=True)

    queue.person_answers(1, queue.request(asked.request_id), moved="notes leads to /etc now")

    (released,) = (event for event in queue.journal if isinstance(event, Released))
    assert [verdict.rule for verdict in released.verdicts] == ["approvals.links_moved"]
