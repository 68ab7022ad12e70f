"""What people with a key may do, whichever way they come: commands, answers and questions.

The bus and the web both come here, each with the name of whom it has recognised.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.bus.codec import Fields
from safetyd.bus.question_limits import QuestionLimits
from safetyd.clock import uptime
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Forgotten
from safetyd.core.policy import Policy
from safetyd.journal.audit_reading import NewestFirst, Rests
from safetyd.journal.mailbox import (
    Ask,
    CommandEnvelope,
    EventEnvelope,
    InquiryEnvelope,
    Mailbox,
    Slices,
)
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.operators.commands import (
    OPERATOR,
    PLANS,
    CommandRefused,
    FromFields,
    Via,
    check_agent,
    check_kernel,
)
from safetyd.operators.explain import explain, today_of, untold
from safetyd.operators.explain_search import ExplainQuestion, search
from safetyd.operators.replies import DONE, INTERNAL_ERROR, Done, refused
from safetyd.operators.report_access import ReportAccess, ReportQuestion
from safetyd.operators.reviews import Review, read_review
from safetyd.operators.views.agent_page_view import AgentQuestion, agent
from safetyd.operators.views.agent_view import AgentsQuestion, agents
from safetyd.operators.views.decision_view import DecisionsQuestion, decisions, decisions_of
from safetyd.operators.views.grant_view import grants, suggestions
from safetyd.operators.views.guard_views.anomaly_view import AnomaliesQuestion, anomalies
from safetyd.operators.views.guard_views.breaker_view import breakers
from safetyd.operators.views.guard_views.guard_view import budgets, types
from safetyd.operators.views.guard_views.limit_view import limits
from safetyd.operators.views.guard_views.money_view import money
from safetyd.operators.views.health_view import HealthAnswer
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
from safetyd.operators.views.top_bar_view import top_bar
from safetyd.operators.web_access import SessionEndCommand, SignInQuestion, WebAccess

WRITTEN_S: Final = 1.0

# What is shown of one proposal; a message on the bus holds a quarter of a megabyte.
SHOWN_BYTES: Final = 128 * 1024

Search = Callable[[Rests], Awaitable[None]]
Told = Callable[[msgspec.Struct | msgspec.Raw], None]  # hears the answer
Work = Callable[[], Awaitable[msgspec.Struct]]
Begin = Callable[[str, Fields], Work]

_convert = msgspec.convert


class StopCommand(msgspec.Struct):
    reason: str = ""
    agent: str | None = None
    via: Via = ""


class ResumeCommand(StopCommand):
    all_except: str | None = None  # this agent stays stopped; everyone else may go on


class ResetCommand(msgspec.Struct):
    agent: str
    session: str | None = None
    episode: str | None = None
    via: Via = ""


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


class Aside(NamedTuple):
    """What is done beside the engine, such as reading files, by the names of the bus.

    Each reads the fields of whoever gives it, and returns what does it and answers.
    """

    commands: Mapping[str, Begin]
    questions: Mapping[str, Begin]

    def __or__(self, other: "Aside") -> "Aside":
        return Aside({**self.commands, **other.commands}, {**self.questions, **other.questions})


class Surroundings(NamedTuple):
    """What the service asks of the daemon around the engine."""

    facts: Callable[[], DaemonFacts]  # what `status` tells beside the engine's state
    reload: Callable[[str], Awaitable[list[str]]]  # for whom; returns what is wrong with it
    health: Callable[[], Awaitable[HealthAnswer]]
    audit: Path  # where the audit files are
    policy: Callable[[], Policy]  # by which commands are read now
    recent: RecentEvents
    web: WebAccess
    aside: Aside = Aside({}, {})


class CommandRunner:
    """Every method says what is wrong by an exception, and tells the answer when it is known."""

    def __init__(  # noqa: PLR0913 - the parts of the daemon that people reach
        self,
        mailbox: Mailbox,
        emergency_stop: EmergencyStop,
        around: Surroundings,
        tasks: anyio.abc.TaskGroup,
        *,
        waits: Callable[[Request], bool],
        plans: Mapping[str, FromFields],
        questions: Questions,
        question_limits: QuestionLimits,
        reports: ReportAccess,
    ) -> None:
        self._question_limits = question_limits
        self._reports = reports
        self._searching = anyio.Lock()
        self._looking = anyio.Lock()
        self._searches: set[str] = set()  # for whom the audit files are looked through
        self._waits = waits
        self._plans = {**PLANS, **plans}
        self._questions = {**_VIEWS, **questions}
        self._mailbox = mailbox
        self._emergency_stop = emergency_stop
        self._around = around
        self._tasks = tasks

    def command(self, by: str, fields: Fields, told: Told) -> None:
        """Carry out a command. A stop holds before this returns."""
        match fields["command"]:
            case "stop":
                self._stop(by, _convert(fields, StopCommand), told)
            case "resume":
                self._resume(by, _convert(fields, ResumeCommand), told)
            case "reset":
                self._reset(by, _convert(fields, ResetCommand), told)
            case "reload":
                self._tasks.start_soon(self._reload, by, told)
            case "session_end":
                told(self._around.web.end(by, _convert(fields, SessionEndCommand)))
            case str(command) if begin := self._around.aside.commands.get(command):
                self._tasks.start_soon(self._told, begin(by, fields), told)
            case str(command) if plan := self._plans.get(command):
                failed = partial(told, INTERNAL_ERROR)
                self._mailbox.put(CommandEnvelope(plan(by, fields), told, failed))
            case command:
                own = ("stop", "resume", "reset", "reload", "session_end")
                known = ", ".join((*own, *self._around.aside.commands, *self._plans))
                raise CommandRefused("unknown_command", f"{command!r} is not one of {known}")

    def review(self, by: str, fields: Fields, told: Told) -> None:
        """Take a person's answers to requests."""
        for envelope in Review(by, read_review(fields), self._waits, told).envelopes():
            self._mailbox.put(envelope)

    def question(self, by: str, fields: Fields, told: Told) -> None:
        """Answer a question, after whatever changes something."""
        match fields["command"]:
            case "status":
                self._ask_status(by, told)
            case "health":
                self._tasks.start_soon(self._health, told)
            case "explain":
                question = _convert(fields, ExplainQuestion)
                self._begin_search(by, told, partial(self._explain, by, question, told))
            case "decisions":
                self._list_decisions(by, _convert(fields, DecisionsQuestion), told)
            case "report":
                self._report_days(by, _convert(fields, ReportQuestion), told)
            case "sign_in":
                told(self._around.web.sign_in(by, _convert(fields, SignInQuestion)))
            case "sessions":
                told(self._around.web.sessions())
            case str(command) if begin := self._around.aside.questions.get(command):
                self._begin_aside(by, begin(by, fields), told)
            case str(command) if ask := self._questions.get(command):
                self._ask(by, told, ask(fields))
            case command:
                own = ("status", "health", "explain", "decisions", "report", "sign_in", "sessions")
                known = ", ".join((*own, *self._around.aside.questions, *self._questions))
                raise CommandRefused("unknown_command", f"{command!r} is not one of {known}")

    def _stop(self, by: str, command: StopCommand, told: Told) -> None:
        check_agent(command.agent)
        written = anyio.Event()
        epoch = self._emergency_stop.stop(
            OPERATOR, by, command.reason, command.agent, written.set, via=command.via
        )
        self._tasks.start_soon(self._confirm, told, epoch, written)

    async def _confirm(self, told: Told, epoch: int, written: anyio.Event) -> None:
        with anyio.move_on_after(WRITTEN_S):
            await written.wait()
        told(StopDone(ok=True, epoch=epoch, journalled=written.is_set()))

    def _resume(self, by: str, command: ResumeCommand, told: Told) -> None:
        check_agent(command.agent)
        if command.all_except is not None:
            check_agent(command.all_except)
            self._emergency_stop.keep_only(
                command.all_except, (OPERATOR, "anomaly"), by, command.reason, via=command.via
            )
        held = [s for s in self._emergency_stop.stop_flag.stops if s.agent == command.agent]
        sources = [s.source for s in held if s.source in (OPERATOR, "anomaly")]
        left = tuple(s.source for s in held if s.source not in sources)

        def done() -> None:
            told(ResumeDone(ok=True, cleared=tuple(sources), left=left))

        if sources:
            self._emergency_stop.resume(
                sources, by, command.reason, command.agent, done, via=command.via
            )
        else:
            done()

    def _reset(self, by: str, command: ResetCommand, told: Told) -> None:
        check_agent(command.agent)

        def made(_engine: EngineState, moment: Moment) -> Forgotten:
            return Forgotten(
                at=moment.at,
                t=moment.t,
                agent=command.agent,
                by=by,
                session=command.session,
                episode=command.episode,
                via=command.via,
            )

        self._mailbox.put(EventEnvelope(made, lambda: told(DONE)))

    async def _reload(self, by: str, told: Told) -> None:
        errors = await self._around.reload(by)
        if errors:
            told(refused("config_rejected", "\n".join(errors)))
        else:
            told(Reloaded(ok=True, next_start=self._around.facts().next_start))

    async def _told(self, work: Work, told: Told) -> None:
        try:
            told(await work())
        except CommandRefused as exc:
            told(refused(exc.code, str(exc)))

    def _begin_aside(self, by: str, work: Work, told: Told) -> None:
        self._question_limits.begin(by)
        self._tasks.start_soon(self._found, by, work, told)

    async def _found(self, by: str, work: Work, told: Told) -> None:
        """Wait for another thread or program, which takes nothing from agents: one at a time."""
        async with self._looking:
            await self._told(work, told)
        self._question_limits.end(by)

    def _ask_status(self, by: str, told: Told) -> None:
        if problem := self._around.facts().problem:
            # The engine's state is not durable now, and who asks should not wait.
            raise CommandRefused("unavailable", f"nothing is allowed: {problem}")
        self._ask(by, told, self._status)

    def _status(self, engine: EngineState, moment: Moment) -> Slices:
        return status(engine, moment, self._around.facts)

    async def _health(self, told: Told) -> None:
        told(await self._around.health())

    def _ask(self, by: str, told: Told, ask: Ask) -> None:
        def answered(answer: msgspec.Struct | msgspec.Raw) -> None:
            self._question_limits.end(by)
            told(answer)

        self._question_limits.begin(by)
        charge = partial(self._question_limits.charge, by)
        failed = partial(answered, INTERNAL_ERROR)
        self._mailbox.put_question(InquiryEnvelope(ask, answered, failed, charge))

    def _list_decisions(self, by: str, asked: DecisionsQuestion, told: Told) -> None:
        recent = self._around.recent
        if (found := decisions_of(recent.newest(), recent.after, asked)) is not None:
            told(found)
        else:
            self._begin_search(by, told, partial(self._decisions, asked, told))

    def _report_days(self, by: str, asked: ReportQuestion, told: Told) -> None:
        if (made := self._reports.find(asked)) is not None:
            told(made)
        else:
            self._begin_search(by, told, partial(self._report, asked, told))

    def _begin_search(self, by: str, told: Told, search: Search) -> None:
        if by in self._searches:
            raise CommandRefused("rate_limit", f"{by} has the audit files looked through already")
        self._searches.add(by)
        self._tasks.start_soon(self._search, by, told, search)

    async def _search(self, by: str, told: Told, search: Search) -> None:
        """Look through the audit files: once at a time, and on the asker's account."""
        async with self._searching:
            begun, rests = uptime(), Rests()
            try:
                await search(rests)
            except OSError as exc:
                told(refused("unreadable", f"the audit files cannot be read: {exc}"))
            self._question_limits.charge(by, uptime() - begun - rests.total_s)
        self._searches.discard(by)

    async def _explain(self, by: str, asked: ExplainQuestion, told: Told, rests: Rests) -> None:
        around = self._around
        found = await anyio.to_thread.run_sync(
            search, around.audit, asked, SHOWN_BYTES, around.policy(), rests
        )
        if found is None:
            told(refused("not_found", f"no decision {asked} is in the audit files"))
        elif around.facts().problem:
            # The engine answers nobody now, and what was written down is still true.
            told(explain(found, untold))
        else:
            self._ask(by, told, lambda e, m: explain(found, today_of(e, m)))

    async def _decisions(self, asked: DecisionsQuestion, told: Told, rests: Rests) -> None:
        lines = NewestFirst(self._around.audit, asked.before, rests=rests)
        told(await anyio.to_thread.run_sync(decisions, lines, asked))

    async def _report(self, asked: ReportQuestion, told: Told, rests: Rests) -> None:
        told(await anyio.to_thread.run_sync(self._reports.make, asked, rests))


_VIEWS: Final[Questions] = {
    "agents": asking(AgentsQuestion, agents),
    "agent": asking(AgentQuestion, agent),
    "pending": asking(PendingQuestion, pending),
    "request": asking(RequestQuestion, lambda e, m, asked: request(e, m, asked.id)),
    "history": asking(HistoryQuestion, history),
    "safe_mode": asking(SafeModeQuestion, lambda e, m, asked: safe_mode(e, m, asked.agent)),
    "budgets": always(budgets),
    "breakers": always(breakers),
    "anomalies": asking(AnomaliesQuestion, anomalies),
    "limits": always(limits),
    "money": always(money),
    "types": always(types),
    "grants": always(grants),
    "suggestions": always(suggestions),
    "top_bar": always(top_bar),
}
