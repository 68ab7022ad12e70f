"""Results of permission requests and claims, with and without an answer."""

from typing import Any

import anyio
import pytest

from safetyd.client import (
    Approved,
    Blocked,
    Claim,
    Decision,
    Denied,
    PermissionResult,
    Queued,
    Safety,
    Severity,
    SyncSafety,
    Timeout,
)
from safetyd.client.results import read_result
from safetyd.core.messages.proposal import digest
from tests.client.assertions import NOWHERE
from tests.client.daemon_stand_in import DaemonStandIn, Fields
from tests.nats_process import NatsProcess
from tests.servers import until

DECISION = Decision(id="p1", agent="code", decision=Severity.ALLOW, digest="sha256:0")


@pytest.mark.req("S3.19", "S3.20", "S3.21", "S3.58")
@pytest.mark.parametrize(
    ("wire", "result"),
    [
        ('{"approved": true, "message": "looks good"}', Approved(message="looks good")),
        (
            '{"approved": false, "reason": "no", "cause": "human_denied"}',
            Denied(reason="no", cause="human_denied"),
        ),
        (
            '{"approved":false,"reason":"timeout","timeout_minutes":60,"cause":"expired_no_response"}',
            Timeout(timeout_minutes=60),
        ),
        ('{"queued": true, "request_id": "req_abc123"}', Queued(request_id="req_abc123")),
        ('{"queued": true, "approved": true}', None),
        ('{"ok": false, "error": "too large"}', None),
        ('{"approved": 1}', None),
        ("[]", None),
        ("\udc80", None),
    ],
)
def test_read_result_accepts_exactly_four_kinds_of_answer(
    wire: str, result: PermissionResult | None
) -> None:
    assert read_result(wire.encode(errors="surrogateescape")) == result


@pytest.mark.parametrize(
    "answer",
    [
        Approved(),
        Denied(reason="", cause="policy"),
        Queued(request_id="r"),
        Timeout(),
        Claim(granted=False, cause="expired"),
    ],
)
def test_a_result_has_no_truth_value(answer: PermissionResult | Claim) -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(answer)


async def test_without_a_daemon_permission_is_denied_as_unavailable() -> None:
    async with Safety("code", url=NOWHERE, deadline_s=0.3) as safety:
        asked = await safety.request_permission("push", wait=True)
        found = await safety.permission("req_1")
        listed = await safety.pending_requests()
        claim = await safety.claim(DECISION)
        passes = await safety.is_auto_allowed("read_file")

    assert isinstance(asked, Denied)
    assert isinstance(found, Denied)
    assert asked.cause == found.cause == claim.cause == "unavailable"
    assert "ask the operator to start safetyd" in asked.reason
    assert "ask the operator to start safetyd" in claim.reason
    assert (listed, claim.granted, passes) == ((), False, False)


async def test_a_client_that_is_not_open_grants_nothing() -> None:
    safety = Safety("code", url=NOWHERE)

    assert (await safety.request_permission("push")).approved is False
    assert (await safety.permission("req_1")).approved is False
    assert (await safety.claim(DECISION)).granted is False
    assert await safety.pending_requests() == ()


def test_a_closed_blocking_client_grants_nothing() -> None:
    safety = SyncSafety("code", url=NOWHERE)
    safety.close()

    assert safety.request_permission("push").approved is False
    assert safety.permission("req_1").approved is False
    assert safety.claim(DECISION).granted is False
    assert safety.pending_requests() == ()
    assert not safety.is_auto_allowed("read_file")
    assert not safety.log_action("read_file")
    with pytest.raises(Blocked, match="not open"), safety.guard("read_file"):
        pytest.fail("the body ran")


async def test_an_off_switch_denies_permission_requests_and_claims(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SAFETYD_ENABLED", "false")

    async with Safety("code", url=NOWHERE) as safety:
        asked = await safety.request_permission("push")
        claim = await safety.claim(DECISION)

    assert asked == Denied(reason="disabled: SAFETYD_ENABLED=false", cause="disabled")
    assert (claim.granted, claim.cause) == (False, "disabled")


@pytest.mark.parametrize("fields", [{"text": "x"}, {"timeout_minutes": "1"}, {"context": "x"}])
async def test_a_wrong_field_of_a_permission_request_raises_type_error(fields: Any) -> None:
    async with Safety("code", url=NOWHERE) as safety:
        with pytest.raises(TypeError):
            await safety.request_permission("push", **fields)


@pytest.mark.parametrize(
    "fields", [{"timeout_minutes": -1}, {"description": "x" * 9000}, {"id": "a b"}]
)
async def test_a_malformed_permission_request_is_denied_without_sending_it(fields: Any) -> None:
    async with Safety("code", url=NOWHERE) as safety:
        asked = await safety.request_permission("push", **fields)

    assert isinstance(asked, Denied)
    assert asked.cause == "malformed"


async def test_a_permission_request_with_a_lost_answer_is_queued(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url, deadline_s=0.5) as safety:
        result = await _asked_and_announced(safety, daemon)

    assert result == Queued(request_id="req_1")


async def _asked_and_announced(safety: Safety, daemon: DaemonStandIn) -> PermissionResult | None:
    """Request permission; announce the request only on the decision subject."""
    asks: list[Fields] = []
    results: list[PermissionResult] = []

    async def ask() -> None:
        results.append(await safety.request_permission("push", id="a1"))

    daemon.permit = asks.append
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await until(lambda: asks)
        said = {"type": "push", "description": "", "rationale": ""}
        own = {"id": "a1", "agent": "code", "digest": digest("code", said)}
        pending = {"decision": "require_confirmation", "status": "pending", "request_id": "req_1"}
        await daemon.say("decision.code.a1", {**own, **pending})
    return results[0]


async def test_a_claim_is_retried_under_one_claimant_until_it_is_answered(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    claims: list[Fields] = []
    answers: list[Fields | None] = [
        None,
        {"what": 1},
        {"granted": False, "cause": "unavailable", "reason": "the disk is full"},
        {"granted": True, "cause": "human_approved", "reason": ""},
    ]

    def grant(claim: Fields) -> Fields | None:
        claims.append(claim)
        return answers.pop(0)

    daemon.grant = grant
    async with Safety("code", url=bus.url, deadline_s=5) as safety:
        claim = await safety.claim(DECISION)

    assert claim.granted
    assert len(claims) == 4
    assert {(said["id"], said["digest"]) for said in claims} == {("p1", "sha256:0")}
    assert len({said["claimant"] for said in claims}) == 1


@pytest.mark.parametrize(
    ("refused", "cause"), [("already_claimed", "conflict"), ("stopped", "stopped")]
)
async def test_guard_does_not_run_a_body_if_its_claim_is_refused(
    bus: NatsProcess, daemon: DaemonStandIn, refused: str, cause: str
) -> None:
    daemon.decide = lambda asked: [asked.answer(claim_required=True)]
    daemon.grant = lambda _: {"granted": False, "cause": refused, "reason": "too late"}

    async with Safety("code", url=bus.url) as safety:
        with pytest.raises(Blocked, match="too late") as caught:
            async with safety.guard("push"):
                pytest.fail("the body ran")

    decision = caught.value.decision
    assert (decision.allowed, decision.cause) == (False, cause)
    assert decision.triggered_rules == (f"client.claim:{refused}",)


@pytest.mark.req("S3.57")
async def test_log_action_reports_an_outcome_with_its_description(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        assert await safety.log_action("edit_file", description="Mend it", details={"lines": 3})
        told = await daemon.told()

    assert told == {
        "type": "outcome",
        "id": None,
        "ok": True,
        "action_type": "edit_file",
        "description": "Mend it",
        "details": {"lines": 3},
    }
