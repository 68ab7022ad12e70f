import math
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from safetyd.bus.keyring import LOCAL_OPERATOR
from safetyd.bus.question_limits import MAX_WAITING, SAVED_S
from safetyd.core.engine.journal_lines import encode
from safetyd.web.v1 import question_routes
from safetyd.web.v1.question_routes import ROUTES
from tests.story import play, propose
from tests.web.v1.question_site import QuestionSite, question_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[QuestionSite]:
    async with question_site(tmp_path) as site:
        yield site


@pytest.fixture
async def stuck(tmp_path: Path) -> AsyncIterator[QuestionSite]:
    """A site that answers no questions."""
    async with question_site(tmp_path, at_work=False) as site:
        yield site


def asks(site: QuestionSite, *agents: str) -> list[str]:
    """Let each agent request approval; return the ids of the requests."""
    for agent in agents:
        play(site.engine, propose(0, agent, f"of-{agent}", "push", text="git push"))
    return [request.id for request in site.engine.approvals.pending()]


@pytest.mark.parametrize("path", [route.path for route in ROUTES if "{" not in route.path])
async def test_every_question_without_an_id_is_answered(site: QuestionSite, path: str) -> None:
    heard = await site.ask(path)

    assert (heard.status, heard.content["ok"]) == (200, True)
    assert heard.headers["Cache-Control"] == "no-store"
    assert heard.headers["Content-Type"].startswith("application/json")


async def test_parameters_are_the_fields_of_the_question(site: QuestionSite) -> None:
    asks(site, "code", "ops", "web")

    page = await site.ask("/agents?limit=1&after=code")
    of_one = await site.ask("/requests?agent=ops&limit=5")

    assert [row["agent"] for row in page.content["agents"]] == ["ops"]
    assert [row["agent"] for row in of_one.content["requests"]] == ["ops"]


async def test_a_parameter_of_the_path_is_a_field_too(site: QuestionSite) -> None:
    (ref,) = asks(site, "code")

    heard = await site.ask(f"/requests/{ref}")

    assert heard.content["request"]["id"] == ref


async def test_a_decision_is_explained(site: QuestionSite) -> None:
    events = play(site.engine, propose(0, id="p1"))
    site.audit.append([encode(event) for event in events], events[-1].seq)

    by_id = await site.ask("/decisions/p1")
    last = await site.ask("/agents/code/explain")

    assert (by_id.status, by_id.content["ok"]) == (200, True)
    assert last.content["decisions"] == by_id.content["decisions"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/agents?limit=many", 'limit is "many"; expected `int`, got `str`'),
        ("/agents?limit=0", 'limit is "0"; expected `int` >= 1'),
        ("/requests?limit=1001", 'limit is "1001"; expected `int` <= 1000'),
        ("/outbox?state=lost", 'state is "lost"; it must be one of '),
        ("/agents?limt=5", "unknown parameter 'limt'; /api/v1/agents takes limit, after"),
        ("/budgets?agent=code", "unknown parameter 'agent'"),
        ("/decisions/p1?last=code", "unknown parameter 'last'"),
        ("/requests/r1?id=r2", "unknown parameter 'id'"),
        ("/agents?limit=1&limit=2", "'limit' is given twice"),
        ("/agents?command=stop", "unknown parameter 'command'"),
        ("/safe-mode?agent=a%20b", "'a b' is not a valid agent name"),
    ],
)
async def test_invalid_parameters_are_named(site: QuestionSite, path: str, error: str) -> None:
    heard = await site.ask(path)

    assert (heard.status, heard.content["ok"], heard.content["code"]) == (400, False, "invalid")
    assert error in heard.content["error"]


@pytest.mark.parametrize("path", ["/requests/req_0", "/decisions/nothing", "/preview?request=r"])
async def test_unknown_ids_are_not_found(site: QuestionSite, path: str) -> None:
    heard = await site.ask(path)

    assert (heard.status, heard.content["code"]) == (404, "not_found")


async def test_an_operator_over_the_rate_limit_waits(site: QuestionSite) -> None:
    site.limits.charge(LOCAL_OPERATOR, SAVED_S + 0.1)

    heard = await site.ask("/budgets")

    assert (heard.status, heard.content["code"]) == (429, "rate_limit")
    assert heard.content["retry_after_s"] > 1.0
    assert heard.headers["Retry-After"] == str(math.ceil(heard.content["retry_after_s"]))


async def test_the_cost_of_an_answer_is_charged(
    site: QuestionSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[str] = []
    monkeypatch.setattr(site.limits, "charge", lambda name, _seconds: charged.append(name))

    await site.ask("/agents")

    assert charged == [LOCAL_OPERATOR]


async def test_the_daemons_trouble_is_said(site: QuestionSite) -> None:
    site.problem = "the disk is full"

    heard = await site.ask("/status")

    assert (heard.status, heard.content["code"]) == (503, "unavailable")
    assert "the disk is full" in heard.content["error"]
    assert heard.headers["Retry-After"] == "1"


async def test_a_daemon_that_may_be_displaced_answers_nothing(site: QuestionSite) -> None:
    site.displaced = True

    heard = await site.ask("/agents")

    assert heard.status == 503
    assert heard.content["error"] == "another daemon may be writing the journal"
    assert len(site.mailbox) == 0


async def test_nobody_waits_for_ever(stuck: QuestionSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_routes, "PATIENCE_S", 0.02)
    unsaid = await stuck.ask("/agents")
    stuck.problem = "the journal has not answered for 2.0 s"
    said = await stuck.ask("/agents")

    assert (unsaid.status, unsaid.content["error"]) == (503, "no answer within 0.02 s")
    assert (said.status, said.content["error"]) == (503, stuck.problem)


async def test_no_more_wait_than_on_the_bus_and_who_gave_up_leaves_nothing_behind(
    stuck: QuestionSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question_routes, "PATIENCE_S", 0.0)
    given_up = [await stuck.ask("/agents") for _ in range(MAX_WAITING)]
    refused = await stuck.ask("/agents")
    waiting = len(stuck.mailbox)
    monkeypatch.undo()
    while (question := stuck.mailbox.take_question()) is not None:
        question.deliver(late=False)

    assert {heard.status for heard in given_up} == {503}
    assert refused.status == 429
    assert waiting == MAX_WAITING
    assert stuck.limits.admit(LOCAL_OPERATOR, 0) == 0.0


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}],
    ids=["by fetch", "by origin"],
)
async def test_pages_of_other_sites_are_told_nothing(
    site: QuestionSite, headers: dict[str, str]
) -> None:
    heard = await site.ask("/agents", **headers)

    assert (heard.status, heard.content["code"]) == (403, "other_site")


async def test_nobody_is_heard_without_the_bearer(site: QuestionSite) -> None:
    async with (
        aiohttp.ClientSession() as browser,
        browser.get(f"{site.url}/api/v1/status") as response,
    ):
        assert response.status == 401
        assert "WWW-Authenticate" in response.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_nothing_but_looking_is_allowed(site: QuestionSite, method: str) -> None:
    assert (await site.ask("/agents", method)).status == 405


async def test_unknown_questions_are_not_found(site: QuestionSite) -> None:
    assert (await site.ask("/nothing")).status == 404
