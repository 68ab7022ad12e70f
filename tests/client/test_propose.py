from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from safetyd.client import Safety, Severity
from safetyd.client.arguments import OutcomeFields, ProposalFields
from safetyd.client.draft import draft, draft_ask, new_id
from safetyd.core.messages.proposal import Proposal, Target, is_token
from safetyd.core.messages.telemetry import Outcome
from tests.client.daemon_stand_in import Asked, DaemonStandIn, Fields, silent
from tests.nats_process import NatsProcess


async def test_propose_returns_an_allow_from_the_daemon(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("read_file", paths=["/srv/a.py"])

    asked = await daemon.asked()
    assert decision.allowed
    assert (decision.agent, decision.id) == ("code", asked.id)
    assert asked.fields == {"type": "read_file", "paths": ["/srv/a.py"], "id": asked.id}


async def test_the_client_sends_its_folder_with_relative_paths(
    bus: NatsProcess, daemon: DaemonStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async with Safety("code", url=bus.url) as safety:
        await safety.propose("edit_file", paths=[Path("passwd"), "/etc/hosts"])
        await safety.propose("edit_file", paths=["passwd"], cwd="/srv")

    proposed, stated = [(await daemon.asked()).fields for _ in range(2)]
    assert (proposed["cwd"], stated["cwd"]) == (str(tmp_path), "/srv")
    requested = draft_ask("code", "edit_file", {"context": {"paths": ["passwd"]}})
    shown = {"paths": ["passwd"], "cwd": str(tmp_path)}
    assert msgspec.json.decode(requested.payload)["context"] == shown


async def test_a_block_has_its_cause_and_reason(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    daemon.decide = lambda asked: [asked.answer("block", cause="prohibited", reason="no")]

    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("change_password")

    assert not decision.allowed
    assert (decision.decision, decision.cause) == (Severity.BLOCK, "prohibited")
    assert decision.reason == "no"


async def test_propose_without_wait_returns_a_pending_decision_immediately(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    pending = {"status": "pending", "request_id": "req_1"}
    daemon.decide = lambda asked: [asked.answer("require_confirmation", **pending)]

    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("push")

    assert not decision.allowed
    assert (decision.status, decision.request_id) == ("pending", "req_1")


@pytest.mark.usefixtures("daemon")
async def test_client_and_daemon_compute_the_same_digest_of_numbers_structs_and_paths(
    bus: NatsProcess,
) -> None:
    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose(
            "click",
            cost_usd=1.0,
            confidence=0.1 + 0.2,
            timeout_s=2.0,
            target=Target(label="Grüße"),
            paths=[Path("a"), "b"],
            context={"big": 1e20, "whole": -3.0, "deep": [{"x": 5e-324}]},
        )

    assert decision.allowed


async def test_fields_that_are_none_are_not_sent(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    nothing: Any = dict.fromkeys(ProposalFields.__annotations__)

    async with Safety("code", url=bus.url) as safety:
        plain = await safety.propose("click", target={"label": "Pay"})
        decision = await safety.propose(
            "click", **nothing | {"target": {"label": "Pay", "url": None}}
        )

    assert decision.allowed
    assert decision.digest == plain.digest
    assert (await daemon.asked()).fields.keys() == (await daemon.asked()).fields.keys()


Distort = Callable[[Asked], Fields]


@pytest.mark.parametrize(
    "distort",
    [
        lambda asked: asked.answer(agent="other"),
        lambda asked: asked.answer(id="another"),
        lambda asked: asked.answer(digest="sha256:00"),
        lambda asked: asked.answer(status="pending"),
        lambda asked: {"id": asked.id},
    ],
    ids=["agent", "id", "digest", "pending allow", "not a decision"],
)
async def test_an_answer_that_does_not_match_the_proposal_is_ignored(
    bus: NatsProcess, daemon: DaemonStandIn, distort: Distort
) -> None:
    daemon.decide = lambda asked: [distort(asked)]

    async with Safety("code", url=bus.url, deadline_s=0.6) as safety:
        decision = await safety.propose("read_file")

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "unavailable")


async def test_the_matching_answer_is_used_after_a_wrong_one(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    def decide(asked: Asked) -> Sequence[Fields]:
        return [asked.answer("allow", digest="sha256:00"), asked.answer("block")]

    daemon.decide = decide

    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("read_file")

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "policy")


async def test_a_decision_on_the_decision_subject_is_accepted(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    daemon.decide = silent

    async with Safety("code", url=bus.url) as safety, anyio.create_task_group() as tasks:
        tasks.start_soon(_publish_the_answer, daemon)
        decision = await safety.propose("read_file")

    assert decision.allowed


async def _publish_the_answer(daemon: DaemonStandIn) -> None:
    asked = await daemon.asked()
    await daemon.say(f"decision.code.{asked.id}", asked.answer())


async def test_a_lost_proposal_is_sent_again_under_its_id(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    lost = 2

    def decide(asked: Asked) -> Sequence[Fields]:
        return [] if daemon.unread() <= lost else [asked.answer()]

    daemon.decide = decide

    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("read_file", deadline_s=10)

    assert decision.allowed
    assert {(await daemon.asked()).id for _ in range(lost + 1)} == {decision.id}


async def test_propose_waits_for_a_rate_limit_that_ends_before_the_deadline(
    bus: NatsProcess, daemon: DaemonStandIn
) -> None:
    def decide(asked: Asked) -> Sequence[Fields]:
        daemon.decide = lambda again: [again.answer()]
        return [asked.answer("block", cause="rate_limit", retry_after_s=0.02)]

    daemon.decide = decide

    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("read_file")

    first, second = await daemon.asked(), await daemon.asked()
    assert decision.allowed
    assert decision.id == second.id != first.id


@pytest.mark.parametrize(
    ("cause", "retry_after_s", "fields"),
    [("rate_limit", 60.0, {}), ("cooldown", 0.01, {}), ("rate_limit", 0.01, {"id": "mine"})],
    ids=["too long", "another cause", "the caller's id"],
)
async def test_other_blocked_proposals_are_not_retried(
    bus: NatsProcess,
    daemon: DaemonStandIn,
    cause: str,
    retry_after_s: float,
    fields: ProposalFields,
) -> None:
    daemon.decide = lambda asked: [asked.answer("block", cause=cause, retry_after_s=retry_after_s)]

    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("read_file", **fields)

    await daemon.asked()
    assert (decision.cause, decision.retry_after_s) == (cause, retry_after_s)
    assert daemon.unread() == 0


@pytest.mark.parametrize("name", ["SAFETYD_ENABLED", "AI_COMPANY_ENABLED"])
@pytest.mark.parametrize("value", ["false", "0", "No", "OFF"])
async def test_an_off_switch_blocks_without_asking_the_daemon(
    bus: NatsProcess, daemon: DaemonStandIn, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("read_file")

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "disabled")
    assert decision.reason == f"disabled: {name}={value}"
    assert daemon.unread() == 0


@pytest.mark.usefixtures("daemon")
async def test_a_switch_that_is_on_blocks_nothing(
    bus: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAFETYD_ENABLED", "true")

    async with Safety("code", url=bus.url) as safety:
        assert (await safety.propose("read_file")).allowed


@pytest.mark.parametrize("agent", ["", "a b", "a.b", "*", "x" * 65, "ä"])
def test_an_invalid_agent_name_raises(agent: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Safety(agent)


def test_an_invalid_prefix_raises() -> None:
    with pytest.raises(ValueError, match="prefix"):
        Safety("code", prefix="a b")


def test_an_unknown_option_raises() -> None:
    options: Any = {"host": "x"}

    with pytest.raises(TypeError, match="'host'"):
        Safety("code", **options)


@pytest.mark.parametrize(
    "fields",
    [{"texts": "x"}, {"agent": "code"}, {"text": 3}, {"paths": "a"}, {"context": object()}],
    ids=["unknown", "agent", "type", "not a list", "not JSON"],
)
async def test_a_wrong_type_or_unknown_field_raises_type_error(fields: Any) -> None:
    async with Safety("code", url="nats://127.0.0.1:1") as safety:
        with pytest.raises(TypeError):
            await safety.propose("read_file", **fields)


def _loop() -> dict[str, object]:
    loop: dict[str, object] = {}
    loop["loop"] = loop
    return loop


@pytest.mark.parametrize(
    "fields",
    [
        {"confidence": 1.5},
        {"confidence": float("nan")},
        {"id": "a b"},
        {"text": "x" * 9000},
        {"text": "a\0b"},
        {"text": "\udc80"},
        {"description": "x" * 9000},
        {"context": {"diff": "x" * 70_000}},
        {"context": _loop()},
        {"context": {"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_malformed_value_is_blocked_as_malformed(fields: Any) -> None:
    async with Safety("code", url="nats://127.0.0.1:1") as safety:
        decision = await safety.propose("read_file", **fields)

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "malformed")
    assert decision.reason


async def test_the_same_content_has_the_same_digest_under_another_id() -> None:
    one, other = draft("code", "x", {"cost_usd": 1}), draft("code", "x", {"cost_usd": 1.0})

    assert one.digest == other.digest
    assert one.id != other.id


def test_ids_are_tokens_that_sort_by_time() -> None:
    ids = [new_id() for _ in range(100)]

    assert all(map(is_token, ids))
    assert len(set(ids)) == 100
    assert [name[:10] for name in ids] == sorted(name[:10] for name in ids)


def test_the_keyword_arguments_are_the_fields_of_the_protocol() -> None:
    own = {"type", "agent", "extra"}

    assert ProposalFields.__annotations__.keys() == set(Proposal.__struct_fields__) - own
    assert OutcomeFields.__annotations__.keys() == set(Outcome.__struct_fields__) - {"id", "ok"}


@pytest.mark.parametrize("text", [b"rm -rf /", bytearray(b"rm -rf /")])
async def test_bytes_as_text_raise_type_error(
    bus: NatsProcess, daemon: DaemonStandIn, text: object
) -> None:
    async with Safety("code", url=bus.url) as safety:
        with pytest.raises(TypeError):
            await safety.propose("run_shell", text=text)  # type: ignore[arg-type]


async def test_a_decision_has_no_truth_value(bus: NatsProcess, daemon: DaemonStandIn) -> None:
    async with Safety("code", url=bus.url) as safety:
        decision = await safety.propose("read_file")

    with pytest.raises(TypeError, match="allowed"):
        bool(decision)
