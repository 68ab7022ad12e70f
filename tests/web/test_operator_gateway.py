"""Questions and commands of signed-in operators: rate limits, timeouts, refusals."""

from pathlib import Path

import anyio
import pytest

from safetyd.bus.question_limits import MAX_WAITING, SAVED_S
from safetyd.core.events.guard_events import Paused, Stopped
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.contract.agent_contract import AgentsQuestion
from safetyd.operators.contract.hold_contract import PauseCommand, StopCommand
from safetyd.operators.contract.question import Call
from safetyd.operators.contract.request_contract import (
    DenyCommand,
    PendingQuestion,
    RequestQuestion,
)
from safetyd.operators.contract.status_contract import TopBarQuestion
from safetyd.operators.replies import CommandRefused, Done
from safetyd.web import operator_gateway
from tests.web.control_room.room_site import room_site


async def test_questions_are_answered_as_over_the_bus(tmp_path: Path) -> None:
    async with room_site(tmp_path) as site:
        ref = site.asks()
        answer = await site.gateway.ask("alice", RequestQuestion(id=ref))

    assert answer.request.id == ref


async def test_commands_and_answers_are_the_askers_own(tmp_path: Path) -> None:
    async with room_site(tmp_path) as site:
        ref = site.asks()
        await site.gateway.ask("alice", PauseCommand(agent="code", via="web"))
        told = await site.gateway.ask("bob", DenyCommand(ids=(ref,), via="web"))

    (paused,) = site.journalled(Paused)
    assert (paused.by, paused.via) == ("alice", "web")
    assert (told.results[0].ok, site.state(ref)) == (True, "denied")


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (RequestQuestion(id="req_0"), "not_found"),
        (AgentsQuestion(sort="x"), "invalid"),  # type: ignore[arg-type]
        (PendingQuestion(limit=0), "invalid"),
        (DenyCommand(ids=()), "invalid"),
    ],
)
async def test_a_refusal_has_its_code(tmp_path: Path, question: Call[Done], code: str) -> None:
    async with room_site(tmp_path) as site:
        with pytest.raises(CommandRefused) as refused:
            await site.gateway.ask("alice", question)

    assert refused.value.code == code


async def test_an_operator_over_the_rate_limit_can_still_command(tmp_path: Path) -> None:
    async with room_site(tmp_path) as site:
        site.hurried = True
        site.limits.charge("alice", 2 * SAVED_S)
        with pytest.raises(Unanswered, match=r"Too many queries .* Try again in \d+\.\d s"):
            await site.gateway.ask("alice", TopBarQuestion())
        others = await site.gateway.ask("bob", TopBarQuestion())
        await site.gateway.ask("alice", StopCommand(via="web"))

    assert others.ok
    assert len(site.journalled(Stopped)) == 1


async def test_too_many_questions_do_not_wait_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_gateway, "ANSWERED_S", 0.1)
    refused: list[str] = []
    async with room_site(tmp_path) as site:
        site.stuck = True

        async def ask() -> None:
            with pytest.raises(Unanswered) as raised:
                await site.gateway.ask("alice", TopBarQuestion())
            refused.append(str(raised.value))

        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_WAITING + 1):
                tasks.start_soon(ask)

    late = [said for said in refused if said.startswith("no answer within")]
    assert (len(refused), len(late)) == (MAX_WAITING + 1, MAX_WAITING)


async def test_while_muted_nothing_is_asked_or_done(tmp_path: Path) -> None:
    async with room_site(tmp_path) as site:
        site.displaced = True
        for call in (TopBarQuestion(), DenyCommand(ids=("req_0",))):
            with pytest.raises(Unanswered, match="another daemon"):
                await site.gateway.ask("alice", call)

    assert not site.stop.stop_flag.stops
