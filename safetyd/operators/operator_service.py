"""What people reach: commands that change something and questions that do not."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Final, NamedTuple

import anyio
import anyio.abc
import msgspec

from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.bus.codec import Fields, Malformed, read_command
from safetyd.bus.publisher import Publisher
from safetyd.bus.question_limits import QuestionLimits
from safetyd.clock import uptime
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Forgotten
from safetyd.journal.mailbox import (
    Ask,
    CommandEnvelope,
    EventEnvelope,
    InquiryEnvelope,
    Mailbox,
    Plan,
    Slices,
)
from safetyd.operators.commands import (
    OPERATOR,
    PLANS,
    CommandRefused,
    FromFields,
    check_agent,
    check_kernel,
)
from safetyd.operators.explain import explain, story, today_of, untold
from safetyd.operators.replies import DONE, Done, Refusal, Reply, refused
from safetyd.operators.reviews import Review, read_review
from safetyd.operators.views.agent_view import agents
from safetyd.operators.views.grant_view import grants, suggestions
from safetyd.operators.views.guard_view import anomalies, breakers, budgets, types
from safetyd.operators.views.paging import Questions, always, asking
from safetyd.operators.views.request_view import (
    HistoryQuestion,
    PendingQuestion,
    RequestQuestion,
    history,
    pending,
    request,
)
from safetyd.operators.views.status_view import DaemonFacts, safe_mode, status

WRITTEN_S: Final = 1.0

_convert = msgspec.convert


class StopCommand(msgspec.Struct):
    reason: str = ""
    agent: str | None = None


class ResetCommand(msgspec.Struct):
    agent: str
    session: str | None = None
    episode: str | None = None


class AgentsQuestion(msgspec.Struct):
    """Names come in order; `after` is the last one that is already known."""

    limit: Annotated[int, msgspec.Meta(ge=1)] = 1000
    after: str = ""


class ExplainQuestion(msgspec.Struct):
    id: str


class SafeModeQuestion(msgspec.Struct):
    agent: str | None = None

    def __post_init__(self) -> None:
        check_kernel(self.agent)


class StopDone(Done, frozen=True, kw_only=True):
    """The stop holds. `journalled` is false if a restart now would forget it.

    It is true once the journal has it or, while that cannot be written, the file in reserve.
    """

    epoch: int
    journalled: bool


class ResumeDone(Done, frozen=True, kw_only=True):
    """Which sources were cleared, and which still stop."""

    cleared: tuple[str, ...]
    left: tuple[str, ...]


class Reloaded(Done, frozen=True, kw_only=True):
    next_start: tuple[str, ...]  # sections whose change waits for the next start


class Surroundings(NamedTuple):
    """What the service asks of the daemon around the engine."""

    facts: Callable[[], DaemonFacts]  # what `status` tells beside the engine's state
    reload: Callable[[str], Awaitable[list[str]]]  # for whom; returns what is wrong with it
    search: Callable[[str], Awaitable[list[bytes]]]  # the audit lines of a proposal, newest last


class OperatorService:
    """The control and query subjects."""

    def __init__(  # noqa: PLR0913 - the parts of the daemon that people reach
        self,
        publisher: Publisher,
        mailbox: Mailbox,
        emergency_stop: EmergencyStop,
        around: Surroundings,
        tasks: anyio.abc.TaskGroup,
        *,
        waits: Callable[[Request], bool],
        plans: Mapping[str, FromFields],
        questions: Questions,
        question_limits: QuestionLimits,
    ) -> None:
        self._question_limits = question_limits
        self._searching = anyio.Lock()
        self._searches: set[str] = set()  # for whom the audit files are looked through
        self._waits = waits
        self._plans = {**PLANS, **plans}
        self._questions = {**_VIEWS, **questions}
        self._publisher = publisher
        self._mailbox = mailbox
        self._emergency_stop = emergency_stop
        self._around = around
        self._tasks = tasks

    def control(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Carry out a command. A stop holds before this returns."""
        by = subject[subject.rfind(b".") + 1 :].decode("ascii", "replace")
        self._answered(reply, lambda: self._command(by, read_command(payload), reply))

    def review(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Take a person's answers to requests."""
        by = subject[subject.rfind(b".") + 1 :].decode("ascii", "replace")

        def put() -> None:
            command = read_review(read_command(payload))
            told = partial(self._publisher.answer, reply)
            for envelope in Review(by, command, self._waits, told).envelopes():
                self._mailbox.put(envelope)

        self._answered(reply, put)

    def query(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Answer a question, after whatever changes something and within the asker's share."""
        by = subject[subject.rfind(b".") + 1 :].decode("ascii", "replace")
        wait = self._question_limits.admit(by, len(payload))
        if wait > 0:
            self._too_often(by, reply, wait)
            return
        self._answered(reply, lambda: self._question(by, read_command(payload), reply))

    def _too_often(self, by: str, reply: bytes, wait: float) -> None:
        if by in self._question_limits.flood_gate.shut:
            return
        error = f"{by} asks more than is answered; try again in {wait:.1f} s"
        refusal = Refusal(ok=False, error=error, code="rate_limit", retry_after_s=round(wait, 3))
        self._publisher.answer(reply, refusal)

    def _answered(self, reply: bytes, act: Callable[[], None]) -> None:
        try:
            act()
        except Malformed as exc:
            self._no(reply, "malformed", str(exc))
        except msgspec.ValidationError as exc:
            self._no(reply, "invalid", str(exc))
        except CommandRefused as exc:
            self._no(reply, exc.code, str(exc))

    def _command(self, by: str, fields: Fields, reply: bytes) -> None:
        match fields["command"]:
            case "stop":
                self._stop(by, _convert(fields, StopCommand), reply)
            case "resume":
                self._resume(by, _convert(fields, StopCommand), reply)
            case "reset":
                self._reset(by, _convert(fields, ResetCommand), reply)
            case "reload":
                self._tasks.start_soon(self._reload, by, reply)
            case str(command) if plan := self._plans.get(command):
                self._carry_out(plan(by, fields), reply)
            case command:
                known = ", ".join(("stop", "resume", "reset", "reload", *self._plans))
                raise CommandRefused("unknown_command", f"{command!r} is not one of {known}")

    def _question(self, by: str, fields: Fields, reply: bytes) -> None:
        match fields["command"]:
            case "status":
                if problem := self._around.facts().problem:
                    # The engine's state is not durable now, and who asks should not wait.
                    raise CommandRefused("unavailable", f"nothing is allowed: {problem}")
                self._ask(by, reply, self._status)
            case "explain":
                question = _convert(fields, ExplainQuestion)
                if by in self._searches:
                    raise CommandRefused("rate_limit", f"{by} asks for another explanation already")
                self._searches.add(by)
                self._tasks.start_soon(self._search, by, question.id, reply)
            case str(command) if ask := self._questions.get(command):
                self._ask(by, reply, ask(fields))
            case command:
                known = ", ".join(("status", "explain", *self._questions))
                raise CommandRefused("unknown_command", f"{command!r} is not one of {known}")

    def _stop(self, by: str, command: StopCommand, reply: bytes) -> None:
        check_agent(command.agent)
        written = anyio.Event()
        epoch = self._emergency_stop.stop(OPERATOR, by, command.reason, command.agent, written.set)
        self._tasks.start_soon(self._confirm, reply, epoch, written)

    async def _confirm(self, reply: bytes, epoch: int, written: anyio.Event) -> None:
        with anyio.move_on_after(WRITTEN_S):
            await written.wait()
        done = StopDone(ok=True, epoch=epoch, journalled=written.is_set())
        self._publisher.answer(reply, done)

    def _resume(self, by: str, command: StopCommand, reply: bytes) -> None:
        check_agent(command.agent)
        held = [s for s in self._emergency_stop.stop_flag.stops if s.agent == command.agent]
        sources = [s.source for s in held if s.source in (OPERATOR, "anomaly")]
        left = tuple(s.source for s in held if s.source not in sources)

        def done() -> None:
            resumed = ResumeDone(ok=True, cleared=tuple(sources), left=left)
            self._publisher.answer(reply, resumed)

        if sources:
            self._emergency_stop.resume(sources, by, command.reason, command.agent, done)
        else:
            done()

    def _reset(self, by: str, command: ResetCommand, reply: bytes) -> None:
        check_agent(command.agent)

        def made(_engine: Engine, moment: Moment) -> Forgotten:
            return Forgotten(
                at=moment.at,
                t=moment.t,
                agent=command.agent,
                by=by,
                session=command.session,
                episode=command.episode,
            )

        self._mailbox.put(EventEnvelope(made, lambda: self._publisher.answer(reply, DONE)))

    def _carry_out(self, plan: Plan[Reply], reply: bytes) -> None:
        self._mailbox.put(CommandEnvelope(plan, partial(self._publisher.answer, reply)))

    async def _reload(self, by: str, reply: bytes) -> None:
        errors = await self._around.reload(by)
        if errors:
            self._no(reply, "config_rejected", "\n".join(errors))
        else:
            self._publisher.answer(
                reply, Reloaded(ok=True, next_start=self._around.facts().next_start)
            )

    def _status(self, engine: Engine, moment: Moment) -> Slices:
        return status(engine, moment, self._around.facts)

    def _ask(self, by: str, reply: bytes, ask: Ask) -> None:
        def told(answer: msgspec.Raw) -> None:
            self._question_limits.end(by)
            self._publisher.answer(reply, answer)

        self._question_limits.begin(by)
        self._mailbox.put_question(
            InquiryEnvelope(ask, told, partial(self._question_limits.charge, by))
        )

    async def _search(self, by: str, id_: str, reply: bytes) -> None:
        """Look through the audit files: once at a time, and on the asker's account."""
        async with self._searching:
            begun = uptime()
            await self._explain(by, id_, reply)
            self._question_limits.charge(by, uptime() - begun)
        self._searches.discard(by)

    async def _explain(self, by: str, id_: str, reply: bytes) -> None:
        try:
            told = story(await self._around.search(id_), id_)
        except OSError as exc:
            self._no(reply, "unreadable", f"the audit files cannot be read: {exc}")
            return
        if told is None:
            self._no(reply, "not_found", f"no decision with id {id_!r} is in the audit files")
        elif self._around.facts().problem:
            # The engine answers nobody now, and what was written down is still true.
            self._publisher.answer(reply, explain(told, untold))
        else:
            self._ask(by, reply, lambda e, m: explain(told, today_of(e, m)))

    def _no(self, reply: bytes, code: str, error: str) -> None:
        self._publisher.answer(reply, refused(code, error))


_VIEWS: Final[Questions] = {
    "agents": asking(AgentsQuestion, lambda e, m, asked: agents(e, m, asked.limit, asked.after)),
    "pending": asking(PendingQuestion, pending),
    "request": asking(RequestQuestion, lambda e, m, asked: request(e, m, asked.id)),
    "history": asking(HistoryQuestion, history),
    "safe_mode": asking(SafeModeQuestion, lambda e, m, asked: safe_mode(e, m, asked.agent)),
    "budgets": always(budgets),
    "breakers": always(breakers),
    "anomalies": always(anomalies),
    "types": always(types),
    "grants": always(grants),
    "suggestions": always(suggestions),
}
