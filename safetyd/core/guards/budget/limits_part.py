"""The limits on the accounts that a proposal counts in, and what a project makes of them."""

from collections.abc import Mapping

from safetyd.core.guards.budget.ledger import Limits
from safetyd.core.guards.projects import ProjectConfig, ProjectSettings, sides
from safetyd.core.messages.money import nano


class ProjectLimits:
    """The limits in one project. `own` holds the agents that have others than the usual."""

    def __init__(self, project: ProjectConfig, usual: Limits, own: Mapping[str, Limits]) -> None:
        self._usual = sides(project, usual, _within, _smallest)
        self._own = {
            agent: sides(project, limits, _within, _smallest) for agent, limits in own.items()
        }

    def of(self, agent: str) -> Limits:
        return self._own.get(agent, self._usual).of(agent)


def _within(limits: Limits, settings: ProjectSettings) -> Limits:
    chain, session, day, agent, model = limits
    own = settings.budget
    return (
        chain if own.chain_usd is None else nano(own.chain_usd),
        session if own.session_usd is None else nano(own.session_usd),
        day,
        agent if own.agent_usd is None else nano(own.agent_usd),
        model,
    )


def _smallest(several: tuple[Limits, ...]) -> Limits:
    chain, session, day, agent, model = (
        min(filter(None, limits), default=0) for limits in zip(*several, strict=True)
    )
    return chain, session, day, agent, model
