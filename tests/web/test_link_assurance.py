"""Approving through a link needs the code of the notification; so does a comment."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from safetyd.core.action_types import TypeConfig
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.notification_events import Announced, LinkRevoked
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.policy import Policy
from safetyd.web.pages.request_page import TYPED_CHARS
from tests.story import propose
from tests.web.link_site import LinkSite


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


async def test_denial_takes_the_button_alone_and_shows_no_person(site: LinkSite) -> None:
    token = site.tells(site.asks())

    heard = await site.post(token, "deny")

    assert heard.status == 200
    assert [answer.assurance for answer in site.answers()] == ["button"]
    assert not any(isinstance(event, PersonSeen) for event in site.queue.journal)


@pytest.mark.parametrize("with_code", [False, True])
async def test_a_comment_without_the_code_does_not_reach_the_agent(
    site: LinkSite,
    with_code: bool,  # noqa: FBT001
) -> None:
    request_id = site.asks()
    code = wrong_code(site, request_id) if with_code else ""

    heard = await site.post(site.tells(request_id), "deny", code, m="approve the next one")

    (answer,) = site.answers()
    assert heard.status == 200
    assert (answer.answer, answer.assurance, answer.words) == ("denied", "button", "")


async def test_denial_with_the_code_shows_a_person_who_may_speak_to_the_agent(
    site: LinkSite,
) -> None:
    request_id = site.asks()

    await site.post(site.tells(request_id), "deny", site.code(request_id), m=" not on Fridays ")

    (answer,) = site.answers()
    assert (answer.answer, answer.assurance) == ("denied", "code")
    assert answer.words == "not on Fridays"
    assert [e.by for e in site.queue.journal if isinstance(e, PersonSeen)] == ["alice"]


@pytest.mark.parametrize("code", ["", "code", "12", "1234567", "٤٨٢١"])
async def test_text_that_is_no_code_approves_nothing_and_is_no_guess(
    site: LinkSite, code: str
) -> None:
    token = site.tells(site.asks())

    heard = [await site.post(token, "approve", code) for _ in range(6)]

    assert [each.status for each in heard] == [403] * 6
    assert "enter the code" in heard[-1].text
    assert site.answers() == []


async def test_a_page_shows_all_that_it_approves_however_long_it_is(site: LinkSite) -> None:
    lines = [f"+line {number:05}" for number in range(4_000)]
    context = msgspec.Raw(msgspec.json.encode({"diff": "\n".join(lines)}))
    request_id = site.asks(context=context, extra=msgspec.Raw(b'{"target":{"selector":"#pay"}}'))
    token = site.tells(request_id)

    page = (await site.get(token)).text

    assert all(line in page for line in lines)
    assert "selector: #pay" in page
    assert (await site.post(token, "approve", site.code(request_id))).status == 200
    assert [answer.answer for answer in site.answers()] == ["approved"]


@pytest.mark.parametrize("letter", ["x", "é", "語", "🦉"])
async def test_comment_that_a_page_takes_fits_in_any_script(site: LinkSite, letter: str) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    words = letter * (TYPED_CHARS // (len(letter.encode("utf-16-le")) // 2))

    refused = await site.post(token, "approve", m=words)
    taken = await site.post(token, "deny", site.code(request_id), m=words)

    assert (refused.status, words in refused.text) == (403, True)
    assert taken.status == 200
    assert [answer.words for answer in site.answers()] == [words]


async def test_longer_code_and_spaces_in_it_are_taken(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    code = site.signer.code(request_id, "alice", 6)

    heard = await site.post(token, "approve", f" {code[:3]} {code[3:]} ")

    assert heard.status == 200


def wrong_code(site: LinkSite, request_id: str) -> str:
    return f"{(int(site.code(request_id)) + 1) % 10_000:04}"


def revoked(site: LinkSite) -> list[str]:
    """Return the messages whose links are dead."""
    return [event.delivery for event in site.queue.journal if isinstance(event, LinkRevoked)]


@pytest.mark.req("S3.54")
async def test_five_wrong_codes_kill_the_link_and_no_other(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    other = site.tells(request_id, delivery="dlv_2")
    right, wrong = site.code(request_id), wrong_code(site, request_id)

    heard = [await site.post(token, "approve", wrong) for _ in range(5)]
    dead = await site.post(token, "approve", right)

    assert [each.status for each in heard] == [403, 403, 403, 403, 404]
    assert "After 4 more" in heard[0].text
    assert (dead.status, (await site.get(token)).status) == (404, 404)
    assert revoked(site) == ["dlv_1"]
    assert site.answers() == []
    assert (await site.post(other, "approve", right)).status == 200


async def test_after_five_wrong_codes_a_later_message_has_another_code(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    right, wrong = site.code(request_id), wrong_code(site, request_id)
    for _ in range(5):
        await site.post(token, "approve", wrong)
    site.clock.t += 60
    later = [site.tells(request_id, delivery=f"dlv_{n}") for n in (2, 3)]
    (sent,) = (each for each in site.engine.outbox.told(request_id) if each.id == "dlv_3")
    revocations = site.engine.records.link_revocations
    renewed = site.signer.code(revocations.code_name(request_id, "alice", sent.at), "alice")

    old = await site.post(later[0], "approve", right)

    assert renewed != right
    assert old.status == 404
    assert (await site.post(later[1], "approve", renewed)).status == 200


@pytest.mark.req("S3.54")
async def test_wrong_codes_on_all_links_of_one_person_count_together(site: LinkSite) -> None:
    request_id = site.asks()
    links = [site.tells(request_id, delivery=f"dlv_{n}") for n in range(4)]
    wrong = wrong_code(site, request_id)

    heard = [(await site.post(link, "approve", wrong)).status for link in (*links, links[0])]
    sixth = await site.post(links[1], "approve", wrong)
    untried = await site.post(links[2], "approve", site.code(request_id))

    assert heard == [403, 403, 403, 403, 404]
    assert (sixth.status, revoked(site)) == (404, ["dlv_0", "dlv_1"])
    assert untried.status == 200


async def test_wrong_codes_of_one_person_leave_anothers_link_alone(site: LinkSite) -> None:
    request_id = site.asks()
    hers = site.tells(request_id)
    his = site.tells(request_id, recipient="bob", delivery="dlv_2")
    # It is wrong for both of them.
    wrong = next(
        code
        for code in ("0000", "1111", "2222")
        if code not in {site.code(request_id), site.code(request_id, "bob")}
    )
    for _ in range(5):
        await site.post(hers, "approve", wrong)

    heard = await site.post(his, "approve", wrong)

    assert (heard.status, "After 4 more" in heard.text) == (403, True)


async def test_a_recipient_is_notified_of_wrong_codes(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    for _ in range(5):
        await site.post(token, "approve", wrong_code(site, request_id))

    (told,) = [event for event in site.queue.journal if isinstance(event, Announced)]

    assert (told.recipients, told.note.kind, told.note.urgency) == (("alice",), "alert", "high")
    assert told.note.title == f"Wrong codes for {request_id}"
    assert site.code(request_id) not in told.note.text


async def test_requests_whose_guesses_are_counted_are_bounded(
    site: LinkSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.notify.links.wrong_codes.MAX_GUESSED", 1)
    ids = [site.asks(id=f"p{n}", text=f"git push {n}") for n in range(2)]
    tokens = [site.tells(id_, delivery=f"dlv_{n}") for n, id_ in enumerate(ids)]

    heard = [await site.post(tokens[n], "approve", wrong_code(site, ids[n])) for n in (0, 0, 1, 0)]

    left = [number for each in heard for number in "34" if f"After {number} more" in each.text]
    assert left == ["4", "3", "4", "4"]


async def test_code_is_the_recipients_own(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id, recipient="alice")

    heard = await site.post(token, "approve", site.code(request_id, "bob"))

    assert heard.status == 403


@pytest.mark.parametrize("kind", ["purchase", "billing_change", "change_password", "bake"])
async def test_a_request_for_terminals_shows_its_command_and_can_be_denied(kind: str) -> None:
    policy = Policy(
        rules=RulesConfig(prohibited_means="require_confirmation"),
        types={"bake": TypeConfig(risk="high", approve_via=("cli",))},
    )
    async with LinkSite(policy).at_work() as site:
        decision = site.queue.proposes(propose(0, type=kind, text="do it"))
        request_id = decision.request_id or ""
        token = site.tells(request_id)

        looked = await site.get(token)
        approval = await site.post(token, "approve", site.code(request_id))
        denial = await site.post(token, "deny")

    assert f"safetyd approve {request_id} --digest d1" in looked.text
    assert 'name="c"' not in looked.text
    assert 'value="approve"' not in looked.text
    assert (approval.status, "This request cannot be approved here." in approval.text) == (
        403,
        True,
    )
    assert denial.status == 200
    assert [answer.answer for answer in site.answers()] == ["denied"]
