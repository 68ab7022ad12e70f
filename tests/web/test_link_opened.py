"""The first view of a page is recorded, unless a program that checks mails made it."""

from collections.abc import AsyncIterator

import pytest

from safetyd.core.events.notification_events import LinkOpened
from safetyd.web import link_pages
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.link_pages import SCANNED
from tests.story import at
from tests.web.link_site import LinkSite

LATER = SCANNED.total_seconds()


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


def arrives(site: LinkSite) -> None:
    """Let the channel accept all messages, and some time pass."""
    for delivery in site.engine.outbox.deliveries():
        delivery.told_at = at(site.clock.t)
    site.clock.t += LATER


def opened(site: LinkSite) -> list[tuple[str, str, tuple[str, ...]]]:
    site.write()
    found = (event for event in site.queue.journal if isinstance(event, LinkOpened))
    return [(event.delivery, event.recipient, event.request_ids) for event in found]


async def test_the_first_view_is_recorded_once_for_a_message(site: LinkSite) -> None:
    one, other = site.asks(id="p1", agent="a"), site.asks(id="p2", agent="b")
    token = site.tells(one, other)
    second = site.signer.token("dlv_1", other, "alice")
    arrives(site)

    for each in (token, token, second):
        await site.get(each)

    assert opened(site) == [("dlv_1", "alice", (one,))]


async def test_a_list_is_opened_with_all_its_requests(site: LinkSite) -> None:
    ids = (site.asks(id="p1", agent="a"), site.asks(id="p2", agent="b"))
    site.tells(*ids)
    arrives(site)

    await site.get(site.signer.token("dlv_1", "", "alice"))

    assert opened(site) == [("dlv_1", "alice", ids)]


async def test_a_view_right_after_the_message_does_not_count(site: LinkSite) -> None:
    token = site.tells(site.asks())
    arrives(site)
    site.clock.t -= 1

    await site.get(token)

    assert opened(site) == []


async def test_a_view_before_the_message_arrived_does_not_count(site: LinkSite) -> None:
    token = site.tells(site.asks())
    site.clock.t += 2 * LATER

    await site.get(token)

    assert opened(site) == []


async def test_old_messages_are_forgotten(site: LinkSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_pages, "MAX_OPENED", 1)
    first = site.tells(site.asks(id="p1"))
    second = site.tells(site.asks(id="p2"), delivery="dlv_2")
    arrives(site)

    for each in (first, second, first):
        await site.get(each)

    assert [delivery for delivery, *_ in opened(site)] == ["dlv_1", "dlv_2", "dlv_1"]


async def test_a_standby_records_nothing() -> None:
    site = LinkSite()
    site.link_pages.gateway = EngineGateway(
        site.mailbox, lambda: "", lambda: False, lambda: "bob decides"
    )
    async with site.at_work():
        token = site.tells(site.asks())
        arrives(site)
        await site.get(token)

        assert opened(site) == []
