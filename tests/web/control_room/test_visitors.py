"""Signing in and out: links, cookies, form tokens, proofs, observers."""

import re
import socket
from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import pytest

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    Forgotten,
    Paused,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.events.request_events import Answered, Granted
from safetyd.web.control_room.page_content import PAGES
from safetyd.web.control_room.sign_in_links import LIFE_S
from safetyd.web.control_room.visitors import COOKIE, NOT_STOPPED, UNDONE
from safetyd.web.control_room.web_sessions import FILE, IDLE, LONGEST, NOTED
from safetyd.web.throttle import STRANGERS
from tests.web.control_room.room_site import Browser, RoomSite, addresses, room_site

Fields = dict[str, Any]

ACTS: tuple[type[Event], ...] = (
    Answered,
    Forgotten,
    Granted,
    Paused,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
# Every way to act, with what its form sends.
RESTRICTING: tuple[tuple[str, Fields], ...] = (
    ("/stop", {"reason": "drill"}),
    ("/requests", {"do": "deny"}),
    ("/agents/code", {"do": "pause"}),
    ("/agents/code", {"do": "safe_mode_enter"}),
    ("/safe-mode", {"do": "safe_mode_enter"}),
)
PERMITTING: tuple[tuple[str, Fields], ...] = (
    ("/resume", {"reason": "why"}),
    ("/requests", {"do": "approve"}),
    ("/requests", {"do": "grant", "hours": "1", "uses": "1", "kind": "shape"}),
    ("/agents/code", {"do": "unpause"}),
    ("/agents/code", {"do": "safe_mode_exit", "sure": "yes", "reason": "why"}),
    ("/agents/code", {"do": "reset"}),
    ("/safe-mode", {"do": "safe_mode_exit", "sure": "yes", "force": "yes", "reason": "why"}),
)
FOREIGN = (
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
)


def undone(path: str, why: str) -> str:
    """Return the note of a form that did nothing."""
    return (NOT_STOPPED if path == "/stop" else UNDONE).format(why)


async def held(site: RoomSite, alice: Browser) -> Fields:
    """Make a request, a pause, a safe mode and a stop; return the request's id and digest."""
    ref = site.asks()
    await alice.post("/agents/code", do="pause")
    await alice.post("/safe-mode", do="safe_mode_enter")
    await alice.post("/stop")
    return {"id": ref, "digest": (await alice.get(f"/requests/{ref}")).value("digest")}


@pytest.mark.parametrize("path", [page.path for page in PAGES] + ["/live", "/signin/x"])
async def test_other_hosts_are_refused_everywhere(
    site: RoomSite, alice: Browser, path: str
) -> None:
    heard = await alice.get(path, Host="evil.example")

    assert (heard.status, heard.text) == (403, "unknown host\n")


async def test_the_cookie_is_for_our_own_pages_and_no_script(site: RoomSite) -> None:
    async with site.browser() as browser:
        heard = await browser.sign_in("alice")

    cookie = SimpleCookie(heard.headers["Set-Cookie"])[COOKIE]
    assert cookie["httponly"] is True
    assert (cookie["samesite"], cookie["path"]) == ("Strict", "/")
    assert int(cookie["max-age"]) == LONGEST.total_seconds()
    assert not cookie["domain"]
    assert cookie.value not in heard.text


async def test_a_link_is_looked_at_as_often_as_one_likes_and_used_once(site: RoomSite) -> None:
    path = site.link()
    async with site.browser() as browser, site.browser() as other:
        looks = [await browser.get(path) for _ in range(3)]
        used = await browser.hear("POST", path)
        again = [await other.get(path), await other.hear("POST", path)]
        page = await browser.get("/")

    assert [look.status for look in looks] == [200] * 3
    assert "Sign in as alice" in looks[0].text
    assert "Set-Cookie" not in looks[0].headers
    assert "Signed in as alice" in used.text
    assert [(heard.status, "Set-Cookie" in heard.headers) for heard in again] == [(404, False)] * 2
    assert page.status == 200


async def test_ended_links_look_like_unknown_ones(site: RoomSite) -> None:
    used, old = site.link(), site.link()
    async with site.browser() as browser:
        await browser.hear("POST", used)
        site.steady += LIFE_S
        heard = [
            await browser.hear(method, path)
            for path in (used, old, "/signin/never", "/signin/%FF")
            for method in ("GET", "POST")
        ]

    assert {(each.status, each.text) for each in heard} == {(404, heard[0].text)}
    assert "Invalid sign-in link" in heard[0].text


async def test_a_link_lasts_five_minutes(site: RoomSite) -> None:
    path = site.link()
    site.steady += LIFE_S - 1
    async with site.browser() as browser:
        heard = await browser.hear("POST", path)

    assert LIFE_S == 300.0
    assert "Signed in as alice" in heard.text


async def test_guessing_links_is_throttled_and_valid_links_are_not(site: RoomSite) -> None:
    async with site.browser() as browser:
        guesses = [await browser.get(f"/signin/{n}") for n in range(STRANGERS + 3)]
        heard = await browser.hear("POST", site.link())

    assert {each.status for each in guesses[:STRANGERS]} == {404}
    assert guesses[-1].status == 429
    assert len({each.text for each in guesses}) == 1
    assert heard.status == 200


async def test_a_link_of_somebody_without_a_key_signs_nobody_in(site: RoomSite) -> None:
    path = site.link()
    del site.people["alice"]
    async with site.browser() as browser:
        heard = await browser.hear("POST", path)

    assert (heard.status, "Set-Cookie" in heard.headers) == (404, False)


@pytest.mark.parametrize("headers", FOREIGN)
async def test_pages_of_others_sign_nobody_in_and_do_not_use_a_link_up(
    site: RoomSite, headers: dict[str, str]
) -> None:
    path = site.link()
    async with site.browser() as browser:
        foreign = await browser.hear("POST", path, headers=headers)
        own = await browser.hear("POST", path, headers={"Origin": site.url})

    assert (foreign.status, own.status) == (404, 200)


@pytest.mark.parametrize(("path", "fields"), [*RESTRICTING, *PERMITTING])
@pytest.mark.parametrize("headers", [*FOREIGN, {}])
async def test_forms_of_other_pages_do_nothing(
    site: RoomSite, alice: Browser, path: str, fields: Fields, headers: dict[str, str]
) -> None:
    about = await held(site, alice)
    before = len(site.journalled(*ACTS))
    sent = {**about, **fields}
    if headers:
        heard = [
            await alice.send(
                path,
                {**sent, "token": alice.token},
                {"X-Safetyd-Proof": alice.proof, **headers},
            )
        ]
    else:
        heard = [
            await alice.send(path, {**sent, **token}, {"X-Safetyd-Proof": alice.proof})
            for token in ({}, {"token": "0" * 32}, {"token": alice.token[:-1]}, {"token": "ä"})
        ]

    assert {each.note for each in heard} == {
        undone(path, "the form did not come from the control room")
    }
    assert len(site.journalled(*ACTS)) == before


@pytest.mark.parametrize(("path", "fields"), PERMITTING)
@pytest.mark.parametrize("proof", ["", "guess"])
async def test_commands_that_permit_need_more_than_the_cookie(
    site: RoomSite, alice: Browser, path: str, fields: Fields, proof: str
) -> None:
    about = await held(site, alice)
    before = len(site.journalled(*ACTS))
    sent = {"token": alice.token, **about, **fields}
    heard = await alice.send(path, sent, {"X-Safetyd-Proof": proof} if proof else {})

    assert heard.note == ("Not done: sign in again: run `safetyd open`.")
    assert len(site.journalled(*ACTS)) == before


@pytest.mark.parametrize(("path", "fields"), RESTRICTING)
async def test_commands_that_restrict_need_no_proof(
    site: RoomSite, alice: Browser, path: str, fields: Fields
) -> None:
    ref = site.asks()
    await alice.post(path, proof=False, id=ref, **fields)

    (event,) = site.journalled(*ACTS)
    assert (event.by, event.via) == ("alice", "web")


@pytest.mark.parametrize(("path", "fields"), PERMITTING)
async def test_with_the_proof_it_is_done(
    site: RoomSite, alice: Browser, path: str, fields: Fields
) -> None:
    about = await held(site, alice)
    if fields.get("do") == "safe_mode_exit":
        await alice.post("/agents/code", do="safe_mode_enter")
        site.clock.t += 3600
    before = len(site.journalled(*ACTS))
    await alice.post(path, **about, **fields)

    done = site.journalled(*ACTS)[before:]
    assert done
    assert {(event.by, event.via) for event in done} == {("alice", "web")}


@pytest.mark.parametrize(("path", "fields"), [*RESTRICTING, *PERMITTING])
async def test_an_observer_does_nothing(
    site: RoomSite, alice: Browser, eve: Browser, path: str, fields: Fields
) -> None:
    about = await held(site, alice)
    before = len(site.journalled(*ACTS))
    heard = await eve.post(path, **about, **fields)

    assert heard.note == undone(path, "observers cannot act")
    assert heard.failed
    assert len(site.journalled(*ACTS)) == before


async def test_a_proof_may_be_anything(site: RoomSite, alice: Browser) -> None:
    await alice.post("/stop")
    body = f"token={alice.token}&reason=why"
    status = await raw(
        site,
        "POST",
        "/resume",
        f"Cookie: {COOKIE}={alice.cookie}",
        "X-Safetyd-Proof: \udcff",
        f"Content-Length: {len(body)}",
        body=body,
    )

    assert status == 303
    assert not site.journalled(Resumed)


async def test_an_observer_sees_every_page_and_no_form_that_acts(
    site: RoomSite, alice: Browser, eve: Browser
) -> None:
    ref = (await held(site, alice))["id"]
    shown = [await eve.get(path) for path in addresses(ref)]

    assert [page.status for page in shown] == [200] * len(addresses(ref))
    assert {action for page in shown for action in page.forms} == {"/signout"}
    assert all("eve (observer)" in page.text for page in shown)


async def test_an_operator_who_becomes_an_observer_cannot_act(
    site: RoomSite, alice: Browser
) -> None:
    site.people["alice"] = "observer"
    heard = await alice.post("/stop")

    assert heard.note == undone("/stop", "observers cannot act")
    assert not site.journalled(Stopped)


@pytest.mark.parametrize("path", ["/stop", "/resume", "/requests", "/agents/code", "/safe-mode"])
async def test_strangers_do_nothing_and_are_told_how_to_sign_in(site: RoomSite, path: str) -> None:
    async with site.browser() as browser:
        heard = await browser.hear("POST", path, data={"do": "pause"})

    assert heard.status == 401
    assert undone(path, "you are signed out") in re.sub("</?code>", "`", heard.text)
    assert "safetyd open" in heard.text
    assert not site.journalled(*ACTS)


async def test_strangers_see_the_front_page_and_nothing_else(site: RoomSite) -> None:
    async with site.browser() as browser:
        front = await browser.get("/", Accept="text/html")
        others = [await browser.get(path) for path in addresses("req_1")[1:]]
        live = await browser.get("/live?page=/")

    assert front.status == 200
    assert 'id="room"' not in front.text
    assert {page.status for page in others} == {401}
    assert len({page.text for page in others}) == 1
    assert live.status == 403


@pytest.mark.parametrize("cookie", ["", "x", "%00", "a" * 4000, "\udcff"])
async def test_cookies_of_nobody_sign_nobody_in(site: RoomSite, cookie: str) -> None:
    status = await raw(site, "GET", "/agents", f"Cookie: {COOKIE}={cookie}")

    assert status == 401


async def test_a_browser_may_call_itself_anything(site: RoomSite) -> None:
    status = await raw(site, "POST", site.link(), "User-Agent: \udcff\x85evil", "Content-Length: 0")
    async with site.browser("alice") as alice:
        page = await alice.get("/")

    (_, first) = site.entrance.sessions().sessions
    assert (status, page.status) == (200, 200)
    assert first.browser.isprintable()


async def test_a_session_is_its_operators_own(site: RoomSite, alice: Browser) -> None:
    async with site.browser("bob") as bob:
        tokens = {alice.token, bob.token}
        as_bob = await bob.send("/stop", {"token": alice.token}, {"X-Safetyd-Proof": alice.proof})
        shown = (await bob.get("/")).text

    assert len(tokens) == 2
    assert as_bob.note == undone("/stop", "the form did not come from the control room")
    assert "bob" in shown
    assert "alice" not in shown


@pytest.mark.parametrize("headers", [*FOREIGN, {}])
async def test_only_our_own_page_signs_out(
    site: RoomSite, alice: Browser, headers: dict[str, str]
) -> None:
    token = alice.token if headers else "0" * 32
    await alice.send("/signout", {"token": token}, headers)
    foreign = (await alice.get("/agents")).status
    long = await alice.send("/signout", {"token": alice.token, "x": "x" * 99_999}, {})
    after_long = (await alice.get("/agents")).status
    await alice.send("/signout", {"token": alice.token}, {})
    own = await alice.get("/agents")

    assert (foreign, long.status, after_long, own.status) == (200, 200, 200, 401)
    assert not list(alice.session.cookie_jar)
    assert not site.entrance.sessions().sessions


async def test_an_observer_signs_out(site: RoomSite, eve: Browser) -> None:
    await eve.send("/signout", {"token": eve.token}, {})

    assert (await eve.get("/agents")).status == 401


async def test_an_operator_without_a_key_is_signed_out(site: RoomSite, alice: Browser) -> None:
    del site.people["alice"]
    heard = [await alice.get("/agents"), await alice.post("/stop")]

    assert [each.status for each in heard] == [401, 401]
    assert not site.journalled(Stopped)


async def test_a_session_ends_when_it_is_not_used(site: RoomSite, alice: Browser) -> None:
    site.clock.t += IDLE.total_seconds() - 1
    used = (await alice.get("/agents")).status
    site.clock.t += IDLE.total_seconds() - 1
    again = (await alice.get("/agents")).status
    site.clock.t += IDLE.total_seconds()
    idle = (await alice.get("/agents")).status

    assert (used, again, idle) == (200, 200, 401)


async def test_a_session_ends_after_a_week_however_much_it_is_used(
    site: RoomSite, alice: Browser
) -> None:
    heard = []
    step = (IDLE - NOTED).total_seconds()
    for _ in range(int(LONGEST.total_seconds() / step) + 1):
        site.clock.t += step
        heard.append((await alice.get("/agents")).status)

    assert timedelta(days=7) == LONGEST
    assert heard == [200] * (len(heard) - 1) + [401]


async def test_a_session_survives_a_restart(tmp_path: Path) -> None:
    async with room_site(tmp_path) as site, site.browser("alice") as alice:
        cookie, proof, token = alice.cookie, alice.proof, alice.token
    kept = (tmp_path / FILE).read_text()
    async with room_site(tmp_path) as site, site.browser() as browser:
        browser.session.cookie_jar.update_cookies({COOKIE: cookie})
        page = await browser.get("/")
        browser.proof, browser.token = proof, page.value("token")
        await browser.post("/stop")
        await browser.post("/resume", reason="why")

    assert len(site.journalled(Stopped)) == 1
    assert not site.journalled(Resumed)  # what permits needs a page of this daemon
    assert browser.token == token
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert not any(secret in kept for secret in (cookie, proof, token))


async def test_a_full_disk_keeps_nobody_from_signing_in_or_stopping(
    site: RoomSite, caplog: pytest.LogCaptureFixture
) -> None:
    (site.directory / FILE).mkdir()  # which no file can take the place of
    async with site.browser("alice") as alice:
        heard = await alice.post("/stop")
        site.link()
        await alice.send("/signout", {"token": alice.token}, {})

    assert heard.note == "Everything is stopped."
    assert "cannot store web sessions" in caplog.text


async def raw(site: RoomSite, method: str, path: str, *headers: str, body: str = "") -> int:
    """Send a request byte by byte, as no library would; return the status."""
    address = urlsplit(site.url)
    lines = (f"{method} {path} HTTP/1.1", f"Host: {address.netloc}", "Connection: close", *headers)
    sent = "\r\n".join((*lines, "", body)).encode("utf-8", "surrogateescape")

    def exchange() -> bytes:
        with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
            connection.sendall(sent)
            return connection.makefile("rb").readline()

    return int((await anyio.to_thread.run_sync(exchange)).split()[1])
