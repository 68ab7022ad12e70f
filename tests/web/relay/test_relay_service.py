"""What the daemon accepts from a relay whose owner is an attacker."""

import re
import string
from collections.abc import AsyncIterator
from random import Random

import msgspec
import pytest

from safetyd.agents.sender_accounts import LONGEST_S
from safetyd.bus.question_limits import BOUNDS
from safetyd.cards.similar_requests import set_ref
from safetyd.core.events.notification_events import Announced, LinkRevoked
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES, MAX_TEXT_BYTES
from safetyd.core.sender_limits import AGENT_LIMITS
from safetyd.notify.links.wrong_codes import MAX_WRONG, RELAY_WRONG
from safetyd.web.forms import COOKIE
from safetyd.web.relay.relay_service import ROOM_BYTES
from safetyd.web.throttle import ANSWERS, LOOKS, STRANGERS
from tests.story import at
from tests.web.relay.relayed_links import RelayedLinks, relayed_links

pytestmark = pytest.mark.req("S3.63")

DAY_S = 86_400.0
AT_ONCE = int(AGENT_LIMITS.requests_saved + AGENT_LIMITS.requests_per_s * LONGEST_S)


@pytest.fixture
async def links() -> AsyncIterator[RelayedLinks]:
    async with relayed_links() as links:
        yield links


def wrong(code: str, by: int = 1) -> str:
    return f"{(int(code) + by) % 10**6:06}"


def noise(seed: int) -> str:
    """Return the longest text that does not compress, with characters that HTML escapes."""
    return "".join(Random(seed).choices(string.printable[:94] + "äöü…", k=MAX_TEXT_BYTES))


async def test_all_six_digits_approve_and_the_answer_names_the_relay(links: RelayedLinks) -> None:
    request_id = links.site.asks()
    token = links.site.tells(request_id)

    page = await links.view(token)
    done = await links.answer(token, "approve", links.code(request_id), m="go ahead")

    assert (page.status, 'value="approve"' in page.text, done.status) == (200, True, 200)
    (answer,) = links.site.answers()
    assert (answer.answer, answer.assurance, answer.words) == ("approved", "code", "go ahead")
    assert answer.peer == "relay edge: 192.0.2.7 x"


async def test_an_approval_without_the_whole_code_is_refused(links: RelayedLinks) -> None:
    request_id = links.site.asks()
    token, code = links.site.tells(request_id), links.code(request_id)

    heard = [
        await links.answer(token, "approve", given)
        for given in ("", code[:4], code[:5], wrong(code), f"{code}0", "x" * 6)
    ]

    assert {each.status for each in heard} == {403}
    assert links.site.answers() == []
    # Part of a code is not a guess: it does not bring the link closer to its end.
    assert (await links.answer(token, "approve", code)).status == 200


async def test_no_pairing_counts_and_none_is_made(links: RelayedLinks) -> None:
    site = links.site
    token, now = site.tells(site.asks()), at(site.clock.t)
    cookie = site.signer.device("alice", now)
    pairing = site.signer.pairing("alice", now)
    nonce = site.signer.nonce(pairing.encode(), now)

    heard = await links.answer(token, "approve", "", cookie=cookie, **{COOKIE: cookie})
    asked = await links.asks(
        do="answer", token=token, fields={"v": "approve", "n": site.nonce(token)}, cookie=cookie
    )
    pair = await links.asks(do="answer", token=pairing, fields={"v": "pair", "n": nonce})

    assert (heard.status, asked.status, site.answers()) == (403, 403, [])
    assert (pair.code, (await links.view(pairing)).code) == ("unknown", "unknown")
    assert "paired" not in (await links.view(token)).text.lower()


async def test_a_denial_uses_no_code_so_nobody_needs_to_type_one(links: RelayedLinks) -> None:
    request_id = links.site.asks()
    token = links.site.tells(request_id)

    heard = await links.answer(token, "deny", links.code(request_id), m="words of a relay")

    assert heard.status == 200
    (answer,) = links.site.answers()
    assert (answer.answer, answer.assurance, answer.words) == ("denied", "button", "")


async def test_a_code_is_good_for_its_request_and_recipient_only(links: RelayedLinks) -> None:
    site = links.site
    first, second = (site.asks(id=f"p{n}", text=f"git push {n}") for n in range(2))
    token = site.tells(first, second)
    other = site.signer.token("dlv_1", second, "alice")
    bob = site.tells(first, recipient="bob", delivery="dlv_2")
    everything = site.signer.token("dlv_1", "", "alice")
    code = links.code(first)

    heard = [await links.answer(each, "approve", code) for each in (other, bob, everything)]
    used = await links.answer(token, "approve", code)
    replayed = [await links.answer(each, "approve", code) for each in (token, other)]

    assert 200 not in {each.status for each in heard[:2]}
    assert (used.status, replayed[1].status) == (200, 403)
    assert [answer.request_id for answer in site.answers()] == [first]


async def test_an_answer_needs_a_fresh_form_of_the_same_link(links: RelayedLinks) -> None:
    site = links.site
    request_id = site.asks()
    token = site.tells(request_id)
    other = site.tells(request_id, delivery="dlv_2")
    old = site.nonce(token)
    forged = ["", "9999999999.AAAAAAAAAAAAAAAAAAAAAA", site.nonce(other)]

    heard = [await links.answer(token, "approve", links.code(request_id), n=n) for n in forged]
    site.clock.t += 600
    late = await links.answer(token, "deny", n=old)

    assert [each.status for each in (*heard, late)] == [403] * 4
    assert site.answers() == []


async def test_guesses_on_many_requests_close_the_relay_even_for_correct_codes(
    links: RelayedLinks,
) -> None:
    site = links.site
    asked = {"timeout_s": 3 * DAY_S}
    ids = [site.asks(id=f"p{n}", text=f"git push {n}", **asked) for n in range(RELAY_WRONG + 1)]
    tokens = [site.tells(id_, delivery=f"dlv_{id_}") for id_ in ids]

    for id_, token in zip(ids[:RELAY_WRONG], tokens, strict=False):
        assert (await links.answer(token, "approve", wrong(links.code(id_)))).status == 403
    last, code = tokens[-1], links.code(ids[-1])
    closed = await links.answer(last, "approve", code)
    denied = await links.answer(tokens[0], "deny")
    by_another = await links.answer(last, "approve", code, relay="other")

    assert (closed.status, denied.status, by_another.status) == (403, 200, 200)
    (alert,) = [event.note for event in site.queue.journal if isinstance(event, Announced)]
    assert (alert.kind, alert.urgency, "edge" in alert.title) == ("alert", "high", True)
    # A day later the relay may be used again.
    site.clock.t += DAY_S
    assert (await links.answer(tokens[1], "approve", links.code(ids[1]))).status == 200


async def test_guesses_on_one_request_end_its_link_everywhere(links: RelayedLinks) -> None:
    site = links.site
    request_id = site.asks()
    token, code = site.tells(request_id), links.code(request_id)

    heard = [await links.answer(token, "approve", wrong(code, n + 1)) for n in range(MAX_WRONG)]

    assert heard[-1].code == "unknown"
    assert (await links.answer(token, "approve", code)).code == "unknown"
    assert (await site.post(token, "approve", code)).status == 404
    assert [type(event) for event in site.queue.journal if isinstance(event, LinkRevoked)]


async def test_tokens_that_were_never_sent_open_nothing_and_are_limited(
    links: RelayedLinks,
) -> None:
    site = links.site
    request_id = site.asks()
    token = site.tells(request_id)
    forged = [
        site.signer.token("dlv_9", request_id, "alice"),
        site.signer.token("dlv_1", "req_of_another", "alice"),
        *(token[:-1], f"{token}A", "1a", "", "x" * 5000, "\u202e"),
        *(f"1a{n:043}" for n in range(STRANGERS)),
    ]

    heard = [await links.view(each) for each in forged]

    assert [each.code for each in heard[:STRANGERS]] == ["unknown"] * STRANGERS
    assert {each.code for each in heard[STRANGERS:]} == {"too_often"}
    # Guesses through one relay do not shut out links that exist, nor other relays.
    assert (await links.view(token)).status == 200
    assert (await links.view("x", relay="other")).code == "unknown"


async def test_views_and_answers_of_one_link_are_limited(links: RelayedLinks) -> None:
    site = links.site
    token, answered = site.tells(site.asks()), site.tells(site.asks(id="p2"), delivery="dlv_2")

    seen = [(await links.view(token)).code for _ in range(LOOKS + 1)]
    said = [(await links.answer(answered, "approve")).code for _ in range(ANSWERS + 1)]

    assert (seen[-2:], said[-2:]) == (["", "too_often"], ["", "too_often"])


async def test_a_relay_that_floods_gets_no_more_answers(links: RelayedLinks) -> None:
    ping = msgspec.json.encode({"do": "ping"})
    for _ in range(AT_ONCE + int(BOUNDS.flood) + 10):
        links.send(ping)
    answers = len(links.answers())

    links.send(ping)

    assert links.answers() == []
    assert AT_ONCE < answers <= AT_ONCE + BOUNDS.flood + 1
    assert (await links.asks("other", do="ping")).code == ""


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"do":"stop"}',
        b'{"do":"view"}',
        b'{"do":"view","token":1}',
        b'{"do":"answer","token":"1a","fields":{"v":["approve"]}}',
        b'{"do":"view","token":"' + b"x" * 20_000 + b'"}',
        b"[" * 10_000,
    ],
)
async def test_malformed_messages_are_refused(links: RelayedLinks, payload: bytes) -> None:
    links.send(payload)

    assert (await links.heard()).code == "malformed"


async def test_a_relay_without_a_key_is_refused(links: RelayedLinks) -> None:
    token = links.site.tells(links.site.asks())

    assert (await links.view(token, relay="stranger")).code == "no_key"


async def test_a_relay_learns_why_no_answer_can_be_recorded(links: RelayedLinks) -> None:
    token = links.site.tells(links.site.asks())
    links.site.problem = "the disk is full"

    assert (await links.asks(do="ping")).code == "the disk is full"
    assert (await links.view(token)).code == "unavailable"
    assert (await links.answer(token, "deny")).code == "unavailable"


async def test_the_longest_request_is_shown_whole(links: RelayedLinks) -> None:
    more = {f"field{n}": noise(n) for n in range(MAX_MESSAGE_BYTES // MAX_TEXT_BYTES - 1)}
    token = links.site.tells(links.site.asks(text=noise(-1), context=more))

    page = await links.view(token)

    assert (page.status, page.code) == (200, "")
    assert all(name in page.text for name in more)


async def test_a_page_that_does_not_fit_into_a_message_says_so(
    links: RelayedLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = links.site.tells(links.site.asks(text=noise(0)))
    monkeypatch.setattr(
        "safetyd.web.relay.relay_service.MAX_ANSWER_BYTES", ROOM_BYTES + MAX_TEXT_BYTES
    )

    page = await links.view(token)

    assert (page.status, 'value="approve"' in page.text) == (507, False)


async def test_the_link_of_a_test_message_works(links: RelayedLinks) -> None:
    site = links.site
    token = site.tells("test_1", kind="test")

    assert (await links.answer(token, "test")).status == 200
    assert [delivery for delivery, _ in site.used] == ["dlv_1"]


async def test_a_failing_page_is_an_error_of_its_own(
    links: RelayedLinks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    token = links.site.tells(links.site.asks())
    monkeypatch.setattr("safetyd.web.relay.relay_service.MAX_ANSWER_BYTES", None)

    heard = await links.view(token)

    assert heard.code == "internal"
    assert token not in caplog.text


async def test_a_relay_shows_a_set_and_approves_it_only_with_all_digits_of_its_code(
    links: RelayedLinks,
) -> None:
    site = links.site
    ids = [
        site.asks(id=f"n{n}", type="run_shell", text=f"kubectl drain node-{n}") for n in range(3)
    ]
    requests = [site.queue.request(id_) for id_ in ids]
    site.tells(*ids)
    token = site.signer.token("dlv_1", set_ref(requests), "alice")
    page = await links.view(token)
    found = re.search(r'name="n" value="([^"]*)"', page.text)
    nonce, code = found[1] if found else "", links.code(set_ref(requests))

    heard = [
        await links.answer(token, "approve", given, n=nonce)
        for given in ("", code[:4], wrong(code), links.code(ids[0]))
    ]
    answered = len(site.answers())
    one = await links.answer(token, "approve-2", code, n=nonce)
    stale = await links.answer(token, "approve", code, n=nonce)
    again = re.search(r'name="n" value="([^"]*)"', stale.text)
    rest = await links.answer(token, "approve", code, n=again[1] if again else "")

    assert [each.status for each in heard] == [403] * 4
    assert answered == 0
    assert (one.status, stale.status, rest.status) == (200, 403, 200)
    assert [a.request_id for a in site.answers()] == [ids[1], ids[0], ids[2]]
    assert {a.assurance for a in site.answers()} == {"code"}
