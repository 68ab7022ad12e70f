"""Operators of a standby: they see everything, can stop everything, and learn who decides."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Browser, Page, expect

from safetyd.web.v1.question_routes import ROUTES
from tests.conftest import RunningDaemon, StartDaemon
from tests.http_examples import fetch
from tests.journeys.agents import until
from tests.journeys.control_room import PAGES, STOP, hold, origin, scrolls_sideways
from tests.journeys.people import control, query
from tests.journeys.test_second_daemon import Shared, stands_by
from tests.web.browser import PHONE, visitor

pytestmark = pytest.mark.journey

SAID: Final = "#bar .state strong"
COLOUR: Final = "found => getComputedStyle(found).backgroundColor"
RESUME: Final = """async (token) => {
    const body = new URLSearchParams({ token, reason: "drill" });
    const proof = localStorage.getItem("safetyd-proof");
    const headers = { Accept: "application/json", "X-Safetyd-Proof": proof };
    return await (await fetch("/resume", { method: "POST", body, headers })).json();
}"""


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    shared = Shared(tmp_path)
    yield shared
    shared.bus.stop()


def named(shared: Shared, name: str) -> str:
    return f'{shared.config}name = "{name}"\n'


def command(daemon: RunningDaemon, shared: Shared, *words: str) -> dict[str, Any]:
    """Run a command on the machine of a daemon and return its answer."""
    done = daemon.safetyd(*words, "--json", SAFETYD_KEY_FILE=str(shared.operator))
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def status_of(daemon: RunningDaemon, path: str) -> int:
    return fetch(daemon, path).status


def sources(daemon: RunningDaemon) -> list[str]:
    stops = json.loads(fetch(daemon, "/api/v1/top-bar").body)["standstill"]["stops"]
    return [stop["source"] for stop in stops]


async def signed_in(page: Page, daemon: RunningDaemon, shared: Shared) -> str:
    """Sign in with the link that `safetyd open` prints on this machine; return the address."""
    link = str(command(daemon, shared, "open", "--numeric")["url"])
    await page.goto(link)
    await page.wait_for_url(f"{origin(link)}/")
    return origin(link)


def test_a_standby_shows_everything_and_a_handover_makes_it_the_writer(
    start_daemon: StartDaemon,
    shared: Shared,
) -> None:
    first, second = start_daemon(named(shared, "a")), start_daemon(named(shared, "b"))
    until(lambda: command(first, shared, "cluster")["state"] == "good")

    seen = command(second, shared, "cluster")
    place = json.loads(fetch(second, "/api/v1/status").body)["cluster"]
    vitals = [
        [status_of(each, path) for each in (first, second)] for path in ("/healthz", "/readyz")
    ]
    answers = {r.path: status_of(second, f"/api/v1{r.path}") for r in ROUTES if "{" not in r.path}
    done = command(second, shared, "handover")
    until(lambda: stands_by(first))
    until(lambda: command(first, shared, "cluster")["state"] == "good")
    back = command(first, shared, "handover")

    assert [(each["name"], each["role"]) for each in seen["daemons"]] == [
        ("a", "writer"),
        ("b", "standby"),
    ]
    assert (seen["writer"], seen["answered_by"], seen["term"]) == ("a", "a", 1)
    assert (place["role"], place["writer"], place["writer_web"]) == (
        "standby",
        "a",
        first_web(seen),
    )
    assert vitals == [[200, 200], [200, 503]]
    assert {path for path, status in answers.items() if status == 503} == set()
    assert (done["before"], done["writer"], done["term"]) == ("a", "b", 2)
    assert (back["before"], back["writer"], back["term"]) == ("b", "a", 3)
    assert "NO_STANDBY" not in first.log() + second.log()


def first_web(seen: dict[str, Any]) -> str:
    return str(seen["daemons"][0]["web"])


def test_commands_other_than_stop_are_refused_and_name_the_writer(
    start_daemon: StartDaemon,
    shared: Shared,
) -> None:
    first = start_daemon(named(shared, "a"))
    alone = control(first, "handover", key=shared.operator)
    second = start_daemon(named(shared, "b"))
    until(lambda: command(first, shared, "cluster")["state"] == "good")

    body = json.dumps({"agent": "code", "force": True, "reason": "drill"}).encode()
    refused = fetch(second, "/api/agent/safe-mode/exit", body)

    assert alone["code"] == "no_standby"
    assert refused.status == 503
    assert "a decides" in json.loads(refused.body)["error"]


def test_stops_of_a_daemon_that_is_gone_end_with_a_resume(
    start_daemon: StartDaemon,
    shared: Shared,
) -> None:
    first = start_daemon(named(shared, "a"))
    second = start_daemon(named(shared, "b"), {"SAFETYD_ENABLED": "false"})
    (second.data_dir / "EMERGENCY_STOP").touch()
    until(lambda: len(sources(first)) == 2 and "STANDBY_READY" in first.log())
    held = control(first, "resume", key=shared.operator, reason="drill")
    second.kill()
    until(lambda: len(query(first, "cluster", key=shared.operator)["daemons"]) == 1)

    resumed = control(first, "resume", key=shared.operator, reason="drill")

    assert (held["cleared"], len(held["left"])) == ([], 2)
    assert resumed["absent"] == ["b"]
    assert sources(first) == []
    until(lambda: "NO_STANDBY" in first.log())
    second.start()  # it still has the file and the variable
    until(lambda: len(sources(first)) == 2)


async def test_the_control_room_of_a_standby_says_who_decides_and_stops_through_the_writer(
    start_daemon: StartDaemon,
    shared: Shared,
    browser: Browser,
) -> None:
    first, second = start_daemon(named(shared, "a")), start_daemon(named(shared, "b"))
    until(lambda: command(first, shared, "cluster")["state"] == "good")

    async with visitor(browser) as page:
        await signed_in(page, second, shared)
        base = origin_of(page)
        for path in (*PAGES, "/cluster"):
            answer = await page.goto(f"{base}{path}")
            assert answer is not None
            assert answer.status == 200, path
            await expect(page.locator(SAID)).to_have_text("STANDBY: a decides")
            await expect(page.locator("main h1")).not_to_have_text("No data available")
            assert await page.locator("main form[method=post]").count() == 0, path
        link = page.locator("#bar .writer a")
        assert await link.get_attribute("href") == first.endpoint.web
        colour = await page.locator(".bar").evaluate(COLOUR)
        await page.emulate_media(color_scheme="dark")
        dark = await page.locator(".bar").evaluate(COLOUR)
        await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        wide = await scrolls_sideways(page)
        await hold(page, STOP)
        note = await page.locator("#note p").inner_text()
        resumed = await resume(page)

    assert colour != dark
    assert not wide
    assert "standby" not in note.lower()
    assert sources(first) == ["operator"]
    assert "a decides" in resumed


def origin_of(page: Page) -> str:
    return page.url.rstrip("/")


async def resume(page: Page) -> str:
    """Send the form that resumes, which the page does not have, and return the answer."""
    token = await page.locator("#menu input[name=token]").get_attribute("value")
    said: dict[str, str] = await page.evaluate(RESUME, token)
    return said["why"]


async def test_a_stop_without_a_writer_is_held_and_recorded_once_when_there_is_one_again(
    start_daemon: StartDaemon,
    shared: Shared,
    browser: Browser,
) -> None:
    first, second = start_daemon(named(shared, "a")), start_daemon(named(shared, "b"))
    until(lambda: command(first, shared, "cluster")["state"] == "good")

    async with visitor(browser) as page:
        await signed_in(page, second, shared)
        shared.bus.freeze()
        await hold(page, STOP)
        note = await page.locator("#note p").inner_text()
        seen = command(second, shared, "cluster")
        first.kill()
        shared.bus.thaw()
        until(lambda: not stands_by(second))

    assert "recorded as soon as a daemon decides" in note
    assert (seen["answered_by"], seen["state"], seen["deciding"]) == ("b", "bad", False)
    until(lambda: sources(second) == ["operator"])
    assert control(second, "resume", key=shared.operator, reason="drill")["cleared"] == ["operator"]
    second.restart()
    assert sources(second) == []
