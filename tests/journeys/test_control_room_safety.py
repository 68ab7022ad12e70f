"""Words of an agent never act in the control room, in whatever field, on whatever page."""

from typing import Any, Final

import pytest
from playwright.async_api import Browser, Page, Route, expect

from safetyd.web.control_room.room_rendering import HEADERS
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker
from tests.journeys.control_room import PAGES, Room
from tests.journeys.people import control
from tests.web.hostile_words import HOSTILE, WATCH, Watched

pytestmark = pytest.mark.journey

AGENT: Final = "hostile"
# What our own scripts, htmx and templates would obey.
OBEYED: Final = (
    '<div hx-get="/agents" hx-trigger="load" hx-on:click="window.ran=1">x</div>',
    '<div hx-post="/stop" hx-trigger="load" hx-vals="js:{x:window.ran=1}">x</div>',
    '<div sse-connect="/live?page=/" sse-swap="main">x</div>',
    '<div data-hx-on--load="window.ran=1" hx-ext="ignore:sse">x</div>',
    '<b data-series=\'{"x":[1,2],"lines":[]}\' data-pause data-key=a data-rows>x</b>',
    "<time datetime=x data-as=left onclick=window.ran=1>x</time>",
    "<p id=bar>x</p><p id=main>x</p><p id=stale>x</p>",
    '<svg><a xlink:href="javascript:window.ran=1"><text>x</text></a></svg>',
    "<svg><script>window.ran=1</script></svg><math><mi xlink:href=x>",
    "{{ config }} {{ ''.__class__ }} {% for x in () %}{% endfor %} ${window.ran=1}",
    "javascript:window.ran=1",
    "x\u202eevas\u2066 \u200b\ufeff\x1b[31m",
)
WORDS: Final = tuple(word[:120] for word in (*HOSTILE, *OBEYED))
LONG: Final = "\n".join((*HOSTILE, *OBEYED))
# Tags and attributes that only such words could have brought.
FOREIGN: Final = """() => [...document.querySelectorAll('*')].flatMap(found => [
  ...(['iframe', 'svg', 'base', 'object', 'embed', 'img', 'math', 'b', 'style']
    .includes(found.localName) ? [found.localName] : []),
  ...(found.localName === 'script' && !`${found.src}`.startsWith(location.origin)
    ? ['script'] : []),
  ...found.getAttributeNames().filter(name => /^(on|hx-|data-hx|sse-)/.test(name))
    .filter(name => !['hx-boost', 'hx-ext', 'hx-swap', 'sse-connect', 'sse-swap'].includes(name)),
])"""


def hostile(word: str) -> dict[str, Any]:
    """Return a proposal with such words in every field that takes words."""
    line = LONG[:1000]
    return {
        "type": word,
        "text": f"git push {LONG}",
        **dict.fromkeys(("description", "rationale", "rollback"), LONG),
        **dict.fromkeys(("session", "episode", "project", "chain", "task"), word),
        **dict.fromkeys(("model", "provider", "dependency"), word),
        **dict.fromkeys(("remote", "cwd"), line),
        "target": dict.fromkeys(("label", "name", "role", "app", "window", "url"), line),
        "observation": dict.fromkeys(("window_title", "app_name", "url", "screen_hash"), line),
        "paths": [word, line],
        "context": {
            "diff": f"--- a\n+++ b\n@@ -1 +1 @@\n-{LONG}\n+{LONG}",
            word: [word, {word: word}],
        },
        word: word,
        "cost_usd": 0.01,
    }


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(UNLIMITED)


@pytest.fixture(scope="module")
def room(daemon: RunningDaemon, browser: Browser) -> Room:
    return Room(daemon, browser)


@pytest.fixture(scope="module")
def paths(daemon: RunningDaemon) -> tuple[str, ...]:
    """Put hostile words into every field; return the pages that show them."""
    found: list[str] = []
    with Asker(daemon, AGENT) as agent:
        for number, word in enumerate(WORDS):
            id_ = f"x{number}"
            asked = agent.ask("propose", {**hostile(word), "id": id_})
            assert asked["status"] in {"pending", "final"}, asked
            assert asked["cause"] != "malformed", asked
            found.append(f"/decisions/{id_}")
            found += [f"/requests/{asked['request_id']}"] if asked.get("request_id") else []
        for word in WORDS:
            agent.ask("telemetry", {"type": "session_started", "session": word, "model": word})
            failed = {"ok": False, "error": LONG, "dependency": word, "model": word}
            agent.ask("telemetry", {"type": "outcome", "cost_usd": 0.01, **failed})
        for broken in (b'{"type":"\xff\xfe","text":"\xc3"}', b'{"type":"push","text":"\\ud800"}'):
            agent.peer.publish(f"safety.v1.propose.{AGENT}", broken)
        agent.peer.settle()
    control(daemon, "pause", agent=AGENT, reason=LONG[:400])
    control(daemon, "safe_mode_enter", agent=AGENT, reason=LONG[:400])
    ids = "&".join(f"id={path.rpartition('/')[2]}" for path in found if "/requests/" in path)
    return (*PAGES, f"/agents/{AGENT}", f"/feed?agent={AGENT}&text=ran", f"/answers?{ids}", *found)


async def watching(page: Page, room: Room) -> Watched:
    await page.add_init_script(WATCH)
    return Watched(page, room.url)


async def test_words_of_an_agent_never_act(room: Room, paths: tuple[str, ...]) -> None:
    acted: dict[str, list[str]] = {}
    shown = ""

    async with room.visit() as page:
        watched = await watching(page, room)
        for path in paths:
            done = await watched.opens(path)
            if path in PAGES:
                await expect(page.locator("#beat")).not_to_be_empty()
            done += [*await watched.after(), *await page.evaluate(FOREIGN)]
            shown += await page.inner_text("body")
            if done:
                acted[path] = done

    assert acted == {}
    assert all(shown.count(word) > 2 for word in (*HOSTILE[:3], *OBEYED[:3]))


async def test_the_watcher_notices_a_page_that_acts(room: Room) -> None:
    async def act(route: Route) -> None:
        body = f"<!doctype html>{''.join(HOSTILE[:3])}{''.join(OBEYED)}"
        await route.fulfill(body=body, content_type="text/html", headers=dict(HEADERS))

    async with room.visit() as page:
        watched = await watching(page, room)
        await page.route(f"{room.url}/feed", act)
        done = await watched.opens("/feed")
        foreign = await page.evaluate(FOREIGN)

    assert any(found.startswith("script-src") for found in done)
    assert {"svg", "onerror", "hx-get", "script"} <= set(foreign)
