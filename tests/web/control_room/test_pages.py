"""Every page, over an engine at which much has happened, and over an empty one."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from safetyd.bus.question_limits import SAVED_S
from safetyd.core.daily_report.colour_rules import RULES
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    Paused,
    SafeModeEntered,
    Stopped,
)
from safetyd.core.events.notification_events import Due, Item, Told
from safetyd.core.messages.telemetry import Heartbeat, Outcome
from safetyd.core.policy import Configured
from safetyd.operators.contract.status_contract import HealthCheck
from safetyd.operators.views.request_view import MOST_NAMED
from safetyd.web.control_room.page_content import (
    ADVICE,
    FED,
    MOST_AT_ONCE,
    PAGES,
    ROWS,
    set_digest,
)
from safetyd.web.control_room.room_pages import MAX_ADDRESS, MAX_FIELDS, NOWHERE, RoomPages
from tests.cards.card_story import asked
from tests.story import at, report, stop
from tests.web.control_room.room_site import Browser, RoomSite, addresses, room_site

MAIL = """
[notifications.email]
enabled = true
to = "alice@example.com"
from = "safetyd@example.com"
smtp_host = "127.0.0.1"
smtp_port = 1
security = "none"
"""


def much_happens(site: RoomSite) -> str:
    """Put something on every page; return the id of a request."""
    t = site.clock.t
    site.proposes("p0", cost_usd=1.0, dependency="db", session="s1", model="large")
    site.proposes("p9", agent="ops", keyless=True)
    ref = site.asks()
    site.asks("p2")
    moved = BreakerMoved(at=at(t), t=t, breaker="db", state="open", reason="5 calls failed")
    found = AnomalyFound(at=at(t), t=t, rule="anomaly.x", severity="high", message="odd things")
    story: list[Event] = [
        report(t, Outcome(id="p0", ok=False, cost_usd=2.5)),
        moved,
        found,
        AnomalyFound(
            at=at(t), t=t, rule="anomaly.y", severity="low", message="dear things", agent="code"
        ),
        Paused(at=at(t), t=t, agent="ops", source="operator", by="bob", reason="tired"),
        SafeModeEntered(at=at(t), t=t, by="alice", agent="code", reason="careful"),
        report(t, Heartbeat(), "ops"),
        Stopped(at=at(t), t=t, source="operator", by="bob", reason="drill", agent="ops", epoch=1),
    ]
    site.happens(*story)
    site.checks = (HealthCheck(name="journal", state="good", says="written down"),)
    return ref


async def test_every_page_shows_what_happened(tmp_path: Path) -> None:
    async with room_site(tmp_path, MAIL) as site, site.browser("alice") as alice:
        ref = much_happens(site)
        site.wired.passes()
        paths = addresses(ref, decision="p0")
        shown = {path.partition("?")[0]: await alice.get(path) for path in paths}

    assert {page.status for page in shown.values()} == {200}
    for path, said in {
        "/": "odd things",
        "/requests": "git push origin p2",
        f"/requests/{ref}": "git push origin p1",
        "/answers": "Your answer applies only to these requests",
        "/agents": 'href="/agents/ops"',
        "/agents/code": "dear things",
        "/safe-mode": "careful",
        "/feed": "cat notes",
        "/decisions/p0": "cat notes",
        "/history": "No project has a file history",
        "/money": "$2.50",
        "/breakers": "5 calls failed",
        "/limits": "code",
        "/anomalies": "odd things",
        "/report": "1 HIGH anomaly",
        "/messages": '>operator</td><td data-head="Channel">email</td>',
        "/health": "written down",
        "/stopped": "drill",
    }.items():
        assert said in shown[path].main, path
    assert all("<strong>1 agent in safe mode</strong>" in page.bar for page in shown.values())
    assert all("2 pending" in page.bar for page in shown.values())
    assert all(page.forms.count("/stop") == 1 for page in shown.values())


async def test_other_holds_are_counted_and_linked(site: RoomSite, alice: Browser) -> None:
    calm = await alice.get("/")
    much_happens(site)
    several = await alice.get("/")
    site.happens(stop(site.clock.t, epoch=2))
    most = await alice.get("/")

    assert 'class="others"' not in calm.bar
    stopped = '<a href="/stopped">1 agent stopped</a>'
    assert f'{stopped}, <a href="/agents?state=paused">1 agent paused</a>' in several.bar
    assert f'<a href="/safe-mode">1 agent in safe mode</a>, {stopped}' in most.bar


async def test_a_stop_of_everybody_comes_before_all_else_and_offers_to_resume(
    site: RoomSite, alice: Browser
) -> None:
    much_happens(site)
    site.happens(stop(site.clock.t, epoch=2))
    page = await alice.get("/stopped")

    assert "<strong>STOPPED</strong>" in page.bar
    assert "/stop" not in page.forms
    assert 'href="/stopped">RESUME' in page.bar
    assert "/resume" in page.forms
    assert '<th scope="row">everything</th>' in page.main
    assert "1 allowed action without an outcome" in page.main


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/", "Everything is normal."),
        ("/requests", "safetyd agent add NAME"),
        ("/agents", "safetyd agent add NAME"),
        ("/agents?text=x", "safetyd agent add NAME"),
        ("/safe-mode", "No agent is in safe mode. After "),
        ("/feed", 'No matching events. <a href="/feed">'),
        ("/money", "safetyd budgets raise"),
        ("/breakers", "A proposal that names its <code>dependency</code> creates one"),
        ("/limits", "left of global"),
        ("/anomalies", "No anomalies"),
        ("/report", "nothing was recorded"),
        ("/messages", "safetyd docs notifications"),
        ("/health", "safetyd doctor"),
        ("/stopped", '<a href="/">Overview</a>'),
    ],
)
async def test_an_empty_page_says_what_to_do_next(
    site: RoomSite, alice: Browser, path: str, says: str
) -> None:
    page = await alice.get(path)

    assert page.status == 200
    assert says in page.main
    assert "<strong>NORMAL</strong>" in page.bar


async def test_with_agents_empty_lists_lead_on(site: RoomSite, alice: Browser) -> None:
    site.proposes()

    assert 'href="/agents">Agents</a>' in (await alice.get("/requests")).main
    assert "No agent matches" in (await alice.get("/agents?text=zzz")).main


@pytest.mark.parametrize(
    "path",
    [
        *("/agents/nobody", "/decisions/nothing", "/requests/req_0", "/answers", "/answers?id=x"),
        *("/nowhere", "/agents/code/more", f"/agents?{'x' * MAX_ADDRESS}"),
    ],
)
async def test_unknown_addresses_and_ids_are_explained_on_a_page_with_stop(
    site: RoomSite, alice: Browser, path: str
) -> None:
    page = await alice.get(path)
    async with site.browser() as stranger:
        assert (await stranger.get(path)).bar == ""

    assert page.status == 404
    assert "<h1>Not found</h1>" in page.main
    assert 'href="/"' in page.main
    assert ("NORMAL" in page.bar, page.forms.count("/stop")) == (True, 1)


@pytest.mark.parametrize(
    "path", ["/agents?state=x", "/agents?sort=x", "/anomalies?sort=x", "/safe-mode?agent=%00"]
)
async def test_invalid_parameters_are_explained_on_a_page(
    site: RoomSite, alice: Browser, path: str
) -> None:
    page = await alice.get(path)

    assert page.status == 400
    assert "<h1>Not found</h1>" in page.main
    assert page.forms.count("/stop") == 1


def policy(headers: dict[str, str]) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in headers["Content-Security-Policy"].split(";"))
    return {name: sources for name, _, sources in parts}


async def test_nothing_inline_runs_and_nobody_frames_a_page(site: RoomSite, alice: Browser) -> None:
    shown = [await alice.get(path) for path in addresses(site.asks(), agent="code")]
    shown += [await alice.get("/agents/nobody"), await alice.get("/signin/x")]

    for page in shown:
        said = policy(page.headers)
        assert said["default-src"] == "'none'"
        assert said["frame-ancestors"] == "'none'"
        assert {said[name] for name in ("script-src", "style-src", "form-action")} == {"'self'"}
        assert "unsafe" not in page.headers["Content-Security-Policy"]
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", page.text)


async def test_lists_go_on_where_they_end(site: RoomSite, alice: Browser) -> None:
    for n in range(ROWS + 1):
        site.asks(f"p{n}", agent=f"a{n:03}")
    for n in range(FED):
        site.proposes(f"r{n}", agent=f"a{n % 50:03}")
    requests, agents = await alice.get("/requests"), await alice.get("/agents?text=a0&key=yes")
    feed = await alice.get("/feed?what=decisions")
    following = [
        await alice.get(re.search(path, page.main)[1].replace("&amp;", "&"))  # type: ignore[index]
        for path, page in (
            (r'href="([^"]*)">1 more</a>', requests),
            (r'href="(/agents\?text=a0&amp;key=yes&amp;offset=[^"]*)"', agents),
            (r'href="(/feed\?what=decisions&amp;before=[^"]*)"', feed),
        )
    ]

    assert requests.main.count('<li id="row-') == ROWS
    assert agents.main.count('<tr id="') == ROWS
    assert feed.main.count('<tr id="seq-') == FED
    assert [page.status for page in following] == [200] * 3
    assert following[0].main.count('<li id="row-') == 1
    assert '">50 before</a>' in following[0].main
    assert following[1].main.count('<tr id="') == 1
    assert not set(re.findall(r'id="seq-\d+"', feed.main)) & set(
        re.findall(r'id="seq-\d+"', following[2].main)
    )


async def test_agents_are_sorted_and_filtered_by_the_address(
    site: RoomSite, alice: Browser
) -> None:
    for name in ("beta", "alpha"):
        site.proposes(agent=name, keyless=name == "beta")

    async def listed(query: str) -> list[str]:
        page = await alice.get(f"/agents?{query}")
        return re.findall(r'<a href="/agents/(\w+)"', page.main)

    assert await listed("") == ["alpha", "beta"]
    assert await listed("sort=name&descending=yes") == ["beta", "alpha"]
    assert await listed("text=alp") == ["alpha"]
    assert await listed("key=no") == ["beta"]
    assert await listed("key=yes") == ["alpha"]
    assert await listed("key=maybe&offset=99999999999999999999") == ["alpha", "beta"]
    assert await listed("offset=1") == ["beta"]
    assert await listed("state=paused") == []


async def test_the_feed_is_filtered_by_the_address(site: RoomSite, alice: Browser) -> None:
    site.proposes("p1", agent="code")
    site.proposes("p2", agent="ops", text="cat secrets")
    site.asks("p3", agent="ops")

    async def rows(query: str) -> list[str]:
        return re.findall(r'href="/decisions/(\w+)"', (await alice.get(f"/feed?{query}")).main)

    assert await rows("") == ["p3", "p2", "p1"]
    assert await rows("agent=ops") == ["p3", "p2"]
    assert await rows("text=secrets") == ["p2"]
    assert await rows("verdict=require_confirmation") == ["p3"]


async def test_requests_are_listed_by_urgency_risk_kind_and_age(
    site: RoomSite, alice: Browser
) -> None:
    old = site.asks("old", agent="a")
    other = site.asks("other", agent="b")
    same = site.asks("same", agent="a")
    urgent = site.asks("urgent", agent="c", urgency="high")

    async def listed(query: str = "") -> list[str]:
        page = await alice.get(f"/requests{query}")
        return re.findall(r'<li id="row-(\w+)"', page.main)

    assert await listed() == [urgent, other, old, same]
    assert await listed("?agent=a") == [old, same]
    assert await listed("?type=push&agent=b") == [other]
    assert await listed("?type=deploy") == []


async def test_agents_that_the_filter_does_not_name_are_counted_and_lead_to_their_requests(
    site: RoomSite, alice: Browser
) -> None:
    for n in range(MOST_NAMED + 2):
        site.asks(f"p{n}", agent=f"a{n}")

    filters = (await alice.get("/requests")).main
    unnamed = f"a{MOST_NAMED + 1}"
    agent = (await alice.get(f"/agents/{unnamed}")).main

    assert f'value="{unnamed}"' not in filters
    assert "<option disabled>other agents (2)</option>" in filters
    assert "other types" not in filters
    assert f'<a href="/requests?agent={unnamed}">1 pending request</a>' in agent
    assert (await alice.get(f"/requests?agent={unnamed}")).main.count('<li id="row-') == 1


async def test_an_urgent_request_is_marked_among_several(site: RoomSite, alice: Browser) -> None:
    urgent, other = site.asks("p1", urgency="high"), site.asks("p2")

    page = (await alice.get(f"/answers?id={other}&id={urgent}")).main
    rows = {
        ref: page.partition(f'id="set-{ref}"')[2].partition("</summary>")[0]
        for ref in (urgent, other)
    }

    assert "high urgency" in rows[urgent]
    assert "urgency" not in rows[other]


async def test_commands_in_a_health_check_are_marked(site: RoomSite, alice: Browser) -> None:
    site.checks = (HealthCheck(name="channels", state="warn", says="none; try `safetyd list`"),)

    for path in ("/health", "/"):
        assert "none; try <code>safetyd list</code>" in (await alice.get(path)).main


async def test_an_answer_leads_to_the_next_request_of_the_list_that_was_shown(
    site: RoomSite, alice: Browser
) -> None:
    first, other, second = site.asks("p1"), site.asks("p2", agent="b"), site.asks("p3")
    shown = await alice.get(f"/requests/{first}?agent=code")
    refused = await alice.post("/requests", do="approve", id=first, digest="sha256:other")
    told = await alice.post(
        "/requests", do="deny", id=first, next=shown.value("next"), agent="code"
    )
    late = await alice.get(f"/requests/{first}?agent=code")
    last = await alice.post("/requests", do="deny", id=second, next="//evil.example", agent="code")

    assert shown.value("next") == second
    assert (refused.failed, f"/requests/{first}" in refused.text) == (True, True)
    assert (told.failed, told.note) == (False, f"Denied {first}.")
    assert f'<input type="hidden" name="id" value="{second}">' in told.main
    assert f'href="/requests/{second}?agent=code" data-key="n"' in late.main
    assert "No pending request matches" in last.main
    assert site.state(other) == "pending"


async def test_the_journal_cannot_be_written_and_stop_works(site: RoomSite, alice: Browser) -> None:
    ref = site.asks()
    site.problem = "the journal cannot be written: no space left"
    site.stuck = True
    before = await alice.get("/")
    done = await alice.post("/stop", proof=False, reason="now")
    denied = await alice.post("/requests", do="deny", id=ref)

    assert "No data available" in before.main
    assert site.problem in before.main
    assert site.problem in before.bar
    assert "/stop" in before.forms
    assert done.note.startswith("Everything is stopped.")
    assert "not stored" in done.note
    assert "<strong>STOPPED</strong>" in done.bar
    assert [stopped.by for stopped in site.stop.stop_flag.stops] == ["alice"]
    assert denied.note == (
        f"No answer: {site.problem}; check before you try again: it may still happen."
    )


async def test_an_engine_that_does_not_answer_is_said_on_the_page(
    site: RoomSite, alice: Browser
) -> None:
    site.stuck = True
    page = await alice.get("/")

    assert page.status == 200
    assert "no answer within" in page.main
    assert "/stop" in page.forms


async def test_a_daemon_that_was_displaced_says_nothing_and_does_nothing_but_stop(
    site: RoomSite, alice: Browser
) -> None:
    ref = site.asks()
    site.displaced = True
    page = await alice.get("/")
    done = await alice.post("/requests", do="deny", id=ref)
    await alice.post("/stop")

    assert ref not in page.text
    assert "another daemon may be writing the journal" in page.main
    assert done.note == "Not done: another daemon may be writing the journal."
    assert site.state(ref) == "pending"
    assert site.stop.stop_flag.holds("code")


async def test_an_operator_over_the_rate_limit_can_still_stop(
    site: RoomSite, alice: Browser
) -> None:
    site.hurried = True
    site.limits.charge("alice", 2 * SAVED_S)
    page = await alice.get("/")
    done = await alice.post("/stop")

    assert "Too many queries from operator &#34;alice&#34;. Try again in " in page.main
    assert "/stop" in page.forms
    assert done.note == "Everything is stopped."


def test_a_set_digest_covers_ids_and_contents() -> None:
    known = asked()
    one, two, three = (
        msgspec.structs.replace(known, id=id_, digest=digest)
        for id_, digest in (("r1", "d1"), ("r2", "d2"), ("r1", "d2"))
    )

    assert set_digest([one, two]) == set_digest([two, one])
    assert len({set_digest(rows) for rows in ([], [one], [one, two], [one, one])}) == 4
    assert set_digest([one]) != set_digest([three])


async def test_only_so_many_are_answered_together(site: RoomSite, alice: Browser) -> None:
    ref = site.asks()
    again = await alice.get("/answers?" + "&".join([f"id={ref}"] * (MOST_AT_ONCE + 1)))

    assert again.main.count('<details id="set-') == 1


def test_addresses_are_ours_or_none() -> None:
    pages = RoomPages(PAGES)
    found = pages.find("/agents/a%20b?sort=name&id=1&id=2")

    assert (found.page.path, found.params) == (
        "/agents/{name}",
        {"name": "a b", "sort": "name", "id": "1 2"},
    )
    assert pages.find("/feed?" + "a=1&" * (MAX_FIELDS + 1)) is NOWHERE
    assert pages.find("http://[") is NOWHERE
    assert pages.find("/agents/") is NOWHERE


async def test_the_report_of_a_day_leads_to_the_days_beside_it(
    site: RoomSite, alice: Browser
) -> None:
    much_happens(site)
    site.wired.passes()
    today = await alice.get("/report")
    before = await alice.get("/report?date=2026-02-28")
    several = await alice.get("/report?since=2026-02-28")
    wrong = await alice.get("/report?date=soon")

    assert '<span class="bad">RED</span>' in today.main
    assert 'href="/report?date=2026-02-28"' in today.main
    assert "2026-03-02" not in today.main
    assert 'href="/report?date=2026-03-01"' in before.main
    assert "<h2>Days</h2>" in several.main
    assert "is not a day" in wrong.text


async def test_the_report_leads_to_a_page_for_each_rule_and_to_no_shell_command(
    site: RoomSite, alice: Browser
) -> None:
    much_happens(site)
    site.wired.passes()
    page = await alice.get("/report")

    table = page.main.partition("What to do")[2].partition("</table>")[0]
    assert "safetyd " not in table
    assert '<a href="/stopped">' in table
    assert {rule.name for rule in RULES} == set(ADVICE)
    for advice in ADVICE.values():
        assert (await alice.get(advice.page)).status == 200


async def test_a_report_that_takes_long_is_shown_once_it_is_there(
    site: RoomSite, alice: Browser
) -> None:
    with site.reports._reading:  # somebody else's is being read
        page = await alice.get("/report")

    assert "audit files for this report" in page.main


async def test_the_report_shows_messages_and_the_changes_that_would_have_spared_the_most(
    site: RoomSite, alice: Browser
) -> None:
    t, policy = site.clock.t, site.rig.settings.policy
    assert policy.telling.strategy == "all"
    site.happens(
        Configured(at=at(t), t=t, policy=policy, digest="sha256:p", version="1", why="start")
    )
    items = (Item("request", site.asks()),)
    for number, channel in enumerate(("email", "sms")):
        sent: dict[str, Any] = {"delivery": f"d{number}", "channel": channel, "at": at(t), "t": t}
        site.happens(Due(recipient="zoe", urgency="normal", items=items, **sent))
        site.happens(Told(state="accepted", **sent))
    site.wired.passes()

    page = await alice.get("/report")

    assert "<h3>Messages</h3>" in page.main
    assert "2 (email 1, sms 1), at most 2 in an hour" in page.main
    changes = page.main.partition("Changes that would have spared the most")[2]
    assert "Use a further channel only if the first one fails (1 message)" in changes
    assert "strategy = &#34;sequential&#34;" in changes
