import pytest

from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.projects import ProjectBudget, ProjectConfig, ProjectSettings
from safetyd.core.messages.money import NANO
from tests.core.guards.budget.budget_rig import BudgetRig, marks, unpause
from tests.story import at, propose


def test_default_project_limits_proposals_that_name_none() -> None:
    project = ProjectConfig(budget=ProjectBudget(session_usd=1))
    shop = BudgetRig(projects={"web": project}, default="web")

    assert not shop.buys(0, 2, agent="ops").allowed


def web(
    config: BudgetConfig | None = None,
    own_usd: dict[str, float] | None = None,
    file: ProjectBudget | None = None,
    **budget: float,
) -> BudgetRig:
    """Return a shop with one project, `web`, that lists the agent `code`."""
    project = ProjectConfig(
        agents=("code",),
        budget=ProjectBudget(**budget),
        from_file=None if file is None else ProjectSettings(budget=file),
    )
    return BudgetRig(config, own_usd, projects={"web": project})


def buys(shop: BudgetRig, t: float, usd: float, agent: str = "code", **fields: object) -> bool:
    return bool(shop.buys(t, usd, agent=agent, **{"project": "web", **fields}).allowed)


@pytest.mark.req("S3.60")
def test_a_larger_limit_of_a_project_is_for_the_agents_it_lists() -> None:
    shop = web(chain_usd=20, session_usd=30)

    assert buys(shop, 0, 12, chain="c")
    assert not buys(shop, 0, 12, "ops", chain="c")
    assert not buys(shop, 0, 12, "ops")
    assert not buys(shop, 1, 12, "code", project=None)


@pytest.mark.req("S3.60")
def test_a_smaller_limit_of_a_project_is_for_everybody() -> None:
    for agent in ("code", "ops"):
        shop = web(session_usd=1)

        assert not buys(shop, 0, 2, agent)
        assert not shop.buys(1, 11, agent=agent).allowed


def test_a_projects_limit_is_on_the_account_that_there_is() -> None:
    shop = web(chain_usd=2)
    shop.buys(0, 1.5, chain="c")

    assert not buys(shop, 1, 1, chain="c")
    assert buys(shop, 1, 0.5, chain="c")


def test_no_limit_in_a_project_is_none_for_its_agents_and_the_usual_for_others() -> None:
    shop = web(BudgetConfig(agent_usd=3), session_usd=0, agent_usd=0)

    assert buys(shop, 0, 20)
    assert not buys(shop, 0, 4, "ops")


def test_the_smaller_limit_applies_to_agents_that_are_not_listed() -> None:
    own = {"code": 1.0, "ops": 1.0}

    assert not buys(web(None, own, session_usd=4), 0, 2, "ops")
    assert buys(web(None, own, session_usd=4), 0, 2, "code")
    assert not buys(web(None, {"ops": 30.0}, session_usd=4), 0, 5, "ops")


@pytest.mark.req("S3.60")
def test_a_file_that_agents_may_write_only_lowers_limits() -> None:
    shop = web(session_usd=4, file=ProjectBudget(chain_usd=1, session_usd=0, agent_usd=100))

    assert not buys(shop, 0, 5)
    assert not buys(shop, 1, 2, chain="c")
    assert buys(shop, 1, 1, chain="c")


def test_approval_of_a_projects_limit_adds_that_limit_and_not_the_usual_one() -> None:
    shop = web(session_usd=1)
    assert buys(shop, 0, 1)
    assert not buys(shop, 1, 1)

    shop.play(unpause(2))

    assert buys(shop, 3, 1)
    assert not buys(shop, 4, 1)
    assert not shop.buys(5, 10).allowed


def test_the_usual_limit_warns_although_the_projects_did() -> None:
    shop = web(BudgetConfig(session_usd=0), chain_usd=1)
    of_project = shop.play(propose(0, id="a", chain="c", project="web", cost_usd=0.9))
    refused = shop.play(propose(1, id="b", chain="c", project="web", cost_usd=0.9))

    usual = shop.play(propose(2, id="c", chain="c", cost_usd=3.1))

    assert marks(of_project) == marks(usual) == [("warning", "chain", "c")]
    assert marks(refused) == [("exceeded", "chain", "c")]
    assert marks(shop.play(propose(3, id="d", chain="c", cost_usd=2))) == marks(refused)
    assert marks(shop.play(propose(4, id="e", chain="c", project="web", cost_usd=2))) == []


def test_a_project_without_limits_has_the_usual_ones() -> None:
    assert buys(web(), 0, 5, chain="c")
    assert not buys(web(), 0, 6, chain="c")


def test_a_limit_of_a_project_is_shown_with_its_session_and_chain() -> None:
    shop = web(session_usd=1, chain_usd=3)
    assert buys(shop, 0, 1, chain="c")
    assert not buys(shop, 1, 0.5, chain="c")
    shop.play(unpause(2))

    limits = {one.scope: one.limit for one in shop.budget.standings(at(3))}
    fullest = {one.scope: one.limit for one in shop.budget.fullest("code", 3)}

    assert (limits["session"], limits["chain"]) == (2 * NANO, 3 * NANO)
    assert fullest == {"session": 2 * NANO, "chain": 3 * NANO}
    assert buys(shop, 4, 0.5, project=None, chain="c")
    (session,) = (one for one in shop.budget.standings(at(5)) if one.scope == "session")
    assert session.limit == 11 * NANO, "without the project, its limit is the usual one"
