"""Messages put into words, of a real engine's requests and notes."""

from socket import gethostname
from typing import Any

import msgspec
import pytest

from safetyd.cards.note_cards import AlertCard, SingleCard, SummaryCard
from safetyd.cards.request_card import RequestCard
from safetyd.core.action_types import TypeConfig
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.notification_events import (
    Item,
    NoteSheet,
    NotTold,
    SheetRule,
    SheetSection,
)
from safetyd.core.messages.proposal import Target
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours
from safetyd.notify.compose import SHEET_CHARS, Composer, Destination
from safetyd.notify.desktop.desktop_content import rendered
from safetyd.notify.sms.sms_text import text_of
from tests.notify.compose_rig import ComposeRig, box, telling
from tests.notify.message_samples import HOSTILE
from tests.story import at, propose

NIGHT = 11 * 3600.0  # after noon


def only(wired: ComposeRig, delivery: Delivery) -> RequestCard:
    (found,) = wired.says(delivery).cards
    assert isinstance(found, RequestCard)
    return found


@pytest.mark.req("S3.30")
def test_a_request_is_told_with_its_card_and_the_ways_to_answer() -> None:
    wired = ComposeRig()
    delivery = wired.due(remote="origin", session="s-1", cost_usd=0.4, timeout_s=3600)

    notice = wired.says(delivery)

    said, ref = only(wired, delivery), delivery.items[0].ref
    assert (said.id, said.kind, said.title) == (ref, "request", "push by code")
    assert (said.find("text"), said.find("session")) == ("git push origin main", "s-1")
    assert (said.asked, said.deadline) == (at(10), at(3610))
    assert said.link == f"https://safety.example.com/d/{delivery.id}/{ref}/alice"
    assert (said.code, said.deny_code) == ("4821", "4821")
    assert said.commands == (
        f"safetyd approve {ref} --digest {said.digest}",
        f"safetyd deny {ref}",
    )
    assert (notice.thread, notice.list_link, notice.more) == (ref, "", 0)


def test_a_message_goes_to_the_address_of_its_queue_in_the_recipients_own_time() -> None:
    berlin = QuietHours(start="00:00", end="00:00", timezone="Europe/Berlin")
    wired = ComposeRig(telling("email", quiet=berlin))

    notice = wired.says(wired.due())

    assert (notice.address, notice.privacy, notice.channel) == ("alice@email", "full", "email")
    assert f"{notice.at:%H:%M}" == "13:01"
    assert f"{only(wired, wired.delivery(notice.delivery)).asked:%H:%M}" == "13:00"


def test_what_was_answered_meanwhile_is_not_sent() -> None:
    wired = ComposeRig()
    delivery = wired.due()
    wired.answers(delivery.items[0].ref)

    assert wired.composer.compose(wired.engine, delivery.id, wired.at, again=False) == "cancelled"


def test_one_left_of_many_is_told_as_a_single() -> None:
    wired = ComposeRig()
    first, second = wired.asks("p1"), wired.asks("p2", text="git push origin two")
    (delivery,) = wired.passes()
    many = wired.says(delivery)
    wired.answers(first)

    one = wired.says(delivery)

    assert (many.single, many.thread) == (None, "")
    assert many.list_link == f"https://safety.example.com/d/{delivery.id}//alice"
    assert one.single is not None
    assert (one.single.id, one.thread, one.list_link) == (second, second, "")


def test_further_entries_have_a_line_each_and_the_next_message_has_the_rest() -> None:
    wired = ComposeRig()
    for n in range(103):
        wired.asks(f"p{n}", agent=f"agent-{n}", text=f"git push {n}")
    (delivery,) = wired.passes()

    notice = wired.says(delivery)

    assert (len(notice.cards), notice.more) == (20, 3)
    assert sum(line.size for line in notice.lines) == 80
    assert [line.title for line in notice.lines] == ["80 requests: push by 80 agents"]


def test_what_an_agent_asks_beyond_what_is_shown_has_a_line_each() -> None:
    wired = ComposeRig()
    for n in range(23):
        wired.asks(f"p{n}", agent="busy", text=f"git push {'abcdefghijklmnopqrstuvw'[n]}")
    (delivery,) = wired.passes()

    notice = wired.says(delivery)

    assert (len(notice.cards), len(notice.lines), notice.more) == (20, 3, 0)
    assert all(line.title.startswith('push by busy: "git push ') for line in notice.lines)
    assert all(line.link.endswith(f"/{line.refs[0]}/alice") for line in notice.lines)


@pytest.mark.parametrize("ticked", [False, True])
def test_a_message_whose_requests_ran_out_of_time_is_expired(*, ticked: bool) -> None:
    wired = ComposeRig()
    delivery = wired.due(timeout_s=600)
    wired.clock.t += 600
    if ticked:
        wired.passes(0)

    assert wired.composer.compose(wired.engine, delivery.id, wired.at, again=False) == "expired"


def test_quiet_hours_that_begin_during_retries_send_a_message_back() -> None:
    wired = ComposeRig(telling("email", quiet=QuietHours()))
    wired.clock.t = NIGHT - 90
    delivery = wired.due()
    awake = wired.says(delivery)
    wired.clock.t = NIGHT

    assert awake.cards
    assert wired.composer.compose(wired.engine, delivery.id, wired.at, again=False) == "quiet"


def test_what_is_urgent_and_a_test_are_sent_in_quiet_hours() -> None:
    wired = ComposeRig(telling("email", quiet=QuietHours()))
    wired.clock.t = NIGHT

    urgent = wired.notes(urgency="high")
    test = wired.notes(id="note_2", kind="test", urgency="normal")

    assert wired.says(urgent).urgency == "high"
    assert wired.says(test).test


def test_what_is_unknown_or_over_is_gone() -> None:
    wired = ComposeRig()
    delivery = wired.due()
    dropped = NotTold(
        at=wired.at, t=wired.clock.t, delivery=delivery.id, channel="email", state="dead", by="bob"
    )
    wired.happens(dropped)

    assert wired.composer.compose(wired.engine, delivery.id, wired.at, again=False) is None
    assert wired.composer.compose(wired.engine, "dlv_none", wired.at, again=False) is None


def test_a_copy_says_so() -> None:
    wired = ComposeRig()

    notice = wired.composer.compose(wired.engine, wired.due().id, wired.at, again=True)

    assert notice is not None
    assert not isinstance(notice, str)
    assert notice.again


def test_no_code_is_in_a_message_about_what_needs_a_terminal() -> None:
    wired = ComposeRig()
    wired.queue.proposes(propose(wired.clock.t, type="purchase", text="buy it"))
    (delivery,) = wired.passes()

    said = only(wired, delivery)

    assert (said.type, said.code) == ("purchase", "")
    assert said.link
    assert said.commands


@pytest.mark.parametrize(
    ("ways", "code", "by_reply"),
    [
        (("cli",), "", False),
        (("cli", "link"), "4821", False),
        (("cli", "link", "sms"), "4821", True),
        ((), "4821", True),
    ],
)
def test_a_type_may_be_approved_only_in_its_ways(
    ways: tuple[str, ...], code: str, *, by_reply: bool
) -> None:
    types = {"push": TypeConfig(approve_via=ways)}
    wired = ComposeRig(policy=Policy(telling=telling("sms"), types=types))

    said = only(wired, wired.due())

    assert (said.code, "sms" in said.approve_by) == (code, by_reply)


def test_a_reply_approves_only_by_sms_and_within_its_risk() -> None:
    wired = ComposeRig(telling("sms"))
    delivery = wired.due()

    said: list[SingleCard] = []
    for most in ("high", "low", None):
        of = Composer(wired.links, lambda *_: Destination(reply_risk=most))  # noqa: B023
        said += of.notice(wired.engine, delivery, delivery.items, wired.at).cards

    cards = [card for card in said if isinstance(card, RequestCard)]
    assert ["sms" in card.approve_by for card in cards] == [True, False, False]
    assert [card.code for card in cards] == ["4821"] * 3


def test_no_code_is_where_others_may_read_it() -> None:
    wired = ComposeRig()
    delivery = wired.due()
    open_ = Composer(wired.links, lambda *_: Destination(codes=False))

    (said,) = open_.notice(wired.engine, delivery, delivery.items, wired.at).cards

    assert said.link
    assert said.code == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"target": Target(label="main")},
        {"paths": ("a.py",)},
        {"remote": "origin"},
        {"extra": msgspec.Raw(b'{"to":"a"}')},
        {"context": msgspec.Raw(b'{"diff":"+a"}')},
        {"text": "git push\u202e"},
        {"text": "", "description": "Push"},
    ],
)
def test_what_has_more_than_its_text_is_not_approved_by_notification_or_reply(
    fields: dict[str, Any],
) -> None:
    wired = ComposeRig(telling("sms"))

    notice = wired.says(wired.due(**fields))

    assert "approve" not in rendered(notice).actions
    assert "reply A" not in text_of(notice)


def test_words_of_agents_are_harmless() -> None:
    for hostile in HOSTILE:
        words = hostile[:4000].encode(errors="replace").decode().replace("delete", "d")
        wired = ComposeRig()
        said = only(wired, wired.due(text=words, rationale=words, session="s", remote=words[:200]))

        for field in said.fields:
            assert field.text.replace("\n", "").isprintable()
            assert "https://" not in field.text


def test_a_message_names_the_machine_on_which_its_links_open() -> None:
    wired = ComposeRig()
    delivery = wired.due()
    named = Composer(wired.links, box, machine="box")

    notice = named.notice(wired.engine, delivery, delivery.items, wired.at)

    assert (notice.machine, wired.says(delivery).machine) == ("box", gethostname())


def test_commands_name_a_data_directory_that_is_not_the_default() -> None:
    wired = ComposeRig()
    delivery = wired.due()
    elsewhere = Composer(wired.links, box, option=" --data-dir /srv/s")

    notice = elsewhere.notice(wired.engine, delivery, delivery.items, wired.at)
    (card,) = notice.cards

    assert isinstance(card, RequestCard)
    assert all(command.endswith(" --data-dir /srv/s") for command in card.commands)
    assert all(command.endswith(" --data-dir /srv/s") for command in card.without("x").commands)
    assert any("--data-dir /srv/s" in note for note in notice.notes)
    assert not any("--data-dir" in note for note in wired.says(delivery).notes)


def test_a_paused_agent_stays_paused_without_an_answer() -> None:
    wired = ComposeRig()
    paused = Paused(
        at=wired.at, t=wired.clock.t, agent="code", source="anomaly", by="anomaly", reason="loops"
    )
    (delivery,) = wired.dues(wired.happens(paused)) or wired.passes()

    said = only(wired, delivery)

    assert "stays paused" in said.silence
    assert (said.own, said.find("text")) == (True, "loops")


def test_a_request_that_expired_overnight_is_told_without_a_way_to_answer_it() -> None:
    wired = ComposeRig(telling("email", quiet=QuietHours()))
    wired.clock.t = NIGHT
    wired.asks(wait=True, timeout_s=600)
    wired.passes(700)
    (delivery,) = wired.passes(8 * 3600)

    said = only(wired, delivery)

    assert said.kind == "expired"
    assert (said.link, said.code, said.commands) == ("", "", ())


def test_a_note_is_told_with_its_words_and_how_often_it_happened() -> None:
    wired = ComposeRig()
    delivery = wired.notes(title="HIGH: loops\nagain", text="x" * 600, agent="code", count=3)

    (said,) = wired.says(delivery).cards

    assert isinstance(said, AlertCard)
    assert (said.title, said.agent, said.count) == ("HIGH: code: loops again", "code", 3)
    assert (len(said.text), said.cut, said.link) == (500, 100, "")


def test_a_note_is_not_cut_to_save_a_few_characters() -> None:
    wired = ComposeRig()

    (said,) = wired.says(wired.notes(text="x" * 540)).cards

    assert isinstance(said, AlertCard)
    assert (len(said.text), said.cut) == (540, 0)


@pytest.mark.parametrize(
    ("agent", "title", "shown"),
    [
        ("shop", "STOPPED by local", "shop: STOPPED by local"),
        ("al", "STOPPED by alice: drill", "al: STOPPED by alice: drill"),
        ("shop", "SAFE MODE: shop may only read", "SAFE MODE: shop may only read"),
        (None, "STOPPED by local", "STOPPED by local"),
    ],
)
def test_the_title_of_an_alert_names_its_agent(agent: str | None, title: str, shown: str) -> None:
    wired = ComposeRig()

    (said,) = wired.says(wired.notes(title=title, agent=agent)).cards

    assert isinstance(said, AlertCard)
    assert said.title == shown


def test_a_summary_may_be_longer_than_an_alert() -> None:
    wired = ComposeRig()
    delivery = wired.notes(kind="summary", urgency="normal", text="x" * 3000)

    (said,) = wired.says(delivery).cards
    assert isinstance(said, SummaryCard)
    assert len(said.text) == 3000


@pytest.mark.req("S3.54")
def test_a_test_has_a_link_that_leads_back() -> None:
    wired = ComposeRig()
    delivery = wired.notes(kind="test", urgency="normal")

    (said,) = wired.says(delivery).cards

    assert said.link == f"https://safety.example.com/d/{delivery.id}/note_1/alice"


def test_what_nobody_remembers_is_left_out() -> None:
    wired = ComposeRig()
    delivery = wired.due()

    notice = wired.composer.notice(wired.engine, delivery, (Item("alert", "note_gone"),), wired.at)

    assert (notice.cards, notice.more) == ((), 0)


def test_words_of_agents_in_a_report_are_harmless() -> None:
    for hostile in HOSTILE:
        words = hostile[:4000].encode(errors="replace").decode()
        sheet = NoteSheet(
            colour="RED",
            rules=(SheetRule("RED", words, "Look."),),
            sections=(SheetSection("People", (("Asked", words),)),),
        )
        wired = ComposeRig()
        (said,) = wired.says(wired.notes(kind="summary", sheet=sheet)).cards

        assert isinstance(said, SummaryCard)
        assert said.sheet is not None
        for line in (said.sheet.rules[0].says, said.sheet.sections[0].lines[0][1]):
            assert line.isprintable()
            assert "https://" not in line
            assert len(line) <= SHEET_CHARS


def test_the_last_message_before_a_limit_says_so_in_mails_and_sms() -> None:
    wired = ComposeRig()
    delivery = wired.due()
    assert not wired.says(delivery).limited_until
    delivery.limited_until = at(3600)

    notice = wired.says(delivery)

    assert any("Urgent messages on this channel are limited until 13:00" in n for n in notice.notes)
    assert "Urgent SMS are limited until 13:00." in text_of(notice, replies=False)
