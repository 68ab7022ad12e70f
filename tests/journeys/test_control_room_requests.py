"""Requests in the control room: answered alone, in sets, by keyboard, with grants."""

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import pytest
from playwright.async_api import Browser, Page, expect

from safetyd.client import Denied, SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker, Reply, review, waiting
from tests.journeys.control_room import Room
from tests.journeys.people import query

pytestmark = pytest.mark.journey

CONFIG: Final = """
[types.deploy_production]
tier = "requires_permission"
risk = "high"
approve_via = ["cli", "tui"]
[rules]
require_permission = ["edit_file"]
"""
DIFF: Final = "--- a/pay.py\n+++ b/pay.py\n@@ -1 +1 @@\n-fee = 0.02\n+fee = 0.03\n"
NUMBERS: Final = count()
TRANSPARENT: Final = "rgba(0, 0, 0, 0)"
WORDS: Final = "form.answer input[name=words]"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    daemon = start_module_daemon(CONFIG)
    assert daemon.safetyd("agent", "add", "release").returncode == 0
    return daemon


@pytest.fixture(scope="module")
def room(daemon: RunningDaemon, browser: Browser) -> Room:
    return Room(daemon, browser)


class Agent:
    """An agent that asks for something else each time."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def asks(self, **fields: object) -> str:
        """Return the request that is made of a proposal."""
        decision = self.proposes(**fields)
        assert decision["status"] == "pending", decision
        return str(decision["request_id"])

    def proposes(self, **fields: object) -> Reply:
        number = next(NUMBERS)
        text = f"git push origin release-{number}"
        return self._asker.propose(f"ask-{number}", **{"text": text, **fields})


@pytest.fixture
def agent(daemon: RunningDaemon) -> Iterator[Agent]:
    with Asker(daemon, "release", daemon.data_dir / "keys" / "agents" / "release.nk") as asker:
        yield Agent(asker)
    for row in waiting(daemon):
        review(daemon, "deny", row["id"])


def state(daemon: RunningDaemon, request_id: str) -> tuple[str, str]:
    """Return the state of a request, and the channel of its answer."""
    found = _request(daemon, request_id)
    return found["state"], (found.get("answer") or {}).get("via", "")


def _request(daemon: RunningDaemon, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] = query(daemon, "request", id=request_id)["request"]
    return found


async def noted(page: Page, words: str) -> None:
    await expect(page.locator("#note")).to_contain_text(words)


@pytest.mark.req("S4.24")
async def test_agent_hears_an_approval_and_the_words_of_a_denial(
    daemon: RunningDaemon, room: Room
) -> None:
    with SyncSafety("asking", data_dir=daemon.data_dir) as safety:
        yes = safety.propose("push", text="git push origin docs")
        no = safety.propose("push", text="git push origin main")
        async with room.visit(f"/requests/{yes.request_id}") as page:
            await page.click("button[value=approve]")
            await noted(page, "Approved ")
            await page.goto(f"/requests/{no.request_id}")
            await page.fill(WORDS, "use a branch")
            await page.click("button[value=deny]")
            await noted(page, "Denied ")
        approved = safety.propose("push", text="git push origin docs", request_id=yes.request_id)
        denied = safety.permission(str(no.request_id))

    assert approved.allowed
    assert isinstance(denied, Denied)
    assert denied.reason == "use a branch"
    assert state(daemon, str(yes.request_id)) == ("approved", "web")


async def test_new_request_appears_by_itself_and_empties_again(
    daemon: RunningDaemon, room: Room, agent: Agent
) -> None:
    async with room.visit("/requests") as page:
        await expect(page.locator("h1")).to_have_text("No pending requests")

        request_id = agent.asks()
        await expect(page.locator("h1")).to_have_text("1 pending request")
        await expect(page.locator("#bar .pending")).to_contain_text("1 pending, oldest")
        await expect(page).to_have_title("(1) Requests · safetyd")
        review(daemon, "deny", request_id)

        await expect(page.locator("h1")).to_have_text("No pending requests")


async def test_grant_is_previewed_and_covers_what_comes(
    daemon: RunningDaemon, room: Room, agent: Agent
) -> None:
    command: dict[str, object] = {"type": "run_shell", "text": "git push origin nightly"}
    earlier = agent.asks(**command)
    review(daemon, "deny", earlier, once=True)
    request_id = agent.asks(**command)

    async with room.visit(f"/requests/{request_id}") as page:
        await page.keyboard.press("g")
        await expect(page.locator("details[data-key=g]")).to_have_attribute("open", "")
        await expect(page.locator("details[data-key=g]")).to_contain_text(
            "In the last week, a grant for this shape would have covered 1 request: "
            "0 approved, 1 denied."
        )
        await page.fill("input[name=uses]", "3")
        await page.click("text=Approve and grant")
        await noted(page, "Granted as ")

    assert state(daemon, request_id) == ("approved", "web")
    assert [agent.proposes(**command)["decision"] for _ in range(3)] == ["allow"] * 3


async def test_the_grant_key_says_why_a_grant_is_impossible(room: Room, agent: Agent) -> None:
    told, edited = agent.asks(type="send_email"), agent.asks(type="edit_file", text="x = 1")

    async with room.visit("/requests") as page:
        await page.keyboard.press("g")
        await noted(page, "No open request to answer.")
        await page.goto(f"/requests/{told}")
        await page.keyboard.press("g")
        await noted(page, "No grant possible: send_email")
        await page.goto(f"/requests/{edited}")
        await page.keyboard.press("g")
        await expect(page.locator("details[data-key=g]")).to_contain_text("exactly this again")
        await page.click("text=Approve and grant")
        await noted(page, "Granted as ")

    again = [agent.proposes(type="edit_file", text="x = 1")["decision"] for _ in range(2)]
    assert again == ["allow", "allow"]


async def test_keys_read_and_answer(daemon: RunningDaemon, room: Room, agent: Agent) -> None:
    first, second, third = (agent.asks() for _ in range(3))

    async with room.visit("/requests") as page:
        await expect(page.locator("ol.rows li[id^=row-]")).to_have_count(3)
        await page.keyboard.press("?")
        await expect(page.locator("dialog#keys")).to_be_visible()
        await expect(page.locator("dialog#keys")).to_contain_text("a, then Enter")
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await page.wait_for_url(f"**/requests/{first}")
        await expect(page.locator(f"#answer-{first}")).to_be_visible()
        await page.keyboard.press("a")
        await page.keyboard.press("Enter")
        await noted(page, "Approved ")
        await page.wait_for_url(f"**/requests/{second}")
        await page.keyboard.press("j")
        await page.wait_for_url(f"**/requests/{third}")
        await expect(page.locator(f"#answer-{third}")).to_be_visible()
        await page.keyboard.press("k")
        await page.wait_for_url(f"**/requests/{second}")
        await expect(page.locator(f"#answer-{second}")).to_be_visible()
        await page.keyboard.press("x")
        await expect(page.locator(f"#choose-{second}")).to_be_checked()
        await page.keyboard.press("d")
        await noted(page, "Denied ")

    answered = [state(daemon, request_id)[0] for request_id in (first, second, third)]
    assert answered == ["approved", "denied", "pending"]


async def test_keyboard_alone_reaches_and_answers(
    daemon: RunningDaemon, room: Room, agent: Agent
) -> None:
    request_id = agent.asks()

    async def tab_to(page: Page, selector: str) -> None:
        wanted = page.locator(f"{selector}:focus")
        for _ in range(60):
            await page.keyboard.press("Tab")
            if await wanted.count():
                return
        raise AssertionError(f"{selector} is not reached")

    async with room.visit("/requests") as page:
        await tab_to(page, f"#row-{request_id} a")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/requests/{request_id}")
        await tab_to(page, "button[value=approve]")
        await page.keyboard.press("Enter")
        await noted(page, "Approved ")

    assert state(daemon, request_id) == ("approved", "web")


async def test_set_is_answered_exactly_as_shown(
    daemon: RunningDaemon, room: Room, agent: Agent
) -> None:
    ids = [agent.asks() for _ in range(3)]

    async with room.visit("/requests") as page:
        for chosen in ids[:2]:
            await page.check(f"#choose-{chosen}")
        later = agent.asks()
        await expect(page.locator(f"#row-{later}")).to_be_visible()
        await expect(page.locator("input[name=id]:checked")).to_have_count(2)
        await page.click("text=Answer selected…")
        await expect(page.locator(".several details")).to_have_count(2)
        latest = agent.asks()
        await page.click("text=Approve 2")
        await noted(page, "2 of 2 answered.")

    states = [state(daemon, request_id)[0] for request_id in (*ids, later, latest)]
    assert states == ["approved", "approved", "pending", "pending", "pending"]


async def test_one_box_selects_all_that_is_shown(room: Room, agent: Agent) -> None:
    ids = [agent.asks() for _ in range(2)]

    async with room.visit("/requests") as page:
        every, chosen = page.locator("#choose-all"), page.locator("input[name=id]:checked")
        await expect(page.locator(f"#row-{ids[1]}")).to_be_visible()
        rows = await page.locator("input[name=id]").count()
        await every.check()
        await expect(chosen).to_have_count(rows)
        later = agent.asks()
        await expect(page.locator(f"#row-{later}")).to_be_visible()
        await expect(every).not_to_be_checked()
        await expect(chosen).to_have_count(rows)
        await every.check()
        await expect(chosen).to_have_count(rows + 1)
        await page.uncheck(f"#choose-{later}")
        await expect(every).not_to_be_checked()
        await every.check()
        await every.uncheck()
        await expect(chosen).to_have_count(0)
