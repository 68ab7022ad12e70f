"""Decision links: the table of outcomes."""

from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.guard_events import Paused, PersonSeen
from safetyd.core.events.request_events import Cancelled, Superseded
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from safetyd.journal.commit_loop import put
from tests.operators.views.view_reader import entered
from tests.story import at, stop
from tests.web.link_site import Heard, LinkSite

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


def pending(site: LinkSite, request_id: str) -> None:
    pass


def approved(site: LinkSite, request_id: str) -> None:
    site.queue.answers(5, request_id, by="alice")


def approved_by_another(site: LinkSite, request_id: str) -> None:
    site.queue.answers(5, request_id, by="bob")


def denied(site: LinkSite, request_id: str) -> None:
    site.queue.answers(5, request_id, "denied", by="bob")


def used(site: LinkSite, request_id: str) -> None:
    site.queue.answers(5, request_id, waits=True)


def expired(site: LinkSite, request_id: str) -> None:
    site.clock.t = DAY_S + 720


def too_old(site: LinkSite, request_id: str) -> None:
    """A link of a request that waits without an end."""
    site.clock.t = 8 * DAY_S


def superseded(site: LinkSite, request_id: str) -> None:
    changed = Superseded(at=at(5), t=5.0, request_id=request_id, agent="code", by_id="p2")
    site.queue.happens(changed)


def cancelled(site: LinkSite, request_id: str) -> None:
    withdrawn = Cancelled(at=at(5), t=5.0, request_id=request_id, by="bob", via="cli")
    site.queue.happens(withdrawn)


def stopped(site: LinkSite, request_id: str) -> None:
    site.queue.happens(stop(5))


def paused(site: LinkSite, request_id: str) -> None:
    site.queue.happens(Paused(at=at(5), t=5.0, agent="code", source="operator", by="bob"))


def in_safe_mode(site: LinkSite, request_id: str) -> None:
    site.queue.happens(entered(5))


def unwritable(site: LinkSite, request_id: str) -> None:
    site.problem = "the disk is full"


Happens = Callable[[LinkSite, str], None]
# (what happened before, what somebody does, status, words of the page, answers that it records)
OUTCOMES: list[tuple[Happens, str, int, str, int]] = [
    (pending, "look", 200, "Approve</button>", 0),
    (pending, "approve", 200, "Approved at 12:00 UTC", 1),
    (pending, "deny", 200, "Denied at 12:00 UTC", 1),
    (approved, "look", 200, "Already approved by you at 12:00 UTC", 0),
    (approved, "approve", 200, "Already approved by you at 12:00 UTC", 0),
    (approved_by_another, "approve", 200, "Already approved by bob at 12:00 UTC", 0),
    (denied, "deny", 200, "Already denied by bob at 12:00 UTC", 0),
    (approved, "deny", 409, "NOT applied", 0),
    (approved, "deny", 409, "safetyd stop --agent code", 0),
    (used, "deny", 409, "may already have performed the action", 0),
    (denied, "approve", 409, "NOT applied", 0),
    (denied, "approve", 409, "Until Mon 2 Mar 12:00 UTC the same action is denied", 0),
    (expired, "look", 410, "Expired 12 min ago without an answer", 0),
    (expired, "approve", 410, "without an answer", 0),
    (expired, "deny", 410, "The agent can propose it again", 0),
    (superseded, "look", 409, "The agent changed this request", 0),
    (superseded, "approve", 409, "The agent changed this request", 0),
    (cancelled, "look", 410, "Withdrawn at 12:00 UTC", 0),
    (cancelled, "approve", 410, "No answer is needed.", 0),
    (stopped, "approve", 200, "emergency stop is active since 12:00Z", 1),
    (stopped, "approve", 200, "before Mon 2 Mar 12:00 UTC", 1),
    (stopped, "deny", 200, "received your answer", 1),
    (paused, "approve", 200, "Recorded: approved at 12:00 UTC", 1),
    (in_safe_mode, "approve", 200, "Recorded: approved at 12:00 UTC", 1),
    (unwritable, "look", 503, "Try again", 0),
    (unwritable, "approve", 503, "Not recorded. Try again.", 0),
]


@pytest.mark.req("S3.54")
@pytest.mark.parametrize(("happens", "act", "status", "words", "recorded"), OUTCOMES)
async def test_link_ends_as_the_table_has_it(
    site: LinkSite, happens: Happens, act: str, status: int, words: str, recorded: int
) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    happens(site, request_id)
    before = len(site.answers())

    if act == "look":
        heard = await site.get(token)
    else:
        heard = await site.post(token, act, site.code(request_id))

    assert heard.status == status
    assert words in heard.text
    assert len(site.answers()) - before == recorded
    assert token not in heard.text
    assert ("Retry-After" in heard.headers) is (status == 503)


async def test_link_of_a_request_that_waits_longer_than_links_live_is_too_old(
    site: LinkSite,
) -> None:
    request_id = site.asks(type="open_port", timeout_s=0.0)  # reversible: it may wait for 30 days
    token = site.tells(request_id)
    too_old(site, request_id)

    heard = await site.post(token, "deny")

    assert heard.status == 410
    assert f"safetyd approve {request_id} --digest d1" in heard.text
    assert site.answers() == []


async def test_link_of_a_request_that_nobody_remembers_says_that_it_is_over(site: LinkSite) -> None:
    token = site.tells("req_000000000000")

    looked = await site.get(token)
    answered = await site.post(token, "approve", "1234")

    assert (looked.status, answered.status) == (410, 410)


async def test_unpause_that_nobody_answered_leaves_the_agent_paused(site: LinkSite) -> None:
    site.queue.happens(Paused(at=at(5), t=5.0, agent="code", source="anomaly", by="safetyd"))
    (request,) = site.engine.approvals.pending()
    token = site.tells(request.id)

    waits = await site.get(token)
    approval = await site.post(token, "approve", site.code(request.id))

    assert "If nobody answers, the agent stays paused." in waits.text
    assert (approval.status, "received your answer" in approval.text) == (200, True)


@pytest.mark.req("S3.54")
async def test_answer_names_person_channel_message_assurance_and_peer(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id, channel="ops-mail")
    site.waiting = True

    await site.post(token, "approve", site.code(request_id), m=" fine by me ")

    (answer,) = site.answers()
    assert (answer.by, answer.via, answer.delivery) == ("alice", "link:ops-mail", "dlv_1")
    assert (answer.assurance, answer.words, answer.digest) == ("code", "fine by me", "sha256:d1")
    assert answer.waits
    assert answer.peer.startswith("127.0.0.1 Python/")
    assert decode(encode(answer)) == answer
    seen = [event for event in site.queue.journal if isinstance(event, PersonSeen)]
    assert [(event.by, event.how) for event in seen] == [("alice", "link:ops-mail")]


async def test_peer_is_one_short_line_whatever_a_browser_calls_itself(site: LinkSite) -> None:
    token = site.tells(site.asks())
    data = {"v": "deny", "n": site.nonce(token)}
    agent = "\u202eMozilla" + "x" * 300

    await site.hears("POST", token, data=data, headers={"User-Agent": agent})

    (answer,) = site.answers()
    assert len(answer.peer) == 200
    assert answer.peer.isprintable()


@pytest.mark.req("S3.54")
async def test_looking_changes_nothing_however_often_and_in_whatever_way(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    before = list(site.queue.journal)

    for method in ("GET", "HEAD", "GET", "HEAD", "GET"):
        heard = await site.hears(method, f"{token}?i=a&v=approve&c={site.code(request_id)}")
        assert heard.status == 200

    assert site.queue.journal == before
    assert site.decisions.counts == {"GET 200": 3, "HEAD 200": 2}


@pytest.mark.parametrize(("focus", "where"), [("a", '12" autofocus'), ("d", '"deny" autofocus')])
async def test_buttons_of_a_message_only_move_the_focus(
    site: LinkSite, focus: str, where: str
) -> None:
    token = site.tells(site.asks())

    assert where in (await site.get(f"{token}?i={focus}")).text
    assert "autofocus" not in (await site.get(token)).text


async def test_list_has_what_still_waits_each_with_a_link_of_its_own(site: LinkSite) -> None:
    ids = [site.asks(id=f"p{n}", text=f"git push {n}") for n in range(3)]
    site.tells(*ids)
    site.queue.answers(5, ids[1])
    listed = site.signer.token("dlv_1", "", "alice")

    heard = await site.get(listed)
    single = await site.get(site.signer.token("dlv_1", ids[2], "alice"))
    posted = await site.post(listed, "deny")

    assert (heard.status, "2 pending requests" in heard.text) == (200, True)
    for id_, there in zip(ids, (True, False, True), strict=True):
        assert (f'href="{site.signer.token("dlv_1", id_, "alice")}"' in heard.text) is there
    assert "git push 2" in single.text
    assert (posted.status, len(site.answers())) == (200, 1)


async def test_link_of_a_test_shows_that_it_works_and_answers_nothing(site: LinkSite) -> None:
    token = site.tells("note_1", kind="test")

    looked = await site.get(token)
    unused = list(site.used)
    bare = await site.hears("POST", token, data={"v": "test"})
    unfit = await site.post(token, "approve", "1234")
    pressed = await site.post(token, "test")

    assert (looked.status, "The test message arrived" in looked.text) == (200, True)
    assert looked.nonce
    assert (bare.status, unfit.status, unused) == (200, 400, [])
    assert (pressed.status, "It works" in pressed.text) == (200, True)
    assert site.used == [("dlv_1", at(10))]
    assert site.queue.journal == []


async def test_button_of_a_test_does_nothing_to_a_request(site: LinkSite) -> None:
    token = site.tells(site.asks())

    heard = await site.post(token, "test")

    assert heard.status == 400
    assert (site.answers(), site.used) == ([], [])


async def test_list_lives_for_a_day(site: LinkSite) -> None:
    site.tells(site.asks())
    site.clock.t += DAY_S

    heard = await site.get(site.signer.token("dlv_1", "", "alice"))

    assert (heard.status, "safetyd list" in heard.text) == (410, True)


async def test_times_are_those_of_the_readers_zone() -> None:
    alice = Recipient(name="alice", channels=(), quiet=QuietHours(timezone="Asia/Tokyo"))
    policy = Policy(telling=TellingConfig(recipients=(alice,)))
    async with LinkSite(policy).at_work() as site:
        request_id = site.asks()

        hers = await site.post(site.tells(request_id), "deny")
        his = await site.get(site.tells(request_id, recipient="bob", delivery="dlv_2"))

    assert "Denied at 21:00 JST" in hers.text
    assert "Already denied by alice at 12:00 UTC" in his.text


async def test_answer_that_is_given_up_before_its_turn_is_never_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("safetyd.web.engine_gateway.PATIENCE_S", 0.01)
    site = LinkSite()
    async with site.listening():
        request_id = site.asks()
        heard = await site.post(site.tells(request_id), "approve", site.code(request_id))
        site.write()

    assert (heard.status, "Not recorded. Try again." in heard.text) == (503, True)
    assert site.answers() == []


async def test_answer_that_is_not_durable_yet_is_called_uncertain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("safetyd.web.engine_gateway.PATIENCE_S", 0.2)
    site = LinkSite()
    heard: list[Heard] = []

    async def deny() -> None:
        heard.append(await site.post(token, "deny"))

    async with site.listening(), anyio.create_task_group() as tasks:
        token = site.tells(site.asks())
        tasks.start_soon(deny)
        while (envelope := site.mailbox.take()) is None:
            await anyio.lowlevel.checkpoint()
        put(site.engine, envelope, site.clock.now())

    assert heard[0].status == 503
    assert "Open the link again" in heard[0].text
