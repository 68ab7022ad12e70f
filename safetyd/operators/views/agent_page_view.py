"""The details of one agent: its actions, restrictions and usual values."""

from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final

from safetyd.cards.request_details import ROW_CHARS
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.budget.accounts import NOTHING
from safetyd.core.messages.money import usd
from safetyd.core.reporting.session_transcripts import Record
from safetyd.operators.contract.agent_contract import (
    AgentAnswer,
    AgentQuestion,
    LiveSession,
    OpenAction,
    PendingRequest,
    SessionSoFar,
)
from safetyd.operators.contract.guard_contract import Budget
from safetyd.operators.replies import Refusal, refused
from safetyd.operators.views.agent_view import SHOWN, due_by, row_of
from safetyd.operators.views.anomaly_view import finding, findings
from safetyd.operators.views.guard_view import budget
from safetyd.operators.views.paging import PAGE_BYTES, fitting
from safetyd.operators.views.status_view import pauses_of, shown_safe_mode

MAX_PENDING: Final = 50
PART_BYTES: Final = PAGE_BYTES // 8  # for each list: sessions, actions, requests, budgets, findings
MEASURES_BYTES: Final = 3 * PART_BYTES


def agent(
    state: EngineState, moment: Moment, wanted: AgentQuestion
) -> Generator[None, Moment, AgentAnswer | Refusal]:
    """Return the details of one agent."""
    name = wanted.agent
    measures = fitting(state.guards.anomaly.measures(name, moment.t), MEASURES_BYTES)
    moment = yield
    found = fitting((finding(state, one) for one in findings(state, name)), PART_BYTES)
    budgets = fitting(_budgets(state, moment, name), PART_BYTES)
    moment = yield
    if name not in state.keys.agents:
        return refused("not_found", f"unknown agent {name!r}; `safetyd agents` lists all agents")
    return AgentAnswer(
        ok=True,
        agent=row_of(state, moment, name, due_by(state.stop.stops)),
        stops=tuple(stop for stop in state.stop.stops if stop.agent in {None, name}),
        pauses=pauses_of(state, name),
        safe_mode=shown_safe_mode(state, moment, name),
        sessions=fitting(_sessions(state, moment, name), PART_BYTES),
        open_actions=fitting(_actions(state, moment, name), PART_BYTES),
        pending=fitting(map(_request, _oldest(state, name)), PART_BYTES),
        pending_count=state.approvals.pending_count(name),
        budgets=budgets,
        findings=found,
        measures=measures,
    )


def _budgets(state: EngineState, moment: Moment, name: str) -> Iterator[Budget]:
    """Yield the agent's daily budgets, then those of its chains and sessions."""
    guard = state.guards.budget
    day, *others = guard.of_agent(name, moment.at)
    pending = guard.pending(name)
    yield budget(day, pending)
    shares = (one for one in guard.raisable("agent", name, moment.at) if one.scope == "share")
    yield from (budget(one, pending) for one in shares)
    others.sort(key=lambda one: one.account.used, reverse=True)
    yield from (budget(one, pending) for one in others)


def _sessions(state: EngineState, moment: Moment, name: str) -> Iterator[LiveSession]:
    records = state.records.transcripts.live(name)
    standings = state.guards.budget.of_agent(name, moment.at)
    accounts = {one.id: one.account for one in standings if one.scope == "session"}
    for session in state.sessions.live(name):
        account = accounts.get(session, NOTHING)
        yield LiveSession(
            session=session,
            so_far=_so_far(records.get(session)),
            rounds=state.guards.iterations.count(name, session),
            spent=usd(account.spent),
            reserved=usd(account.reserved),
        )


def _so_far(record: Record | None) -> SessionSoFar | None:
    if record is None:
        return None
    return SessionSoFar(
        started_at=record.started_at,
        heard_at=record.heard_at,
        provider=record.provider,
        model=record.model,
        decisions=len(record.actions) + record.left_out,
        input_tokens=record.input,
        output_tokens=record.output,
    )


def _actions(state: EngineState, moment: Moment, name: str) -> Iterator[OpenAction]:
    """Yield actions without an outcome, newest first."""
    records = state.records.transcripts.live(name)
    for id_ in reversed(state.actions.under_way(name)[-SHOWN:]):
        if action := state.actions.find(name, id_):
            yield OpenAction(
                id=id_,
                type=action.type,
                text=_text(records.get(action.session), id_),
                session=action.session,
                model=action.model,
                dependency=action.dependency,
                since_s=round(moment.t - action.t, 3),
            )


def _text(record: Record | None, id_: str) -> str:
    entry = record.actions.get(id_) if record else None
    return entry.description[:ROW_CHARS] if entry else ""


def _oldest(state: EngineState, name: str) -> Iterator[Request]:
    return islice(state.approvals.pending(name), MAX_PENDING)


def _request(known: Request) -> PendingRequest:
    return PendingRequest(
        id=known.id,
        type=known.asked.type,
        text=known.asked.proposal.text[:ROW_CHARS],
        asked_at=known.asked.at,
        deadline=known.deadline,
    )
