"""Runs the commands, answers and queries of operators.

The bus and the web server call it with the name of the operator that they authenticated.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread
from msgspec import UNSET

from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.bus.question_limits import QuestionLimits
from safetyd.clock import Clock, uptime
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.stop import daemon_of
from safetyd.core.policy import Policy
from safetyd.journal.audit_reading import NewestFirst, Rests
from safetyd.journal.mailbox import (
    Ask,
    CommandEnvelope,
    InquiryEnvelope,
    Mailbox,
    Plan,
)
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.operators.cluster_access import ClusterAccess, hand_over, is_gone, show
from safetyd.operators.commands import INTERNAL_ERROR, OPERATOR, PLANS, check_agent, check_kernel
from safetyd.operators.contract.agent_contract import AgentQuestion, AgentsQuestion
from safetyd.operators.contract.cluster_contract import ClusterQuestion, HandoverCommand
from safetyd.operators.contract.decision_contract import (
    DecisionsAnswer,
    DecisionsQuestion,
    ExplainQuestion,
)
from safetyd.operators.contract.grant_contract import GrantsQuestion, SuggestionsQuestion
from safetyd.operators.contract.guard_contract import (
    AnomaliesQuestion,
    BreakersQuestion,
    BudgetsQuestion,
    LimitsQuestion,
    MoneyQuestion,
    TypesQuestion,
)
from safetyd.operators.contract.hold_contract import (
    ReloadCommand,
    Reloaded,
    ResumeCommand,
    ResumeDone,
    SafeModeQuestion,
    StopCommand,
    StopDone,
)
from safetyd.operators.contract.host_contract import HostFilesQuestion
from safetyd.operators.contract.question import Call, Command, name_of
from safetyd.operators.contract.request_contract import (
    HistoryQuestion,
    PendingAnswer,
    PendingQuestion,
    RequestQuestion,
)
from safetyd.operators.contract.rota_contract import RotaQuestion
from safetyd.operators.contract.status_contract import (
    DaemonFacts,
    HealthAnswer,
    HealthQuestion,
    StatusQuestion,
    TopBarQuestion,
)
from safetyd.operators.declarations import BY_NAME, COMMANDS, QUESTIONS
from safetyd.operators.explain import explain, today_of, untold
from safetyd.operators.explain_search import search
from safetyd.operators.file_acceptance import host_files
from safetyd.operators.handlers import Answer, Asker, Handlers, Search, Work, found, overview, view
from safetyd.operators.replies import CommandRefused, Done, Reply, refused
from safetyd.operators.reviews import Review, ReviewCommand
from safetyd.operators.views.agent_page_view import agent
from safetyd.operators.views.agent_view import agents
from safetyd.operators.views.anomaly_view import anomalies
from safetyd.operators.views.breaker_view import breakers
from safetyd.operators.views.decision_view import decisions, decisions_of
from safetyd.operators.views.grant_view import grants, suggestions
from safetyd.operators.views.guard_view import budgets, types
from safetyd.operators.views.limit_view import limits
from safetyd.operators.views.money_view import money
from safetyd.operators.views.request_view import history, pending, request, reviewed
from safetyd.operators.views.rota_view import rota
from safetyd.operators.views.status_view import safe_mode, status
from safetyd.operators.views.top_bar_view import top_bar

log = logging.getLogger("safetyd.operators")

WRITTEN_S: Final = 1.0

# Limits of the warnings after a reload.
MAX_WARNINGS: Final = 50
SHOWN_CHARS: Final = 2000
# Maximum size of a shown proposal; a message on the bus has at most 256 KB.
SHOWN_BYTES: Final = 128 * 1024


async def _no_warnings() -> Sequence[str]:
    return ()


class Surroundings(NamedTuple):
    """The parts of the daemon that the runner uses."""

    facts: Callable[[], DaemonFacts]  # the part of `status` that does not come from the engine
    reload: Callable[[str], Awaitable[list[str]]]  # takes the operator; returns the errors
    health: Callable[[], Awaitable[HealthAnswer]]
    audit: Path  # the directory of audit files
    policy: Callable[[], Policy]  # the policy in force
    recent: RecentEvents
    # returns settings that cannot work at the moment
    warnings: Callable[[], Awaitable[Sequence[str]]] = _no_warnings
    cluster: ClusterAccess | None = None  # the other daemons; None if the bus is embedded

    @property
    def standby(self) -> str:
        """Return why this daemon carries out no command except a stop, or an empty string."""
        return "" if self.cluster is None else self.cluster.refusal


class CommandRunner:
    """Runs calls. It raises if a message is invalid, and answers when the result is known.

    `handlers` come from other packages.
    """

    def __init__(  # noqa: PLR0913 - the parts of the daemon that people reach
        self,
        mailbox: Mailbox,
        emergency_stop: EmergencyStop,
        around: Surroundings,
        tasks: anyio.abc.TaskGroup,
        *,
        waits: Callable[[Request], bool],
        handlers: Handlers,
        question_limits: QuestionLimits,
    ) -> None:
        self._question_limits = question_limits
        self._searching = anyio.Lock()
        self._looking = anyio.Lock()
        self._searches: set[str] = set()  # operators with a running search of the audit files
        self._waits = waits
        self._mailbox = mailbox
        self._emergency_stop = emergency_stop
        self._around = around
        self._tasks = tasks
        self._handlers = {**VIEWS, **PLANS, **self._own(), **handlers}
        if missing := [kind for kind in (*QUESTIONS, *COMMANDS) if kind not in self._handlers]:
            raise TypeError(f"no handler for {', '.join(map(name_of, missing))}")

    def run(self, call: Call[Done], asker: Asker) -> None:
        """Answer a query or run a command. A stop is in force before this returns."""
        acts = isinstance(call, Command) and not isinstance(call, StopCommand)
        if acts and (why := self._around.standby):
            raise CommandRefused("standby", why)
        self._handlers[type(call)](self, asker, call)

    def _own(self) -> Handlers:
        """Return the handlers that need more than the engine's state."""
        return {
            StopCommand: lambda _runner, asker, command: self._stop(asker, command),
            ResumeCommand: lambda _runner, asker, command: self._resume(asker, command),
            ReloadCommand: lambda _runner, asker, _: self.work(
                asker, partial(self._reload, asker.by)
            ),
            StatusQuestion: lambda _runner, asker, _: self._ask_status(asker),
            SafeModeQuestion: lambda _runner, asker, asked: self._safe_mode(asker, asked),
            HealthQuestion: lambda _runner, asker, _: self.work(asker, self._around.health),
            ClusterQuestion: lambda _runner, asker, _: asker.answered(
                show(self._around.cluster, Clock().now().at)
            ),
            HandoverCommand: lambda _runner, asker, command: asker.answered(
                hand_over(self._around.cluster, asker.by, force=command.force)
            ),
            ExplainQuestion: lambda _runner, asker, asked: self._explain(asker, asked),
            **dict([found(DecisionsQuestion, self._recent_decisions, self._decisions)]),
            **dict.fromkeys(
                BY_NAME["review"].values(),
                lambda _runner, asker, command: self._review(asker, command),
            ),
        }

    def inquire(self, asker: Asker, ask: Ask) -> None:
        by, limits = asker.by, self._question_limits

        def answered(answer: Answer) -> None:
            limits.end(by)
            asker.answered(answer)

        limits.begin(by)
        failed = partial(answered, INTERNAL_ERROR)
        charge = partial(limits.charge, by)
        self._mailbox.put_question(InquiryEnvelope(ask, asker.pack, answered, failed, charge))

    def carry_out(self, asker: Asker, plan: Plan[Reply]) -> None:
        failed = partial(asker.answered, INTERNAL_ERROR)
        self._mailbox.put(CommandEnvelope(plan, asker.answered, failed))

    def work(self, asker: Asker, work: Work) -> None:
        self._tasks.start_soon(self._work, asker, work)

    def look_up(self, asker: Asker, work: Work) -> None:
        self._question_limits.begin(asker.by)
        self._tasks.start_soon(self._look_up, asker, work)

    def search(self, asker: Asker, search: Search) -> None:
        async def answer(rests: Rests) -> None:
            asker.answered(await anyio.to_thread.run_sync(search, rests))

        self._begin_search(asker, answer)

    def _review(self, asker: Asker, command: ReviewCommand) -> None:
        """Apply answers to requests."""
        for envelope in Review(asker.by, command, self._waits, asker.answered).envelopes():
            self._mailbox.put(envelope)

    def _stop(self, asker: Asker, command: StopCommand) -> None:
        check_agent(command.agent)
        written, recorded = anyio.Event(), anyio.Event()
        epoch = self._emergency_stop.stop(
            OPERATOR,
            asker.by,
            command.reason,
            command.agent,
            written.set,
            via=command.via,
            recorded=recorded.set,
        )
        self._tasks.start_soon(self._confirm, asker, epoch, written, recorded)

    async def _confirm(
        self, asker: Asker, epoch: int, written: anyio.Event, recorded: anyio.Event
    ) -> None:
        """Answer once the stop is stored. With several daemons, wait until it is in the journal."""
        follows, shared = bool(self._around.standby), self._emergency_stop.is_shared
        with anyio.move_on_after(WRITTEN_S):
            await (recorded if shared else written).wait()
        held = not recorded.is_set() and (follows or (shared and written.is_set()))
        # Another daemon may take over from a writer, and it cannot read the reserve file here.
        stored = recorded if shared and not follows else written
        asker.answered(StopDone(ok=True, epoch=epoch, journalled=stored.is_set(), held=held))

    def _resume(self, asker: Asker, command: ResumeCommand) -> None:
        by = asker.by
        check_agent(command.agent)
        if command.all_except is not None:
            check_agent(command.all_except)
            self._emergency_stop.keep_only(
                command.all_except, (OPERATOR, "anomaly"), by, command.reason, via=command.via
            )
        held = [s for s in self._emergency_stop.stop_flag.stops if s.agent == command.agent]
        absent = {
            s.source: daemon
            for s in held
            if is_gone(self._around.cluster, daemon := daemon_of(s.source))
        }
        sources = [s.source for s in held if s.source in (OPERATOR, "anomaly", *absent)]
        left = tuple(s.source for s in held if s.source not in sources)
        gone = tuple(dict.fromkeys(absent.values()))

        def done() -> None:
            asker.answered(ResumeDone(ok=True, cleared=tuple(sources), left=left, absent=gone))

        if sources:
            self._emergency_stop.resume(
                sources, by, command.reason, command.agent, done, via=command.via
            )
        else:
            done()

    async def _reload(self, by: str) -> Reply:
        if errors := await self._around.reload(by):
            return refused("config_rejected", "\n".join(errors))
        warnings = tuple(text[:SHOWN_CHARS] for text in await self._around.warnings())
        next_start = self._around.facts().next_start
        return Reloaded(ok=True, next_start=next_start, warnings=warnings[:MAX_WARNINGS] or UNSET)

    async def _work(self, asker: Asker, work: Work) -> None:
        """Answer with the result. If the work fails, log it and answer with an error."""
        try:
            answer = await work()
        except CommandRefused as exc:
            answer = refused(exc.code, str(exc))
        except Exception:
            log.exception("a call failed")
            answer = INTERNAL_ERROR
        asker.answered(answer)

    async def _look_up(self, asker: Asker, work: Work) -> None:
        """Run one lookup at a time, in another thread or program."""
        async with self._looking:
            await self._work(asker, work)
        self._question_limits.end(asker.by)

    def _ask_status(self, asker: Asker) -> None:
        if problem := self._around.facts().problem:
            # The engine's state is not durable now, and the client should not wait.
            raise CommandRefused("unavailable", f"safetyd blocks all actions: {problem}")
        self.inquire(asker, lambda state, moment: status(state, moment, self._around.facts))

    def _safe_mode(self, asker: Asker, asked: SafeModeQuestion) -> None:
        check_kernel(asked.agent)
        self.inquire(asker, lambda state, moment: safe_mode(state, moment, asked.agent))

    def _recent_decisions(self, asked: DecisionsQuestion) -> DecisionsAnswer | None:
        recent = self._around.recent
        return decisions_of(recent.newest(), recent.after, asked)

    def _decisions(self, asked: DecisionsQuestion, rests: Rests) -> DecisionsAnswer:
        return decisions(NewestFirst(self._around.audit, asked.before, rests=rests), asked)

    def _explain(self, asker: Asker, asked: ExplainQuestion) -> None:
        around = self._around

        async def answer(rests: Rests) -> None:
            found = await anyio.to_thread.run_sync(
                search, around.audit, asked, SHOWN_BYTES, around.policy(), rests
            )
            if found is None:
                asker.answered(refused("not_found", f"no decision {asked} in the audit files"))
            elif around.facts().problem:
                # The engine cannot answer now, but the audit files are still correct.
                asker.answered(explain(found, untold))
            else:
                self.inquire(asker, lambda e, m: explain(found, today_of(e, m)))

        self._begin_search(asker, answer)

    def _begin_search(self, asker: Asker, answer: Callable[[Rests], Awaitable[None]]) -> None:
        by = asker.by
        if by in self._searches:
            raise CommandRefused(
                "rate_limit",
                f'operator "{by}" already has a search running; try again when it is done',
            )
        self._searches.add(by)
        self._tasks.start_soon(self._search, asker, answer)

    async def _search(self, asker: Asker, answer: Callable[[Rests], Awaitable[None]]) -> None:
        """Run one search of the audit files at a time. It counts against the operator's limits."""
        async with self._searching:
            begun, rests = uptime(), Rests()
            try:
                await answer(rests)
            except OSError as exc:
                asker.answered(refused("unreadable", f"cannot read the audit files: {exc}"))
            except Exception:
                log.exception("a search failed")
                asker.answered(INTERNAL_ERROR)
            self._question_limits.charge(asker.by, uptime() - begun - rests.total_s)
        self._searches.discard(asker.by)


def _pending(
    state: EngineState, moment: Moment, asked: PendingQuestion
) -> PendingAnswer | Generator[None, Moment, PendingAnswer]:
    return (pending if asked.sort == "asked" else reviewed)(state, moment, asked)


VIEWS: Final[Handlers] = dict(
    (
        view(AgentsQuestion, agents),
        view(AgentQuestion, agent),
        view(PendingQuestion, _pending),
        view(RequestQuestion, lambda e, m, asked: request(e, m, asked.id)),
        view(HistoryQuestion, history),
        overview(BudgetsQuestion, budgets),
        overview(BreakersQuestion, breakers),
        view(AnomaliesQuestion, anomalies),
        overview(LimitsQuestion, limits),
        overview(MoneyQuestion, money),
        overview(TypesQuestion, types),
        overview(HostFilesQuestion, host_files),
        overview(GrantsQuestion, grants),
        overview(SuggestionsQuestion, suggestions),
        overview(TopBarQuestion, top_bar),
        view(RotaQuestion, rota),
    )
)
