"""One link and one code for a set of similar requests."""

import re
from collections.abc import AsyncIterator, Sequence

import pytest

from safetyd.cards.similar_requests import set_ref
from safetyd.core.approvals.request import Request
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.notification_events import Announced, LinkRevoked
from safetyd.core.events.request_events import Superseded
from tests.story import at, stop
from tests.web.link_site import LinkSite


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


def drains(site: LinkSite, count: int = 20, first: int = 1, **fields: object) -> list[Request]:
    """Let an agent ask to drain so many nodes."""
    numbers = range(first, first + count)
    ids = [
        site.asks(id=f"n{n}", type="run_shell", text=f"kubectl drain node-{n:02}", **fields)
        for n in numbers
    ]
    return [site.queue.request(id_) for id_ in ids]


def sends(site: LinkSite, requests: Sequence[Request], delivery: str = "dlv_1") -> str:
    """Send a message about requests, and return the token of their set."""
    site.tells(*(request.id for request in requests), delivery=delivery)
    return site.signer.token(delivery, set_ref(requests), "alice")


def code(site: LinkSite, requests: Sequence[Request]) -> str:
    return site.signer.code(set_ref(requests), "alice")


async def answers(site: LinkSite, token: str, value: str, code: str = "", nonce: str = "") -> int:
    """Answer with the nonce of the page, as a browser does."""
    nonce = nonce or (await site.get(token)).nonce
    heard = await site.hears("POST", token, data={"v": value, "n": nonce, "c": code})
    return heard.status


@pytest.mark.req("S3.54")
async def test_the_page_shows_what_is_common_once_and_each_difference(site: LinkSite) -> None:
    token = sends(site, drains(site))

    heard = await site.get(token)

    assert heard.status == 200
    assert "20 requests: run_shell by code" in heard.text
    assert "kubectl drain [..]" in heard.text
    for number in range(1, 21):
        assert heard.text.count(f"node-{number:02}") == 1
    assert "Approve all 20" in heard.text


async def test_one_code_approves_all_that_were_shown_each_with_its_own_event(
    site: LinkSite,
) -> None:
    requests = drains(site)
    token = sends(site, requests)
    (later,) = drains(site, 1, first=21)

    status = await answers(site, token, "approve", code(site, requests))

    assert status == 200
    assert [answer.request_id for answer in site.answers()] == [r.id for r in requests]
    assert {answer.assurance for answer in site.answers()} == {"code"}
    assert site.queue.request(later.id).pending
    assert len([e for e in site.queue.journal if isinstance(e, PersonSeen)]) == 1


async def test_a_denial_of_all_needs_no_code(site: LinkSite) -> None:
    requests = drains(site, 3)

    status = await answers(site, sends(site, requests), "deny")

    assert status == 200
    assert [(a.answer, a.assurance) for a in site.answers()] == [("denied", "button")] * 3


@pytest.mark.parametrize("given", ["", "000000"])
async def test_without_the_code_nothing_is_approved(site: LinkSite, given: str) -> None:
    token = sends(site, drains(site, 3))

    assert await answers(site, token, "approve", given) == 403
    assert site.answers() == []


async def test_the_code_of_one_request_does_not_approve_its_set(site: LinkSite) -> None:
    requests = drains(site, 3)

    status = await answers(site, sends(site, requests), "approve", site.code(requests[0].id))

    assert status == 403
    assert site.answers() == []


async def test_the_code_of_a_set_does_not_approve_another_set_or_a_single_request(
    site: LinkSite,
) -> None:
    first, second = drains(site, 3), drains(site, 3, first=11)
    sends(site, first)
    token = sends(site, second, "dlv_2")
    single = site.signer.token("dlv_2", second[0].id, "alice")

    assert await answers(site, token, "approve", code(site, first)) == 403
    assert await answers(site, single, "approve", code(site, second)) == 403
    assert site.answers() == []


async def test_the_code_of_a_smaller_set_does_not_approve_a_larger_one(site: LinkSite) -> None:
    requests = drains(site, 3)
    sends(site, requests[:2])
    token = sends(site, requests, "dlv_2")

    assert await answers(site, token, "approve", code(site, requests[:2])) == 403
    assert site.answers() == []


async def test_one_request_of_the_set_can_be_answered_alone(site: LinkSite) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)

    assert await answers(site, token, "approve-2", code(site, requests)) == 200
    assert await answers(site, token, "deny-1") == 200
    assert await answers(site, token, "approve", code(site, requests)) == 200

    said = [(answer.request_id, answer.answer) for answer in site.answers()]
    assert said == [
        (requests[1].id, "approved"),
        (requests[0].id, "denied"),
        (requests[2].id, "approved"),
    ]


async def test_each_whole_request_can_be_reached(site: LinkSite) -> None:
    requests = drains(site, 3)
    page = await site.get(sends(site, requests))

    links = re.findall(r'<a href="([^"]+)">Show the whole request', page.text)
    shown = [(await site.get(link)).text for link in links]

    assert len(links) == 3
    for text, number in zip(shown, (1, 2, 3), strict=True):
        assert f"kubectl drain node-0{number}" in text


async def test_if_one_has_ended_nothing_is_recorded_until_the_page_showed_the_rest(
    site: LinkSite,
) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    page = await site.get(token)
    site.queue.answers(site.clock.t, requests[0].id, "denied")
    before = len(site.answers())

    data = {"v": "approve", "n": page.nonce, "c": code(site, requests)}
    heard = await site.hears("POST", token, data=data)

    assert heard.status == 403
    assert "Some of these requests have ended" in heard.text
    assert "An answer applies only to the 2 below" in heard.text
    assert len(site.answers()) == before
    assert await answers(site, token, "approve", code(site, requests), heard.nonce) == 200
    assert [a.request_id for a in site.answers()[before:]] == [r.id for r in requests[1:]]


async def test_a_request_that_its_agent_changed_is_not_approved(site: LinkSite) -> None:
    """A changed request is a new one, which the page of the old message does not answer."""
    requests = drains(site, 3)
    token = sends(site, requests)
    page = await site.get(token)
    (new,) = drains(site, 1, first=4, supersedes="n1")
    old = site.queue.request(requests[0].id)
    assert old.state == "superseded" or site.queue.happens(
        Superseded(at=at(11), t=11.0, request_id=old.id, agent="code", by_id="n4")
    )

    data = {"v": "approve", "n": page.nonce, "c": code(site, requests)}
    heard = await site.hears("POST", token, data=data)

    assert heard.status == 403
    assert site.answers() == []
    assert await answers(site, token, "approve", code(site, requests), heard.nonce) == 200
    assert new.id not in [answer.request_id for answer in site.answers()]
    assert requests[0].id not in [answer.request_id for answer in site.answers()]


async def test_a_form_that_is_sent_again_records_nothing(site: LinkSite) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    data = {"v": "approve", "n": (await site.get(token)).nonce, "c": code(site, requests)}

    heard = [(await site.hears("POST", token, data=data)).status for _ in range(2)]

    assert heard == [200, 409]
    assert len(site.answers()) == 3


async def test_a_nonce_of_a_single_request_does_not_fit_the_page_of_its_set(
    site: LinkSite,
) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    single = site.signer.token("dlv_1", requests[0].id, "alice")
    nonces = site.nonce(token), (await site.get(single)).nonce

    for nonce in nonces:
        assert await answers(site, token, "approve", code(site, requests), nonce) == 403
    assert site.answers() == []


async def test_one_request_with_another_option_is_not_in_the_set(site: LinkSite) -> None:
    requests = drains(site, 20)
    forced = site.queue.request(
        site.asks(id="f", type="run_shell", text="kubectl drain node-21 --force")
    )
    site.tells(*(request.id for request in [*requests, forced]))
    token = site.signer.token("dlv_1", set_ref(requests), "alice")
    both = site.signer.token("dlv_1", set_ref([*requests, forced]), "alice")

    assert (await site.get(both)).status == 404
    assert "--force" not in (await site.get(token)).text
    assert await answers(site, token, "approve", code(site, requests)) == 200
    assert site.queue.request(forced.id).pending
    assert len(site.answers()) == 20


async def test_five_wrong_codes_end_the_link_of_a_set_and_its_next_message_has_a_new_code(
    site: LinkSite,
) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    wrong = f"{(int(code(site, requests)) + 1) % 10_000:04}"

    statuses = [await answers(site, token, "approve", wrong) for _ in range(5)]

    assert statuses == [403] * 4 + [404]
    (revoked,) = [e for e in site.queue.journal if isinstance(e, LinkRevoked)]
    assert revoked.request_id == set_ref(requests)
    (alert,) = [e for e in site.queue.journal if isinstance(e, Announced)]
    assert alert.note.title == "Wrong codes for 3 similar requests of code"
    assert (await site.get(token)).status == 404
    site.clock.t += 60
    again = sends(site, requests, "dlv_2")
    named = f"{set_ref(requests)} 1"
    assert await answers(site, again, "approve", site.signer.code(named, "alice")) == 200


async def test_wrong_codes_for_single_answers_count_for_the_set(site: LinkSite) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    wrong = f"{(int(code(site, requests)) + 1) % 10_000:04}"

    for number in (1, 2, 3, 1):
        assert await answers(site, token, f"approve-{number}", wrong) == 403
    assert await answers(site, token, "approve", wrong) == 404


async def test_a_paired_browser_needs_no_code(site: LinkSite) -> None:
    token = sends(site, drains(site, 3))
    cookie = site.signer.device("alice", at(site.clock.t))
    nonce = (await site.get(token)).nonce

    heard = await site.hears(
        "POST",
        token,
        data={"v": "approve", "n": nonce},
        headers={"Cookie": f"__Host-safetyd-device={cookie}"},
    )

    assert heard.status == 200
    assert {answer.assurance for answer in site.answers()} == {"device"}


async def test_a_set_of_terminal_only_requests_can_only_be_denied(site: LinkSite) -> None:
    ids = [site.asks(id=f"p{n}", type="modify_permissions", text=f"grant role-{n}") for n in (1, 2)]
    requests = [site.queue.request(id_) for id_ in ids]
    token = sends(site, requests)

    page = await site.get(token)

    assert "Here you can only deny these requests" in page.text
    assert await answers(site, token, "approve", code(site, requests)) == 403
    assert await answers(site, token, "deny") == 200


async def test_when_all_have_ended_the_page_says_how(site: LinkSite) -> None:
    requests = drains(site, 2)
    token = sends(site, requests)
    for request in requests:
        site.queue.answers(site.clock.t, request.id, "approved")

    heard = await site.get(token)

    assert heard.status == 200
    assert "These requests have ended" in heard.text
    assert "Approved by alice" in heard.text
    assert await answers(site, token, "deny", nonce="1.x") == 409


@pytest.mark.parametrize("value", ["approve-0", "approve-x", "approve--1", "approve-100", "no-1"])
async def test_a_form_that_names_no_request_is_malformed(site: LinkSite, value: str) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)

    assert await answers(site, token, value, code(site, requests)) == 400
    assert site.answers() == []


async def test_a_form_that_names_a_missing_request_records_nothing(site: LinkSite) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    single = site.signer.token("dlv_1", requests[0].id, "alice")

    assert await answers(site, token, "approve-4", code(site, requests)) == 400
    assert await answers(site, single, "approve-1", site.code(requests[0].id)) == 400
    assert site.answers() == []


def button(site: LinkSite, token: str, shown: str, value: str, code: str = "") -> dict[str, str]:
    """Return the form of a button in a message with this link, which showed these requests."""
    token_id = site.signer.check(token)
    assert token_id is not None
    said = {"approve": "approved", "deny": "denied"}[value]
    return {"v": value, "n": site.signer.button(token_id, said, shown), "c": code}


async def test_a_button_answers_the_set_that_its_message_showed(site: LinkSite) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    form = button(site, token, set_ref(requests), "approve", code(site, requests))

    refused = await site.hears("POST", token, data={**form, "c": ""})
    heard = [(await site.hears("POST", token, data=form)).status for _ in range(2)]

    assert (refused.status, heard) == (403, [200, 409])
    assert len(site.answers()) == 3


async def test_a_button_of_a_message_whose_set_has_changed_records_nothing(
    site: LinkSite,
) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    form = button(site, token, set_ref(requests), "approve", code(site, requests))
    site.queue.answers(site.clock.t, requests[0].id, "denied")
    before = len(site.answers())

    heard = await site.hears("POST", token, data=form)

    assert heard.status == 403
    assert "Some of these requests have ended" in heard.text
    assert len(site.answers()) == before


async def test_a_button_of_a_set_answers_no_single_request(site: LinkSite) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    form = button(site, token, set_ref(requests), "approve", code(site, requests))

    heard = await site.hears("POST", token, data={**form, "v": "approve-1"})

    assert heard.status == 403
    assert site.answers() == []


async def test_the_last_request_of_a_set_can_be_answered_with_its_code(site: LinkSite) -> None:
    requests = drains(site, 3)
    token = sends(site, requests)
    for request in requests[:2]:
        site.queue.answers(site.clock.t, request.id, "denied")
    before = len(site.answers())

    page = await site.get(token)
    status = await answers(site, token, "approve", code(site, requests), page.nonce)

    assert "applies only to the one below" in page.text
    assert (status, [a.request_id for a in site.answers()[before:]]) == (200, [requests[2].id])


async def test_an_expired_link_of_a_set_says_so(site: LinkSite) -> None:
    requests = drains(site, 2)
    token = sends(site, requests)
    nonce = (await site.get(token)).nonce
    site.clock.t += 8 * 86_400.0

    assert (await site.get(token)).status == 410
    assert await answers(site, token, "approve", code(site, requests), nonce) == 410


async def test_an_approval_that_is_held_says_until_when(site: LinkSite) -> None:
    requests = drains(site, 2)
    token = sends(site, requests)
    site.queue.happens(stop(11))
    page = await site.get(token)

    data = {"v": "approve", "n": page.nonce, "c": code(site, requests)}
    heard = await site.hears("POST", token, data=data)

    assert "takes effect only after this ends" in page.text
    assert "Approved: 2 requests" in heard.text


async def test_requests_of_two_agents_or_without_a_key_are_no_set(site: LinkSite) -> None:
    (mine,), (other,) = drains(site, 1), drains(site, 1, first=2, agent="other")
    (anonymous,) = drains(site, 1, first=3, keyless=True)
    site.tells(mine.id, other.id, anonymous.id)

    for requests in ((mine, other), (mine, anonymous), (mine, other, anonymous)):
        token = site.signer.token("dlv_1", set_ref(requests), "alice")
        assert (await site.get(token)).status == 404
