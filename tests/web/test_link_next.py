"""The link to the next request of a notification, and pages in a paired browser."""

from collections.abc import AsyncIterator

import pytest

from safetyd.core.action_types import TypeConfig
from safetyd.core.events.notification_events import LinkRevoked
from safetyd.core.policy import Policy
from safetyd.web.forms import COOKIE
from tests.story import at
from tests.web.link_site import Heard, LinkSite

DAY_S = 86_400.0
CODE_FIELD = 'name="c"'


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


def told(site: LinkSite, count: int) -> list[str]:
    """Return the tokens of requests that one message is about."""
    ids = [site.asks(id=f"p{n}", agent=f"agent-{n}", text=f"git push {n}") for n in range(count)]
    site.tells(*ids)
    return [site.signer.token("dlv_1", id_, "alice") for id_ in ids]


def leads_to(heard: Heard, token: str) -> bool:
    return f'href="{token}"' in heard.text


async def look(site: LinkSite, token: str, cookie: str) -> Heard:
    return await site.hears("GET", token, headers={"Cookie": f"{COOKIE}={cookie}"})


async def test_answer_leads_to_the_next_of_the_message_and_says_how_many_follow(
    site: LinkSite,
) -> None:
    tokens = told(site, 3)

    answered = await site.post(tokens[0], "deny")

    assert "Next: agent-1: push (1 more)" in answered.text
    assert leads_to(answered, tokens[1])
    assert not leads_to(answered, tokens[0])


async def test_last_of_a_message_leads_to_the_first_that_waits(site: LinkSite) -> None:
    tokens = told(site, 3)
    await site.post(tokens[0], "deny")

    looked = await site.get(tokens[2])

    assert "Next: agent-1: push</a>" in looked.text
    assert leads_to(looked, tokens[1])


async def test_request_that_is_over_still_leads_to_the_next(site: LinkSite) -> None:
    tokens = told(site, 2)
    await site.post(tokens[0], "deny")

    assert leads_to(await site.get(tokens[0]), tokens[1])


async def test_request_that_nobody_remembers_still_leads_to_the_next(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells("req_000000000000", request_id)

    looked = await site.get(token)

    assert looked.status == 410
    assert leads_to(looked, site.signer.token("dlv_1", request_id, "alice"))


async def test_without_another_that_waits_nothing_comes_next(site: LinkSite) -> None:
    tokens = told(site, 2)
    first, last = await site.post(tokens[0], "deny"), await site.post(tokens[1], "deny")

    assert "Next:" in first.text
    assert "Next:" not in last.text


async def test_the_next_request_is_of_the_same_notification(site: LinkSite) -> None:
    told(site, 1)
    other = site.tells(site.asks(id="p9", agent="other"), delivery="dlv_2")

    assert "Next:" not in (await site.get(other)).text


async def test_link_that_is_dead_comes_neither_next_nor_in_the_list(site: LinkSite) -> None:
    tokens = told(site, 2)
    message = site.engine.outbox.find("dlv_1")
    assert message is not None
    dead = message.items[1].ref
    site.queue.happens(
        LinkRevoked(at=at(0), t=0.0, delivery="dlv_1", request_id=dead, recipient="alice", why="")
    )

    looked = await site.get(tokens[0])
    listed = await site.get(site.signer.token("dlv_1", "", "alice"))

    assert "Next:" not in looked.text
    assert leads_to(listed, tokens[0])
    assert not leads_to(listed, tokens[1])


async def test_old_link_leads_to_no_other_that_is_as_old(site: LinkSite) -> None:
    ids = [site.asks(id=f"p{n}", agent=f"agent-{n}", timeout_s=0.0) for n in range(2)]
    token = site.tells(*ids)
    site.clock.t = 8 * DAY_S

    looked = await site.get(token)

    assert looked.status == 410
    assert "Next:" not in looked.text


@pytest.mark.req("S3.54")
async def test_paired_browser_is_told_so_and_asked_for_no_code(site: LinkSite) -> None:
    token = site.tells(site.asks())
    cookie = site.signer.device("alice", at(site.clock.t))

    paired, other = await look(site, token, cookie), await site.get(token)

    assert "This browser is paired for alice." in paired.text
    assert CODE_FIELD not in paired.text
    assert "sent only with the code" not in paired.text
    assert 'value="approve"' in paired.text
    assert "This browser is paired" not in other.text
    assert CODE_FIELD in other.text


@pytest.mark.parametrize("whose", ["bob", ""])
async def test_browser_that_is_not_paired_for_the_reader_is_asked_for_the_code(
    site: LinkSite, whose: str
) -> None:
    token = site.tells(site.asks())
    cookie = site.signer.device(whose, at(site.clock.t)) if whose else "forged"

    looked = await look(site, token, cookie)

    assert "This browser is paired" not in looked.text
    assert CODE_FIELD in looked.text


async def test_pairing_that_ended_while_the_page_was_open_asks_for_the_code(
    site: LinkSite,
) -> None:
    token = site.tells(site.asks(timeout_s=0.0))
    cookie = site.signer.device("alice", at(site.clock.t - 90 * DAY_S + 5))
    open_page = await look(site, token, cookie)
    site.clock.t += 10

    data = {"v": "approve", "n": open_page.nonce}
    heard = await site.hears("POST", token, data=data, headers={"Cookie": f"{COOKIE}={cookie}"})

    assert CODE_FIELD not in open_page.text
    assert heard.status == 403
    assert CODE_FIELD in heard.text
    assert site.answers() == []


async def test_paired_browser_cannot_approve_what_a_link_cannot() -> None:
    types = {"push": TypeConfig(tier="requires_permission", approve_via=("cli",))}
    async with LinkSite(Policy(types=types)).at_work() as site:
        token = site.tells(site.asks())

        looked = await look(site, token, site.signer.device("alice", at(site.clock.t)))

    assert 'value="approve"' not in looked.text
    assert 'value="approve"' not in looked.text
