"""What an approval gives besides the action: the end of a pause, and more budget."""

from typing import NamedTuple

from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.messages.money import dollars


class Gain(NamedTuple):
    wish: str  # in a few words, for a subject
    sentence: str


def approval_gives(state: EngineState, moment: Moment, known: Request) -> Gain | None:
    """Return what an approval gives, if it ends a pause of the agent."""
    agent = known.agent
    if known.pauses == "anomaly":
        return Gain("", f"{agent} may act again. To look first: safetyd decisions --agent {agent}")
    if known.pauses != "budget":
        return None
    session = known.asked.proposal.session or ""
    budgets = state.guards.budget.of_agent(agent, moment.at)
    found = (one for one in budgets if one.scope == "session" and one.id == session)
    if (standing := next(found, None)) is None:
        return None
    more, used = dollars(standing.base), dollars(standing.account.used)
    paused = bool(state.guards.pause.pauses(agent))
    resumes = f"{agent} is paused. Approval resumes it and" if paused else "Approval"
    return Gain(
        f"{more} more for {agent}",
        f"{resumes} gives the session {more} more until it ends. "
        f"{used} of {dollars(standing.limit)} used{f' in {session}' if session else ''}.",
    )
