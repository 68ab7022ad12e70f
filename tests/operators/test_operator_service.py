from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest

from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.bus.question_limits import MAX_WAITING, SAVED_S
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Forgotten, Resumed, SafeModeEntered
from safetyd.core.events.history_events import BackupMade
from safetyd.core.policy import Policy
from safetyd.daemon.config import Config
from safetyd.daemon.settings import Settings
from safetyd.extras.reports.report_maker import ReportMaker
from safetyd.journal.audit import Audit
from safetyd.journal.mailbox import Mailbox
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.notify.notifier import Notifier
from safetyd.operators import command_runner
from safetyd.operators.command_runner import CommandRunner, Surroundings
from safetyd.operators.contract.history_contract import (
    CommitAnswer,
    CommitQuestion,
    RollbackCommand,
    RollbackDone,
)
from safetyd.operators.contract.status_contract import DaemonFacts, HealthAnswer
from safetyd.operators.declarations import BY_NAME
from safetyd.operators.handlers import work
from safetyd.operators.operator_service import OperatorService
from safetyd.operators.replies import CommandRefused
from safetyd.web.control_room.entrance import Entrance
from safetyd.web.control_room.sign_in_links import SignInLinks
from safetyd.web.control_room.web_sessions import WebSessions
from tests.captured_connection import REPLY, CapturedPublisher, work_off
from tests.operators.bound_handlers import without_projects
from tests.operators.views.view_reader import FACTS
from tests.servers import until
from tests.story import NOON, at, play, propose, stop


class Around:
    """The rest of the daemon, as far as the service asks it."""

    def __init__(self, audit: Path) -> None:
        self.wrong: list[str] = []
        self.reloaded_by = ""
        self.problem = ""
        self.audit = audit

    def facts(self) -> DaemonFacts:
        return msgspec.structs.replace(FACTS, problem=self.problem)

    async def health(self) -> HealthAnswer:
        return HealthAnswer(ok=True, at=at(0), state="good", checks=())

    async def reload(self, by: str) -> list[str]:
        self.reloaded_by = by
        return self.wrong

    def write(self, events: Sequence[Event]) -> None:
        """Let the audit files tell of these."""
        audit = Audit(self.audit, 1024 * 1024)
        audit.open()
        audit.append([encode(event) for event in events], events[-1].seq)
        audit.close()


class OperatorRig:
    """A service over a real engine."""

    def __init__(self, tasks: anyio.abc.TaskGroup, directory: Path) -> None:
        self.tasks = tasks
        self.recent = RecentEvents(1, lambda after: ((), after))
        self.engine = Engine(Policy())
        self.mailbox = Mailbox()
        self.stop_flag = StopFlag()
        self.around = Around(directory / "audit")
        self.captured = CapturedPublisher()
        self.clock = Clock()
        emergency_stop = EmergencyStop(
            self.stop_flag, self.mailbox, self.captured.publisher, Subjects(), self.clock
        )
        self.emergency_stop = emergency_stop
        settings = self.settings = Settings(Config(), None, directory)
        notifier = Notifier(
            settings,
            self.mailbox,
            self.clock,
            data_dir=directory,
            public_url="",
            base_url=str,
            waits=_nobody_waits,
            publish=lambda _kind, _notice: None,
        )
        tasks.start_soon(notifier.run)
        sessions = WebSessions(directory, lambda name: {name} & {"alice"})
        links = SignInLinks(lambda name: {name})
        entrance = Entrance(sessions, links, lambda: "http://127.0.0.1:8787", self.clock)
        runner = CommandRunner(
            self.mailbox,
            emergency_stop,
            Surroundings(
                self.around.facts,
                self.around.reload,
                self.around.health,
                self.around.audit,
                Policy,
                self.recent,
            ),
            tasks,
            waits=_nobody_waits,
            handlers={
                **notifier.handlers,
                **entrance.handlers,
                **ReportMaker(self.around.audit, NOON.date, lambda: 0).handlers,
                **without_projects(directory, self.mailbox, self.clock),
                **dict([work(CommitQuestion, self.commit), work(RollbackCommand, self.roll_back)]),
            },
            question_limits=settings.question_limits,
        )
        publisher = self.captured.publisher
        self.service = OperatorService(
            publisher, publisher, runner, settings.question_limits, settings.may_send
        )

    async def commit(self, by: str, question: CommitQuestion) -> CommitAnswer:
        """Answer aside of the engine; a project is refused."""
        await anyio.to_thread.run_sync(lambda: None)
        if question.project == BROKEN:
            raise RuntimeError(BROKEN)
        if question.project:
            raise CommandRefused("not_found", question.project)
        return CommitAnswer(ok=True, project="", commit=question.commit, message=by, diff="")

    async def roll_back(self, by: str, command: RollbackCommand) -> RollbackDone:
        found = await self.commit(by, CommitQuestion(commit="abcd", project=command.project))
        return RollbackDone(ok=True, project=found.message, kept="", made="", files=0, agents=())

    def control(self, command: str, **fields: object) -> None:
        payload = msgspec.json.encode({"command": command, **fields})
        self.service.control(b"safety.v1.control.alice", REPLY, payload)

    def review(self, command: str, **fields: object) -> None:
        payload = msgspec.json.encode({"command": command, **fields})
        self.service.review(b"safety.v1.review.alice", REPLY, payload)

    def query(self, command: str, **fields: object) -> None:
        payload = msgspec.json.encode({"command": command, **fields})
        self.service.query(b"safety.v1.query.alice", REPLY, payload)

    def write(self) -> list[Event]:
        return work_off(self.mailbox, self.engine, self.clock)

    async def answer(self) -> dict[str, Any]:
        """Return the next answer, writing down whatever waits for it."""
        with anyio.fail_after(5):
            while True:
                self.write()
                if answers := self.captured.answers():
                    return answers[0]
                await anyio.lowlevel.checkpoint()


def _nobody_waits(_request: Request) -> bool:
    return False


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[OperatorRig]:
    async with anyio.create_task_group() as tasks:
        yield OperatorRig(tasks, tmp_path)
        tasks.cancel_scope.cancel()


async def test_stop_holds_before_the_command_is_answered(rig: OperatorRig) -> None:
    rig.control("stop", reason="drill")

    held = rig.stop_flag.holds("code")
    assert held is not None
    assert (held.by, held.reason, held.source) == ("alice", "drill", "operator")
    assert await rig.answer() == {"ok": True, "epoch": 1, "journalled": True}
    assert [s.by for s in rig.engine.stop.stops] == ["alice"]


async def test_stop_that_cannot_be_written_is_still_confirmed(
    rig: OperatorRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.operators.command_runner.WRITTEN_S", 0.01)

    rig.control("stop")

    confirmed = {"ok": True, "epoch": 1, "journalled": False}
    await until(lambda: confirmed in rig.captured.answers())


async def test_resume_clears_what_operators_stopped_and_names_what_is_left(
    rig: OperatorRig,
) -> None:
    rig.control("stop")
    rig.emergency_stop.stop("file:/x", "file", "there")
    await rig.answer()

    rig.control("resume", reason="over")
    (resumed, _) = rig.write()

    assert await rig.answer() == {"ok": True, "cleared": ["operator"], "left": ["file:/x"]}
    assert isinstance(resumed, Resumed)
    assert (resumed.by, resumed.reason) == ("alice", "over")


async def test_resume_of_nothing_writes_nothing(rig: OperatorRig) -> None:
    rig.control("resume")

    assert await rig.answer() == {"ok": True, "cleared": [], "left": []}
    assert rig.engine.seq == 0


async def test_resume_of_one_agent_leaves_the_rest_stopped(rig: OperatorRig) -> None:
    rig.control("stop")
    rig.control("stop", agent="code")
    await rig.answer()

    rig.control("resume", agent="code")
    await rig.answer()

    assert [s.agent for s in rig.stop_flag.stops] == [None]


async def test_reset_forgets_what_it_names(rig: OperatorRig) -> None:
    rig.control("reset", agent="code", session="s-1", episode="e-1")
    (forgotten,) = rig.write()

    assert await rig.answer() == {"ok": True}
    assert isinstance(forgotten, Forgotten)
    assert (forgotten.agent, forgotten.by) == ("code", "alice")
    assert (forgotten.session, forgotten.episode) == ("s-1", "e-1")


async def test_reload_is_carried_out_for_whoever_asked(rig: OperatorRig) -> None:
    rig.control("reload")

    assert await rig.answer() == {"ok": True, "next_start": ["web"]}
    assert rig.around.reloaded_by == "alice"


async def test_a_backup_that_was_made_is_recorded_with_who_made_it(rig: OperatorRig) -> None:
    rig.control("backup_made", seq=rig.engine.seq, size=4096, keys=True)
    (made,) = rig.write()

    assert await rig.answer() == {"ok": True}
    assert isinstance(made, BackupMade)
    assert (made.by, made.upto, made.size) == ("alice", rig.engine.seq - 1, 4096)
    assert (made.keys, made.history) == (True, False)


async def test_a_backup_of_what_has_not_happened_is_refused(rig: OperatorRig) -> None:
    rig.control("backup_made", seq=rig.engine.seq + 1, size=1)

    assert rig.write() == []
    assert (await rig.answer())["code"] == "invalid"


async def test_status_does_not_wait_for_a_journal_that_is_stuck(rig: OperatorRig) -> None:
    rig.around.problem = "the journal has not answered for 3.0 s"

    rig.query("status")

    answer = await rig.answer()
    assert (answer["ok"], answer["code"]) == (False, "unavailable")
    assert rig.around.problem in answer["error"]


async def test_refused_configuration_names_every_error(rig: OperatorRig) -> None:
    rig.around.wrong = ["mode is wrong", "web.port is wrong"]

    rig.control("reload")

    assert await rig.answer() == {
        "ok": False,
        "error": "mode is wrong\nweb.port is wrong",
        "code": "config_rejected",
    }


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"{", "malformed"),
        (b"{}", "malformed"),
        (b'{"command": 7}', "malformed"),
        (b"\xff", "malformed"),
        (b'{"command": "dance"}', "unknown_command"),
        (b'{"command": "stop", "reason": 7}', "invalid"),
        (b'{"command": "stop", "agent": "a b"}', "invalid"),
        (b'{"command": "resume", "agent": ""}', "invalid"),
        (b'{"command": "reset"}', "invalid"),
        (b'{"command": "reset", "agent": "*"}', "invalid"),
        (b'{"command": "pause"}', "invalid"),
        (b'{"command": "pause", "agent": "*"}', "invalid"),
        (b'{"command": "unpause", "agent": "a b"}', "invalid"),
        (b'{"command": "safe_mode_enter", "agent": "a b"}', "invalid"),
        (b'{"command": "safe_mode_exit", "agent": ""}', "invalid"),
        (b'{"command": "safe_mode_exit", "force": 1}', "invalid"),
        (b'{"command": "safe_mode_exit", "force": true}', "invalid"),
        (b'{"command": "safe_mode_exit", "force": true, "reason": " "}', "invalid"),
    ],
)
async def test_wrong_command_is_refused_and_changes_nothing(
    rig: OperatorRig, payload: bytes, code: str
) -> None:
    rig.service.control(b"safety.v1.control.alice", REPLY, payload)

    answer = await rig.answer()
    assert (answer["ok"], answer["code"]) == (False, code)
    assert answer["error"]
    assert rig.stop_flag.stops == ()
    assert rig.engine.seq == 0


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"", "malformed"),
        (b'{"command": "stop"}', "unknown_command"),
        (b'{"command": "explain"}', "invalid"),
        (b'{"command": "explain", "id": 1}', "invalid"),
        (b'{"command": "explain", "id": "p1", "last": "code"}', "invalid"),
        (b'{"command": "decisions", "verdict": "maybe"}', "invalid"),
        (b'{"command": "decisions", "since": "2026-03-01T12:00:00"}', "invalid"),
        (b'{"command": "safe_mode", "agent": "a b"}', "invalid"),
        (b'{"command": "report", "date": "soon"}', "invalid"),
        (b'{"command": "report", "date": 1}', "invalid"),
        (b'{"command": "report", "since": "2027-01-01"}', "invalid"),
        (b'{"command": "explain", "id": "p1"}', "not_found"),
        (b'{"command": "explain", "last": "ops"}', "not_found"),
    ],
)
async def test_wrong_question_is_refused(rig: OperatorRig, payload: bytes, code: str) -> None:
    rig.service.query(b"safety.v1.query.alice", REPLY, payload)

    assert (await rig.answer())["code"] == code


async def test_status_has_the_engines_state_and_the_daemons_facts(rig: OperatorRig) -> None:
    play(rig.engine, stop(0))

    rig.query("status")

    answer = await rig.answer()
    assert answer["ok"]
    assert answer["version"] == "1.2.3"
    assert answer["stop"]["active"]


async def test_who_asks_too_much_is_told_when_to_ask_again(
    rig: OperatorRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.bus.question_limits.SAMPLE_S", 0.0)
    rig.settings.question_limits.charge("alice", SAVED_S + 0.1)
    rig.settings.intake.heard += 1_000_000  # agents keep it busy

    rig.query("limits")
    answer = await rig.answer()

    assert (answer["ok"], answer["code"]) == (False, "rate_limit")
    assert answer["retry_after_s"] == pytest.approx(2.0, abs=0.2)


async def test_only_some_questions_of_one_person_wait_for_a_stuck_journal(rig: OperatorRig) -> None:
    for _ in range(MAX_WAITING + 1):
        rig.query("safe_mode")

    (refused,) = rig.captured.answers()

    assert refused["code"] == "rate_limit"
    rig.write()
    assert [answer["ok"] for answer in rig.captured.answers()] == [True] * MAX_WAITING


async def test_who_is_shut_out_is_not_even_answered(rig: OperatorRig) -> None:
    rig.settings.question_limits.charge("alice", 1000.0)
    for _ in range(2000):
        rig.query("status")
    rig.captured.answers()

    rig.query("status")

    assert rig.captured.answers() == []


async def test_one_explanation_is_looked_for_at_a_time(rig: OperatorRig) -> None:
    rig.query("explain", id="p1")
    rig.query("explain", id="p2")

    refused, found = await rig.answer(), await rig.answer()

    assert (refused["code"], found["code"]) == ("rate_limit", "not_found")
    rig.query("explain", id="p2")
    assert (await rig.answer())["code"] == "not_found"


async def test_questions_wait_their_turn(rig: OperatorRig) -> None:
    rig.control("stop")
    rig.query("status")

    assert rig.captured.answers() == []
    rig.write()
    assert rig.captured.answer()["stop"]["active"]


async def test_decision_is_explained_from_the_audit_lines(rig: OperatorRig) -> None:
    rig.around.write(play(rig.engine, propose(0)))

    rig.query("explain", id="p1")

    answer = await rig.answer()
    assert answer["ok"]
    assert answer["decisions"][0]["agent"] == "code"


async def test_guards_that_did_not_restrict_are_asked_where_they_stand_today(
    rig: OperatorRig,
) -> None:
    rig.around.write(play(rig.engine, propose(0), stop(1)))

    rig.query("explain", id="p1")

    guards = (await rig.answer())["decisions"][0]["guards"]
    assert "alice: drill" in guards[0]["now"]


async def test_what_was_decided_is_explained_while_nothing_can_be_written(rig: OperatorRig) -> None:
    rig.around.write(play(rig.engine, propose(0)))
    rig.around.problem = "the disk is full"

    rig.query("explain", id="p1")

    heard: list[dict[str, Any]] = []

    def answered() -> bool:
        heard.extend(rig.captured.answers())
        return bool(heard)

    await until(answered)
    decided = heard[0]["decisions"][0]
    assert (decided["decision"], decided["guards"][0]["now"]) == ("allow", "")


async def test_answer_that_the_bus_cannot_carry_is_an_error_instead(rig: OperatorRig) -> None:
    now = rig.clock.now()
    for number in range(4000):
        name = f"agent-{number:058}"
        play(rig.engine, SafeModeEntered(at=now.at, t=now.t, agent=name, by="alice"))

    rig.query("safe_mode")

    answer = await rig.answer()
    assert (answer["ok"], answer["code"]) == (False, "too_large")


async def test_the_last_decision_about_an_agent_is_explained(rig: OperatorRig) -> None:
    rig.around.write(play(rig.engine, propose(0), propose(1, id="p2"), propose(2, "ops", "p3")))

    rig.query("explain", last="code")

    assert (await rig.answer())["id"] == "p2"


async def test_decisions_are_listed_from_the_audit_lines(rig: OperatorRig) -> None:
    told = play(rig.engine, propose(0), propose(1, id="p2", type="run_shell", text="rm -rf /"))
    rig.around.write(told)

    rig.query("decisions", verdict="block")

    answer = await rig.answer()
    assert [(row["id"], row["decision"]) for row in answer["rows"]] == [("p2", "block")]
    assert (answer["more"], answer["newest"]) == (False, told[-1].seq)


@pytest.mark.parametrize("question", ["explain", "decisions", "report"])
async def test_audit_files_that_cannot_be_read_are_an_answer(
    rig: OperatorRig, question: str
) -> None:
    (rig.around.audit / "audit-00000001.jsonl").mkdir(parents=True)

    rig.query(question, **({"id": "p1"} if question == "explain" else {}))

    assert (await rig.answer())["code"] == "unreadable"


async def test_what_needs_no_journal_is_told_while_nothing_can_be_written(
    rig: OperatorRig,
) -> None:
    rig.around.write(play(rig.engine, propose(0)))
    rig.around.problem = "the disk is full"

    rig.query("decisions")
    listed = await rig.answer()
    rig.query("health")

    assert [row["id"] for row in listed["rows"]] == ["p1"]
    assert (await rig.answer())["checks"] == []


async def test_command_is_answered_only_when_it_is_written(rig: OperatorRig) -> None:
    rig.control("pause", agent="code")

    assert rig.captured.answers() == []
    rig.write()
    assert rig.captured.answer()["ok"]


async def test_safe_mode_of_one_agent_can_be_asked_for(rig: OperatorRig) -> None:
    rig.control("safe_mode_enter", agent="code")
    for fields in ({"agent": "ops"}, {"agent": "*"}, {}):
        rig.query("safe_mode", **fields)
    rig.write()

    _, ops, everybody, all_ = rig.captured.answers()
    assert (ops["active"], everybody["active"], all_["active"]) == (False, False, True)


async def test_the_report_of_a_day_is_made_of_the_audit_files(rig: OperatorRig) -> None:
    rig.around.write(play(rig.engine, propose(0, type="run_shell", text="rm -rf /"), stop(1)))

    rig.query("report")
    today = (await rig.answer())["report"]
    rig.query("report")
    again = (await rig.answer())["report"]

    assert (today["since"], today["colour"], today["scores"]["blocked"]) == ("2026-03-01", "RED", 1)
    assert again == today


BROKEN = "broken in the middle"
ASIDE = {
    "control": ("rollback", {"commit": "abcd", "kind": "soft", "reason": "why"}, "project"),
    "query": ("commit", {"commit": "abcd"}, "message"),
}


@pytest.mark.parametrize("verb", ASIDE)
async def test_what_is_done_aside_of_the_engine_is_answered_when_it_is_done(
    rig: OperatorRig, verb: str
) -> None:
    (command, fields, field), say = ASIDE[verb], getattr(rig, verb)
    say(command, **fields)
    assert rig.captured.answers() == []
    assert (await rig.answer())[field] == "alice"

    say(command, **fields, project="it is not there")
    told = await rig.answer()
    assert (told["ok"], told["code"], told["error"]) == (False, "not_found", "it is not there")

    say(command, **fields, project=5)
    assert (await rig.answer())["ok"] is False


async def test_a_name_that_is_unknown_is_refused_with_all_that_are_known(rig: OperatorRig) -> None:
    for verb, known in BY_NAME.items():
        getattr(rig, verb)("dance")
        assert (await rig.answer())["error"].endswith(", ".join(known))


async def test_a_declaration_that_nothing_answers_is_an_error_at_start(
    rig: OperatorRig, tmp_path: Path
) -> None:
    around = Surroundings(
        rig.around.facts, rig.around.reload, rig.around.health, tmp_path, Policy, rig.recent
    )
    with pytest.raises(TypeError, match=r"outbox"):
        CommandRunner(
            rig.mailbox,
            rig.emergency_stop,
            around,
            rig.tasks,
            waits=_nobody_waits,
            handlers={},
            question_limits=rig.settings.question_limits,
        )


@pytest.mark.parametrize("verb", ASIDE)
async def test_what_fails_aside_of_the_engine_is_answered_and_the_next_is_too(
    rig: OperatorRig, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    (command, fields, _), say = ASIDE[verb], getattr(rig, verb)

    say(command, **fields, project=BROKEN)

    assert (await rig.answer())["code"] == "internal"
    assert BROKEN in caplog.text
    say(command, **fields)
    assert (await rig.answer())["ok"]


async def test_a_search_that_fails_is_answered_and_the_next_is_too(
    rig: OperatorRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(command_runner, "NewestFirst", None)
        rig.query("decisions")
        assert (await rig.answer())["code"] == "internal"

    rig.query("decisions")
    assert (await rig.answer())["ok"]


async def test_questions_aside_of_the_engine_wait_for_one_another(rig: OperatorRig) -> None:
    for _ in range(2):
        rig.query("commit", commit="abcd")

    assert (await rig.answer())["ok"]
    assert (await rig.answer())["ok"]


async def test_of_questions_aside_of_the_engine_only_so_many_wait(rig: OperatorRig) -> None:
    for _ in range(MAX_WAITING + 1):
        rig.query("commit", commit="abcd")

    assert (await rig.answer())["code"] == "rate_limit"
