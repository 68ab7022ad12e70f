from datetime import timedelta

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.notification_events import Item, LinkRevoked
from safetyd.core.policy import Policy
from safetyd.notify.links.sent_links import SentLink, SentLinks
from safetyd.notify.links.tokens import Signer
from tests.story import at
from tests.web.link_site import KEY, send

NEWER = msgspec.structs.replace(KEY, kid="b", secret=bytes(32), created=at(86_400))


class Links:
    """The links that were sent, and what was sent."""

    def __init__(self, *refs: str) -> None:
        self.engine = Engine(Policy())
        self.signer = Signer([KEY])
        self.sent_links = SentLinks(self.signer)
        if refs:
            self.sends(1, *refs)

    def sends(self, number: int, *refs: str, recipient: str = "alice") -> None:
        self.sends_items(number, *(Item("request", ref) for ref in refs), recipient=recipient)

    def sends_items(self, number: int, *items: Item, recipient: str = "alice") -> None:
        send(self.engine, f"dlv_{number}", recipient, "email", items, number)
        self.sent_links.note(f"dlv_{number}", recipient)

    def opens(self, delivery: str, request_id: str, recipient: str = "alice") -> SentLink | None:
        return self.finds(self.signer.token_id(delivery, request_id, recipient))

    def finds(self, token_id: bytes) -> SentLink | None:
        return self.sent_links.find(self.engine, token_id)


def test_token_leads_to_its_message_request_and_reader() -> None:
    links = Links("req_1", "req_2")
    links.sends(2, "req_1", recipient="bob")

    link = links.opens("dlv_1", "req_2")

    assert link == SentLink("dlv_1", "req_2", "alice", "email", at(1), ("req_1", "req_2"))
    assert link.via == "link:email"
    assert links.opens("dlv_2", "req_1", "bob") is not None


def test_list_of_a_message_has_each_request_once_and_no_notes() -> None:
    items = (Item("alert", "note_1"), Item("request", "req_1"), Item("reminder", "req_1", 2))
    links = Links()
    links.sends_items(1, *items)

    listed = links.opens("dlv_1", "")

    assert listed is not None
    assert listed.listed == ("req_1",)
    assert links.opens("dlv_1", "note_1") is None


def test_link_of_a_test_is_known_as_one_and_not_listed() -> None:
    links = Links()
    links.sends_items(1, Item("test", "note_1"))

    tried, listed = links.opens("dlv_1", "note_1"), links.opens("dlv_1", "")

    assert tried is not None
    assert listed is not None
    assert (tried.test, listed.test, tried.listed) == (True, False, ())


@pytest.mark.parametrize(
    ("delivery", "request_id", "recipient"),
    [
        ("dlv_9", "req_1", "alice"),
        ("dlv_1", "req_9", "alice"),
        ("dlv_1", "req_1", "bob"),
    ],
)
def test_what_no_message_was_about_opens_nothing(
    delivery: str, request_id: str, recipient: str
) -> None:
    links = Links("req_1")

    assert links.opens(delivery, request_id, recipient) is None


def test_link_lives_for_a_week_and_a_list_for_a_day() -> None:
    links = Links("req_1")

    link, listed = links.opens("dlv_1", "req_1"), links.opens("dlv_1", "")

    assert link is not None
    assert listed is not None
    assert link.expires == at(1) + timedelta(days=7)
    assert listed.expires == at(1) + timedelta(days=1)


def test_message_that_the_outbox_forgot_opens_nothing() -> None:
    links = Links()
    links.sent_links.note("dlv_1", "alice")

    assert links.opens("dlv_1", "req_1") is None


def test_links_of_an_old_key_open_once_the_book_is_made_anew() -> None:
    links = Links("req_1")
    old = links.signer.token("dlv_1", "req_1", "alice")

    links.signer.take_on([msgspec.structs.replace(KEY, state="verify"), NEWER])
    links.sent_links.rebuild(links.engine.outbox.deliveries())

    new = links.signer.token("dlv_1", "req_1", "alice")
    found = [links.finds(links.signer.check(token) or b"") for token in (old, new)]
    assert found[0] == found[1] is not None
    assert len(links.sent_links) == 2


def test_book_is_bounded_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.notify.links.sent_links.MAX_NOTED", 2)
    links = Links()
    for n in (1, 2, 3):
        links.sends(n, "req_1")
    noted = [links.opens(f"dlv_{n}", "req_1") is not None for n in (1, 2, 3)]

    links.sent_links.rebuild(links.engine.outbox.deliveries())

    assert noted == [False, True, True]
    assert [links.opens(f"dlv_{n}", "req_1") is not None for n in (1, 2, 3)] == noted


def test_link_that_the_outbox_calls_revoked_is_dead_and_its_list_is_not() -> None:
    links = Links("req_1")
    before = links.opens("dlv_1", "req_1")

    links.engine.handle(
        LinkRevoked(
            at=at(70), t=70.0, delivery="dlv_1", request_id="req_1", recipient="alice", why="x"
        )
    )

    assert before is not None
    assert (before.request_id, before.channel) == ("req_1", "email")
    assert links.opens("dlv_1", "req_1") is None
    assert links.opens("dlv_1", "") is not None
