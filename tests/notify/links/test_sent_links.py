from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Due, Item, LinkRevoked
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.policy import Policy
from safetyd.core.recipients import Recipient, TellingConfig
from safetyd.notify.links.sent_links import SentLink, SentLinks
from safetyd.notify.links.tokens import Signer
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, tick
from tests.web.link_site import KEY, SentBox, sent

NEWER = msgspec.structs.replace(KEY, kid="b", secret=bytes(32), created=at(86_400))


def message(number: int, *refs: str, recipient: str = "alice") -> Delivery:
    items = tuple(Item("request", ref) for ref in refs)
    return sent(f"dlv_{number}", recipient, "email", items, number)


class Links:
    """The links that were sent, and what was sent."""

    def __init__(self, *messages: Delivery) -> None:
        self.sent = SentBox()
        self.signer = Signer([KEY])
        self.sent_links = SentLinks(self.signer, lambda: self.sent)
        for each in messages:
            self.sends(each)

    def sends(self, each: Delivery) -> None:
        self.sent.messages[each.id] = each
        self.sent_links.note(each)

    def opens(self, delivery: str, request_id: str, recipient: str = "alice") -> SentLink | None:
        return self.sent_links.find(self.signer.token_id(delivery, request_id, recipient))


def test_token_leads_to_its_message_request_and_reader() -> None:
    links = Links(message(1, "req_1", "req_2"), message(2, "req_1", recipient="bob"))

    link = links.opens("dlv_1", "req_2")

    assert link == SentLink("dlv_1", "req_2", "alice", "email", at(1), ("req_1", "req_2"))
    assert link.via == "link:email"
    assert links.opens("dlv_2", "req_1", "bob") is not None


def test_list_of_a_message_has_each_request_once_and_no_notes() -> None:
    items = (Item("alert", "note_1"), Item("request", "req_1"), Item("reminder", "req_1", 2))
    links = Links(sent("dlv_1", "alice", "email", items, 0))

    listed = links.opens("dlv_1", "")

    assert listed is not None
    assert listed.listed == ("req_1",)
    assert links.opens("dlv_1", "note_1") is None


def test_link_of_a_test_is_known_as_one_and_not_listed() -> None:
    links = Links(sent("dlv_1", "alice", "email", (Item("test", "note_1"),), 0))

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
    links = Links(message(1, "req_1"))

    assert links.opens(delivery, request_id, recipient) is None


def test_link_lives_for_a_week_and_a_list_for_a_day() -> None:
    links = Links(message(1, "req_1"))

    link, listed = links.opens("dlv_1", "req_1"), links.opens("dlv_1", "")

    assert link is not None
    assert listed is not None
    assert link.expires == at(1) + timedelta(days=7)
    assert listed.expires == at(1) + timedelta(days=1)


def test_message_that_the_outbox_forgot_opens_nothing() -> None:
    links = Links(message(1, "req_1"))
    del links.sent.messages["dlv_1"]

    assert links.opens("dlv_1", "req_1") is None


def test_links_of_an_old_key_open_once_the_book_is_made_anew() -> None:
    links = Links(message(1, "req_1"))
    old = links.signer.token("dlv_1", "req_1", "alice")

    links.signer.take_on([msgspec.structs.replace(KEY, state="verify"), NEWER])
    links.sent_links.rebuild(links.sent.messages.values())

    new = links.signer.token("dlv_1", "req_1", "alice")
    found = [links.sent_links.find(links.signer.check(token) or b"") for token in (old, new)]
    assert found[0] == found[1] is not None
    assert len(links.sent_links) == 2


def test_book_is_bounded_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.notify.links.sent_links.MAX_NOTED", 2)
    messages = [message(n, "req_1") for n in (1, 2, 3)]
    links = Links(*messages)
    noted = [links.opens(f"dlv_{n}", "req_1") is not None for n in (1, 2, 3)]

    links.sent_links.rebuild(reversed(messages))

    assert noted == [False, True, True]
    assert [links.opens(f"dlv_{n}", "req_1") is not None for n in (1, 2, 3)] == noted


Hear = Callable[[Event], None]


def stand_in() -> tuple[SentBox, Hear, str, str]:
    box = SentBox()
    box.messages["dlv_1"] = message(1, "req_1")
    return box, box.hear, "dlv_1", "req_1"


def real() -> tuple[Engine, Hear, str, str]:
    alice = Recipient(name="alice", channels=("email",))
    telling = TellingConfig(recipients=(alice,), channels={"email": "email"})
    queue = QueueStory(Policy(telling=telling))
    request_id = queue.asks(0).request_id or ""
    (due,) = [event for event in queue.happens(tick(61)) if isinstance(event, Due)]

    def hear(event: Event) -> None:
        queue.happens(event)

    return queue.engine, hear, due.delivery, request_id


@pytest.mark.parametrize("make", [stand_in, real])
def test_link_that_the_outbox_calls_revoked_is_dead_and_its_list_is_not(
    make: Callable[[], tuple[Engine | SentBox, Hear, str, str]],
) -> None:
    sent, hear, delivery, request_id = make()
    signer = Signer([KEY])
    sent_links = SentLinks(signer, lambda: sent.outbox if isinstance(sent, Engine) else sent)
    found = (sent.outbox if isinstance(sent, Engine) else sent).find(delivery)
    assert found is not None
    sent_links.note(found)
    token_id = signer.token_id(delivery, request_id, "alice")
    before = sent_links.find(token_id)

    hear(
        LinkRevoked(
            at=at(70), t=70.0, delivery=delivery, request_id=request_id, recipient="alice", why="x"
        )
    )

    assert before is not None
    assert (before.request_id, before.channel) == (request_id, "email")
    assert sent_links.find(token_id) is None
    assert sent_links.find(signer.token_id(delivery, "", "alice")) is not None
