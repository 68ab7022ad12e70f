"""The buttons: each is a command, journalled with the operator's name."""

from pathlib import Path
from typing import Any

import pytest

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    Paused,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.events.request_events import Answered, Granted
from safetyd.operators.views.status_view import MAX_HOLDS
from safetyd.web.forms import LONG_BODY
from tests.story import at
from tests.web.control_room.room_site import Browser, RoomSite, room_site


def only(site: RoomSite, kind: type[Event]) -> Event:
    """Return the one event of a kind, which alice caused over the web."""
    (event,) = site.journalled(kind)
    assert (event.by, event.via) == ("alice", "web")
    found: Event = event
    return found


async def test_stop_needs_no_script_and_is_journalled_with_the_way_and_the_name(
    site: RoomSite, alice: Browser
) -> None:
    page = await alice.post("/stop", proof=False, reason="drill")

    event = only(site, Stopped)
    assert isinstance(event, Stopped)
    assert (event.reason, event.agent) == ("drill", None)
    assert page.note == "Everything is stopped."
    assert "<h1>Stopped</h1>" in page.main
    assert "STOPPED" in page.bar


async def test_work_goes_on_after_a_reason(site: RoomSite, alice: Browser) -> None:
    await alice.post("/stop")
    page = await alice.post("/resume", reason=" it was a drill ")

    event = only(site, Resumed)
    assert isinstance(event, Resumed)
    assert event.reason == "it was a drill"
    assert page.note == "Resumed."
    assert not site.stop.stop_flag.stops


@pytest.mark.parametrize("reason", ["", " "])
async def test_resume_needs_a_reason(site: RoomSite, alice: Browser, reason: str) -> None:
    await alice.post("/stop")
    page = await alice.post("/resume?from=/stopped", reason=reason)

    assert page.note == "Not done: give a reason."
    assert page.failed
    assert "<h1>Stopped</h1>" in page.main
    assert not site.journalled(Resumed)


@pytest.mark.parametrize(
    ("stopped", "resumed", "said"),
    [
        (
            ("code",),
            None,
            "Nothing changed: no stop applies to everything. Still stopped: code.",
        ),
        ((), "code", "Nothing changed: code was not stopped."),
        ((None,), "code", "Nothing changed: code was not stopped. Still stopped: everything."),
        (("code",), "code", "code may act again."),
        (("code", "b"), "code", "code may act again. Still stopped: b."),
        ((None, "code"), None, "Resumed. Still stopped: code."),
        ((None, "code"), "code", "code may act again. Still stopped: everything."),
    ],
)
async def test_resume_says_what_it_did_and_who_is_still_stopped(
    site: RoomSite,
    alice: Browser,
    stopped: tuple[str | None, ...],
    resumed: str | None,
    said: str,
) -> None:
    for agent in stopped:
        await alice.post("/stop", agent=agent or "")
    page = await alice.post("/resume", agent=resumed or "", reason="fixed")

    assert page.note == said
    assert page.failed is said.startswith("Nothing changed")
    assert bool(site.journalled(Resumed)) is not page.failed


async def test_no_button_ends_a_stop_by_a_file(site: RoomSite, alice: Browser) -> None:
    site.stop.stop("file:/tmp/STOP", "file", "it is there")
    page = await alice.post("/resume", reason="why")

    assert page.note == ("Still stopped by the file /tmp/STOP. Run `safetyd resume` in a terminal.")
    assert page.failed
    assert site.stop.stop_flag.stops


async def test_a_request_is_approved_with_words(site: RoomSite, alice: Browser) -> None:
    ref = site.asks()
    shown = await alice.get(f"/requests/{ref}")
    page = await alice.post(
        "/requests", do="approve", id=ref, digest=shown.value("digest"), words="go on"
    )

    event = only(site, Answered)
    assert isinstance(event, Answered)
    assert (event.answer, event.words, event.request_id) == ("approved", "go on", ref)
    assert (page.note, page.failed) == (f"Approved {ref}.", False)
    assert "Approved by alice via web" in (await alice.get(f"/requests/{ref}")).main


async def test_a_request_is_denied_with_a_reason(site: RoomSite, alice: Browser) -> None:
    ref = site.asks()
    page = await alice.post("/requests", proof=False, do="deny", id=ref, words="not today")

    event = only(site, Answered)
    assert isinstance(event, Answered)
    assert (event.answer, event.words) == ("denied", "not today")
    assert page.note == f"Denied {ref}."


async def test_only_the_shown_content_can_be_approved(site: RoomSite, alice: Browser) -> None:
    ref = site.asks()
    other = await alice.post("/requests", do="approve", id=ref, digest="sha256:" + "0" * 64)
    none = await alice.post("/requests", do="approve", id=ref)

    assert "has changed since it was shown" in other.note
    assert none.note.startswith("Not done: ")
    assert site.state(ref) == "pending"


async def test_the_second_answer_is_told_whose_was_the_first(
    site: RoomSite, alice: Browser
) -> None:
    ref = site.asks()
    async with site.browser("bob") as bob:
        await bob.post("/requests", do="deny", id=ref)
    page = await alice.post("/requests", do="deny", id=ref)

    assert page.note == "Not recorded: it was already denied by bob via web."
    assert len(site.journalled(Answered)) == 1


@pytest.mark.parametrize("kind", ["shape", "program", "session"])
async def test_a_grant_goes_with_an_approval(site: RoomSite, alice: Browser, kind: str) -> None:
    ref = site.asks(type="shell", text="frobnicate all", session="s1")
    digest = (await alice.get(f"/requests/{ref}")).value("digest")
    page = await alice.post(
        "/requests", do="grant", id=ref, digest=digest, kind=kind, hours="1.5", uses="3"
    )

    event = only(site, Granted)
    assert isinstance(event, Granted)
    assert (event.uses, event.until) == (3, at(site.clock.t + 5400))
    assert (bool(event.program), bool(event.session)) == (kind == "program", kind == "session")
    assert page.note == f"Approved {ref}. Granted as {event.id}."


@pytest.mark.parametrize(
    ("hours", "uses"), [("", "1"), ("nan", "1"), ("inf", "1"), ("1e300", "1"), ("1", "1.5")]
)
async def test_terms_that_are_no_numbers_grant_and_approve_nothing(
    site: RoomSite, alice: Browser, hours: str, uses: str
) -> None:
    ref = site.asks()
    digest = (await alice.get(f"/requests/{ref}")).value("digest")
    page = await alice.post("/requests", do="grant", id=ref, digest=digest, hours=hours, uses=uses)

    assert page.note == "Not done: hours and uses of a grant must be numbers."
    assert site.state(ref) == "pending"


@pytest.mark.parametrize("do", ["", "pause", "safe_mode_enter", "stop", "cancel"])
@pytest.mark.parametrize("proof", [True, False])
async def test_other_commands_answer_no_request(
    site: RoomSite, alice: Browser, do: str, *, proof: bool
) -> None:
    ref = site.asks()
    digest = (await alice.get(f"/requests/{ref}")).value("digest")
    page = await alice.post("/requests", proof=proof, do=do, id=ref, digest=digest)

    assert page.note.startswith("Not done: ")
    assert site.state(ref) == "pending"


async def test_no_request_is_no_answer(site: RoomSite, alice: Browser) -> None:
    page = await alice.post("/requests", do="deny")

    assert page.note == "Not done: no request selected."


async def test_an_unknown_request_is_not_answered(site: RoomSite, alice: Browser) -> None:
    page = await alice.post("/requests", do="deny", id="req_none", digest="x")

    assert page.status == 404


async def test_a_type_for_terminals_only_is_not_approved_and_says_why(
    site: RoomSite, alice: Browser
) -> None:
    ref = site.asks(type="purchase", text="buy it", cost_usd=1.0)
    card = await alice.get(f"/requests/{ref}")
    page = await alice.post("/requests", do="approve", id=ref, digest=card.value("digest"))

    assert 'value="approve"' not in card.main
    assert 'value="deny"' in card.main
    assert f"safetyd approve {ref}" in page.note
    assert page.failed
    assert site.state(ref) == "pending"


@pytest.mark.parametrize(("ways", "state"), [('["web"]', "approved"), ('["cli"]', "pending")])
async def test_a_type_says_whether_the_control_room_may_approve_it(
    tmp_path: Path, ways: str, state: str
) -> None:
    async with (
        room_site(tmp_path, f"[types.push]\napprove_via = {ways}\n") as site,
        site.browser("alice") as alice,
    ):
        ref = site.asks()
        card = await alice.get(f"/requests/{ref}")
        await alice.post("/requests", do="approve", id=ref, digest=card.value("digest"))

        assert site.state(ref) == state
        assert ('value="approve"' in card.main) is (state == "approved")
        assert ('value="approve"' in card.main) is (state == "approved")


async def chosen(site: RoomSite, alice: Browser, *refs: str) -> str:
    """Return the digest of the table that shows these requests."""
    page = await alice.get("/answers?" + "&".join(f"id={ref}" for ref in refs))
    assert all(f"set-{ref}" in page.main for ref in refs)
    return page.value("set")


@pytest.mark.parametrize(("do", "state"), [("approve", "approved"), ("deny", "denied")])
async def test_exactly_the_set_of_the_table_is_answered(
    site: RoomSite, alice: Browser, do: str, state: str
) -> None:
    refs = [site.asks(f"p{n}") for n in range(3)]
    digest = await chosen(site, alice, *refs)
    later = site.asks("p9")
    page = await alice.post("/requests", do=do, id=refs, set=digest)

    assert page.note == "3 of 3 answered."
    assert [site.state(ref) for ref in refs] == [state] * 3
    assert site.state(later) == "pending"


@pytest.mark.parametrize("do", ["approve", "deny"])
async def test_another_set_than_the_one_shown_is_not_answered(
    site: RoomSite, alice: Browser, do: str
) -> None:
    refs = [site.asks(f"p{n}") for n in range(3)]
    digest = await chosen(site, alice, *refs[:2])
    attempts = [
        await alice.post("/requests", do=do, id=refs, set=digest),
        await alice.post("/requests", do=do, id=refs[1:], set=digest),
        await alice.post("/requests", do=do, id=refs[2], set=digest),
        await alice.post("/requests", do=do, id=refs[:2]),
    ]

    wanted = "Not done: the requests changed after the page was shown: check them again."
    assert [page.note for page in attempts] == [wanted] * 4
    assert [site.state(ref) for ref in refs] == ["pending"] * 3


async def test_a_set_is_refused_if_one_was_answered_in_the_meantime(
    site: RoomSite, alice: Browser
) -> None:
    refs = [site.asks(f"p{n}") for n in range(2)]
    digest = await chosen(site, alice, *refs)
    site.wired.answers(refs[0])
    page = await alice.post("/requests", do="approve", id=refs, set=digest)
    again = await alice.get(f"/answers?id={refs[0]}&id={refs[1]}")

    assert page.note == "Not done: the requests changed after the page was shown: check them again."
    assert site.state(refs[1]) == "pending"
    assert "was denied by alice in the meantime and is left out" in again.main
    assert f"set-{refs[0]}" not in again.main


async def test_a_set_of_one_is_answered_too(site: RoomSite, alice: Browser) -> None:
    ref = site.asks()
    page = await alice.post("/requests", do="approve", id=ref, set=await chosen(site, alice, ref))

    assert page.note == f"Approved {ref}."


async def test_requests_of_a_set_that_can_be_approved_are(site: RoomSite, alice: Browser) -> None:
    dear = site.asks("p1", type="purchase", text="buy it", cost_usd=1.0)
    other = site.asks("p2")
    digest = await chosen(site, alice, dear, other)
    page = await alice.post("/requests", do="approve", id=[dear, other], set=digest)

    assert page.note.startswith("1 of 2 answered.")
    assert f"safetyd approve {dear}" in page.note
    assert (site.state(dear), site.state(other)) == ("pending", "approved")


async def test_equal_refusals_of_a_set_are_counted(site: RoomSite, alice: Browser) -> None:
    dear = [site.asks(f"p{n}", type="purchase", text=f"buy {n}", cost_usd=1.0) for n in range(4)]
    other = site.asks("p9")
    digest = await chosen(site, alice, *dear, other)
    page = await alice.post("/requests", do="approve", id=[*dear, other], set=digest)

    assert page.note.startswith(
        "1 of 5 answered. Not recorded: 4 \N{MULTIPLICATION SIGN} purchase "
    )
    assert page.note.endswith("safetyd approve ID.")


async def test_an_agent_is_paused_from_the_card_of_its_request_which_stays_open(
    site: RoomSite, alice: Browser
) -> None:
    ref = site.asks()
    card = await alice.get(f"/requests/{ref}")
    page = await alice.post(
        "/agents/code",
        proof=False,
        do="pause",
        page=f"/requests/{ref}",
        reason=card.value("reason"),
    )
    elsewhere = await alice.post("/agents/code", do="pause", page="https://evil.example/")

    pause = site.journalled(Paused)[0]
    assert (pause.agent, pause.via, pause.reason) == (
        "code",
        "web",
        f"paused while reviewing {ref}",
    )
    assert page.note == "code: paused."
    assert "git push origin p1" in page.main
    assert "<h1>code " in elsewhere.main


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/stop", "Nothing is stopped"),
        ("/resume", "Nothing is stopped"),
        ("/requests", "No pending requests"),
        ("/agents/code", "code"),
        ("/safe-mode", "Safe mode"),
    ],
)
async def test_an_address_of_a_form_that_is_typed_by_hand_leads_to_a_page(
    site: RoomSite, alice: Browser, path: str, title: str
) -> None:
    site.proposes()

    page = await alice.get(path)

    assert page.status == 200
    assert f"<h1>{title}" in page.main
    assert site.journalled(Stopped, Resumed) == []


async def test_an_agent_is_paused_and_let_go(site: RoomSite, alice: Browser) -> None:
    site.proposes()
    paused = await alice.post("/agents/code", proof=False, do="pause", reason="odd")
    let_go = await alice.post("/agents/code", do="unpause", reason="fine")

    pause, unpause = only(site, Paused), only(site, Unpaused)
    assert isinstance(pause, Paused)
    assert isinstance(unpause, Unpaused)
    assert (pause.reason, unpause.reason) == ("odd", "fine")
    assert (paused.note, let_go.note) == ("code: paused.", "code: no longer paused.")
    assert 'value="unpause"' in paused.main
    assert "<h1>code" in let_go.main


async def test_an_agent_is_put_in_safe_mode_and_let_go(site: RoomSite, alice: Browser) -> None:
    site.proposes()
    entered = await alice.post("/agents/code", proof=False, do="safe_mode_enter", reason="odd")
    leaving: dict[str, Any] = {"do": "safe_mode_exit", "sure": "yes", "reason": "fine"}
    early = await alice.post("/agents/code?from=/agents/code", **leaving)
    site.clock.t += 3600
    left = await alice.post("/agents/code", **leaving)

    only(site, SafeModeEntered)
    only(site, SafeModeExited)
    assert entered.note == "code: in safe mode."
    assert early.note.startswith("Not done: ")
    assert left.note == "code: left safe mode."


@pytest.mark.parametrize("path", ["/agents/code", "/safe-mode"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sure": "yes"}, "Not done: give a reason."),
        ({"sure": "yes", "reason": " "}, "Not done: give a reason."),
        ({"reason": "fine"}, "Not done: tick the confirmation box."),
    ],
)
async def test_safe_mode_is_left_only_by_who_is_sure_and_says_why(
    site: RoomSite, alice: Browser, path: str, given: dict[str, Any], said: str
) -> None:
    site.proposes()
    await alice.post("/agents/code", do="safe_mode_enter", reason="odd")
    site.clock.t += 3600
    page = await alice.post(path, do="safe_mode_exit", agent="code", **given)

    assert (page.note, page.failed) == (said, True)
    assert not site.journalled(SafeModeExited)


async def test_the_result_names_a_safe_mode_of_all_agents(site: RoomSite, alice: Browser) -> None:
    site.proposes()
    await alice.post("/agents/code", do="safe_mode_enter", reason="odd")
    await alice.post("/safe-mode", do="safe_mode_enter", reason="odd")
    site.clock.t += 3600
    leaving: dict[str, Any] = {"do": "safe_mode_exit", "sure": "yes", "reason": "fine"}
    first = await alice.post("/agents/code", **leaving)
    second = await alice.post("/agents/code", **leaving)

    assert first.note == "code: left safe mode. Still in safe mode: all agents."
    assert second.note == "Nothing changed. Still in safe mode: all agents."
    assert second.failed


async def test_every_agent_in_safe_mode_has_a_way_out_on_the_page(
    site: RoomSite, alice: Browser
) -> None:
    for number in range(MAX_HOLDS + 2):
        await alice.post("/safe-mode", do="safe_mode_enter", agent=f"a{number}", reason="odd")
    page = await alice.get("/safe-mode")

    assert all(f'name="agent" value="a{number}"' in page.main for number in range(MAX_HOLDS))
    assert '<a href="/agents?state=safe_mode">2 more</a> in safe mode.' in page.main


async def test_everybody_is_put_in_safe_mode_and_let_go_by_force(
    site: RoomSite, alice: Browser
) -> None:
    entered = await alice.post("/safe-mode", proof=False, do="safe_mode_enter", reason="odd")
    unsure = await alice.post("/safe-mode?from=/safe-mode", do="safe_mode_exit", reason="fine")
    early = await alice.post("/safe-mode", do="safe_mode_exit", sure="yes", reason="fine")
    forced = await alice.post(
        "/safe-mode", do="safe_mode_exit", sure="yes", force="yes", reason="fine"
    )

    event = only(site, SafeModeEntered)
    assert isinstance(event, SafeModeEntered)
    assert event.agent is None
    only(site, SafeModeExited)
    assert entered.note == "All agents: in safe mode."
    assert unsure.note == "Not done: tick the confirmation box."
    assert early.note.startswith("Not done: ")
    assert forced.note == "All agents: left safe mode."


async def test_the_page_lets_everybody_go_by_the_name_it_shows(
    site: RoomSite, alice: Browser
) -> None:
    page = await alice.post("/safe-mode", do="safe_mode_enter", reason="odd")
    left = await alice.post(
        "/safe-mode",
        do="safe_mode_exit",
        agent=page.value("agent"),
        sure="yes",
        force="yes",
        reason="fine",
    )

    only(site, SafeModeExited)
    assert left.note.endswith(": left safe mode.")
    assert "No agent is in safe mode" in left.main


@pytest.mark.parametrize("path", ["/agents/code", "/safe-mode"])
@pytest.mark.parametrize("do", ["", "stop", "resume", "reload", "session_end", "deny", "approve"])
async def test_other_commands_have_no_button_there(
    site: RoomSite, alice: Browser, path: str, do: str
) -> None:
    site.proposes()
    before = len(site.wired.queue.journal)
    page = await alice.post(path, do=do)

    assert page.status == 200
    assert page.note.startswith(f"Not done: {do!r} is not one of ".replace("'", "&#39;"))
    assert len(site.wired.queue.journal) == before
    assert len(site.sessions.all(site.clock.now().at)) == 1


async def test_a_form_that_is_too_long_does_nothing(site: RoomSite, alice: Browser) -> None:
    page = await alice.post("/stop", reason="x" * LONG_BODY)

    assert page.note == (
        "NOT STOPPED: the form was too long or cut off. Run `safetyd stop` in a terminal."
    )
    assert page.failed
    assert not site.journalled(Stopped)


@pytest.mark.parametrize(
    ("back", "shown"),
    [("/money", "/money"), ("//evil.example", "/"), ("https://evil.example", "/"), ("", "/")],
)
async def test_one_is_led_back_to_our_own_pages_only(
    site: RoomSite, alice: Browser, back: str, shown: str
) -> None:
    async with alice.session.post(
        "/resume",
        params={"from": back},
        data={"token": alice.token},
        headers={"X-Safetyd-Proof": alice.proof},
        allow_redirects=False,
    ) as response:
        assert (response.status, response.headers["Location"]) == (303, shown)


async def test_a_result_is_shown_once(site: RoomSite, alice: Browser) -> None:
    first = await alice.post("/stop")
    second = await alice.get("/stopped")

    assert (first.note, second.note) == ("Everything is stopped.", "")


@pytest.mark.parametrize(
    ("proof", "kind", "why"),
    [
        (True, "mixed", "Not done: &#39;mixed&#39; is not one of soft, revert."),
        (True, "soft", "Not done: no project has a commit 4f2a91c0."),
        (False, "soft", "Not done: "),
    ],
)
async def test_a_rollback_needs_the_proof_a_way_that_files_can_go_and_a_commit(
    alice: Browser, *, proof: bool, kind: str, why: str
) -> None:
    page = await alice.post("/history/4f2a91c0?from=/history", proof=proof, kind=kind, reason="r")

    assert page.note.startswith(why)
    assert proof == any(words in page.note for words in ("no project", "revert"))
    assert "<h1>File history</h1>" in page.main
