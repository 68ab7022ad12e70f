"""Attacks with a stolen cookie, and hostile words on pages."""

import pytest
from markupsafe import Markup

from safetyd.core.events.guard_events import Resumed, SafeModeEntered
from safetyd.web.control_room.page_content import PAGES
from safetyd.web.control_room.room_assets import RoomAssets
from safetyd.web.control_room.room_pages import RoomPages
from safetyd.web.control_room.room_rendering import RoomRendering
from tests.web.control_room.room_site import Browser, RoomSite

BAR = {"hold": {"level": "NORMAL"}, "problem": "", "closed": False, "pending": None}


@pytest.mark.parametrize("word", ["approve", "grant", "pause", "safe_mode_enter", "", "Deny"])
async def test_the_cookie_alone_approves_nothing_whatever_the_form_calls_it(
    site: RoomSite, alice: Browser, word: str
) -> None:
    ref = site.asks()
    form = {"do": word, "id": ref, "digest": site.digest(ref), "hours": 1, "uses": 1}

    page = await alice.post("/requests", proof=False, **form)

    assert page.note.startswith("Not done: ")
    assert site.state(ref) == "pending"


async def test_the_cookie_alone_denies_and_the_page_approves(
    site: RoomSite, alice: Browser
) -> None:
    first, second = site.asks("p1"), site.asks("p2")

    await alice.post("/requests", proof=False, do="deny", id=first)
    await alice.post("/requests", do="approve", id=second, digest=site.digest(second))

    assert (site.state(first), site.state(second)) == ("denied", "approved")


@pytest.mark.parametrize("word", ["resume", "grant_add", "session_end", "pause", "deny"])
async def test_the_page_of_safe_mode_gives_no_other_command(
    site: RoomSite, alice: Browser, word: str
) -> None:
    page = await alice.post("/safe-mode", do=word)

    assert page.note.startswith(f"Not done: &#39;{word}&#39; is not one of ")
    assert not site.journalled(Resumed, SafeModeEntered)


@pytest.mark.parametrize(
    "address",
    ["/\\evil.example", "//evil.example", "/%09/evil.example", "/%0d%0aSet-Cookie:%20a=b", "x:y"],
)
async def test_nobody_is_led_elsewhere(alice: Browser, address: str) -> None:
    assert await alice.led_to(f"/requests?from={address}") == "/"


async def test_one_is_led_back_to_a_page_of_ours(alice: Browser) -> None:
    for page in ("/", "/requests/req_1a", "/agents/my-agent_2", "/safe-mode"):
        assert await alice.led_to(f"/requests?from={page}") == page


def test_a_title_that_an_agent_wrote_is_pushed_as_text() -> None:
    shown = RoomPages(PAGES).find("/safe-mode")
    assert shown is not None
    page = shown.page._replace(template="closed.html")
    rendering = RoomRendering(RoomAssets(), ())
    content = {"title": "code asks: <form/action=/x>", "problem": "none"}

    parts = rendering.parts(shown._replace(page=page), BAR, content, may_act=False)

    assert parts.title == Markup("code asks: &lt;form/action=/x&gt;")
