"""Who gets a request, on which channel, and who gets it first."""

from typing import Any

import pytest

from safetyd.core.events.notification_events import Due
from safetyd.core.outbox.pace import PEOPLE
from safetyd.core.recipients import ChannelKind, ChannelUse, QuietHours, TellingConfig
from safetyd.core.rota import RotaPolicy, WeeklyShift
from tests.core.outbox.outbox_story import (
    DAY,
    HOUR,
    MINUTE,
    MORNING,
    NIGHT,
    NO_ROTA,
    OutboxStory,
    config,
    kinds,
    moved,
    refs,
)
from tests.core.outbox.test_pace import person, sent
from tests.story import at, tick

CHANNELS: dict[str, ChannelKind] = {
    "mail": "email",
    "phone": "sms",
    "room": "chat",
    "screen": "desktop",
}
SLEEPS = QuietHours()
URGENT_ONLY = {"phone": ChannelUse(min_urgency="high")}
MARA = person("mara", "mail", "phone", urgent=("phone", "mail"), uses=URGENT_ONLY, quiet=SLEEPS)
# From 18:00 to 02:00 ana, then boris until 10:00.
ROTA = RotaPolicy(
    shifts=(
        WeeklyShift(who="ana", from_="18:00", to="02:00"),
        WeeklyShift(who="boris", from_="02:00", to="10:00"),
    )
)
ANA = person("ana", "phone", "mail", urgent=("phone", "mail"), uses=URGENT_ONLY, quiet=SLEEPS)
BORIS = person("boris", "phone", quiet=SLEEPS, backup="carol", uses=URGENT_ONLY)
CAROL = person("carol", "mail", quiet=SLEEPS)
TEAM = (ANA, BORIS, CAROL)
DEEP_NIGHT = 15 * HOUR  # 03:00


def one_each(*people: object, **fields: object) -> TellingConfig:
    usual = {"channels": CHANNELS, "strategy": "sequential", "recipients": people}
    return config(**{**usual, **fields})  # type: ignore[arg-type]


def on_call(*people: object, rota: RotaPolicy = ROTA, start: float = 0) -> OutboxStory:
    """Begin a story with a rota, and let somebody go on duty."""
    story = OutboxStory(one_each(*(people or TEAM)), rota)
    story.happens(tick(start))
    return story


def asked(story: OutboxStory, t: float, id: str = "p1", **fields: object) -> list[tuple[str, str]]:  # noqa: A002
    """Ask, deliver what is due at once, and return who got it where."""
    wanted: dict[str, Any] = {"lasts": 5 * DAY, **fields}
    dues = story.asked(t, id, **wanted)
    story.tells(t, *dues)
    return places(dues)


def places(dues: list[Due]) -> list[tuple[str, str]]:
    return [(due.recipient, due.channel) for due in dues]


@pytest.mark.req("S3.29")
def test_a_person_gets_a_request_on_one_channel_and_an_urgent_one_on_another() -> None:
    story = OutboxStory(one_each(MARA))

    assert asked(story, 0, urgency="high") == [("mara", "phone")]
    assert asked(story, 1, "p2") == []
    assert places(sent(story, 2, 2 * MINUTE, 5)) == [("mara", "mail")]


def test_a_channel_with_hours_is_used_only_then() -> None:
    working = ChannelUse(hours=QuietHours(start="09:00", end="17:00"))
    who = person("alice", "screen", "mail", uses={"screen": working})
    story = OutboxStory(one_each(who))
    story.asks(0, "p1", lasts=5 * DAY)
    assert places(sent(story, 1, 2 * MINUTE, 5)) == [("alice", "screen")]

    story.asks(6 * HOUR, "p2", lasts=5 * DAY)

    assert places(sent(story, 6 * HOUR + 1, 6 * HOUR + 2 * MINUTE, 5)) == [("alice", "mail")]


def test_a_channel_outside_its_hours_is_better_than_none() -> None:
    never = ChannelUse(hours=QuietHours(start="03:00", end="03:01"), min_urgency="high")
    story = OutboxStory(one_each(person("alice", "phone", uses={"phone": never})))
    story.asks(0, lasts=5 * DAY)

    assert places(sent(story, 1, 20 * MINUTE)) == [("alice", "phone")]


@pytest.mark.parametrize("urgency", ["normal", "high"])
def test_a_channel_that_is_down_is_left_out(urgency: str) -> None:
    story = OutboxStory(one_each(MARA))
    story.happens(moved(0, "phone"), moved(0, "mail"), moved(0, "mail", up=True))
    story.asks(1, urgency=urgency)

    assert places(sent(story, 1, 2 * MINUTE, 5)) in ([("mara", "mail")], [])
    assert story.outbox.told(story.approvals.pending().__iter__().__next__().id)


def test_if_all_that_fit_are_down_another_channel_is_used() -> None:
    story = OutboxStory(one_each(MARA))
    story.happens(moved(0, "mail"))
    story.asks(1)

    assert places(sent(story, 2, 20 * MINUTE)) == [("mara", "phone")]


def test_one_person_is_first_and_the_others_follow_if_nobody_answers() -> None:
    people = person("alice"), person("bob", "room"), person("carol")
    story = OutboxStory(one_each(*people, next_person_s=HOUR))
    ref = story.asks(0, "p1", lasts=5 * DAY)
    assert places(sent(story, 1, 50 * MINUTE)) == [("alice", "mail")]

    later = places(sent(story, HOUR, 2 * HOUR))
    assert sorted(later) == [("bob", "room"), ("carol", "mail")]

    story.answers(2 * HOUR, ref)
    story.asks(3 * HOUR, "p2", lasts=5 * DAY)
    (first,) = sent(story, 3 * HOUR + 1, 3 * HOUR + 30 * MINUTE)
    story.answers(3 * HOUR + 30 * MINUTE, refs(first)[0])
    assert sent(story, 3 * HOUR + 31 * MINUTE, 6 * HOUR) == []


def test_shared_channels_do_not_wait_for_the_first_person() -> None:
    everyone = person("everyone", "room", shared=True)
    story = OutboxStory(one_each(person("alice"), everyone))
    story.asks(0, lasts=5 * DAY)

    found = places(sent(story, 1, 5 * MINUTE))

    assert sorted(found) == [("alice", "mail"), ("everyone", "room")]


def test_whoever_sleeps_is_not_the_first() -> None:
    people = person("alice", quiet=SLEEPS), person("bob", "room")
    story = OutboxStory(one_each(*people))
    story.asks(NIGHT, lasts=5 * DAY)

    assert places(sent(story, NIGHT + 1, NIGHT + 20 * MINUTE)) == [("bob", "room")]
    assert places(sent(story, MORNING, MORNING + 2 * MINUTE, 5)) == [("alice", "mail")]


def test_if_the_first_person_cannot_be_reached_the_others_get_it_at_once() -> None:
    people = person("alice"), person("bob", "room")
    story = OutboxStory(one_each(*people))
    story.asks(0, lasts=5 * DAY)
    (due,) = story.ticks(60)

    (other,) = story.fails(61, due)

    assert places([other]) == [("bob", "room")]


@pytest.mark.req("S3.38")
def test_people_on_duty_get_urgent_requests_at_once_also_at_night() -> None:
    story = on_call()
    assert asked(story, 7 * HOUR, urgency="high") == [("ana", "phone")]
    assert asked(story, NIGHT + HOUR, "p2", urgency="high", inferred=True) == [("ana", "phone")]

    # Now boris is on duty, and gets what is still pending.
    assert ("boris", "phone") in places(story.tells_at(14 * HOUR))
    assert asked(story, DEEP_NIGHT, "p3", urgency="high") == [("boris", "phone")]


def test_nobody_who_is_off_duty_gets_anything_at_night() -> None:
    story = on_call()
    story.happens(tick(14 * HOUR))
    for n in range(20):
        asked(story, DEEP_NIGHT + n * 10 * MINUTE, f"p{n}", agent=f"a{n}", urgency="high")
        sent(story, DEEP_NIGHT + n * 10 * MINUTE + 1, DEEP_NIGHT + (n + 1) * 10 * MINUTE - 1)

    people = {each.recipient for each in story.outbox.deliveries()}

    assert "ana" not in people


def test_without_anybody_on_duty_everybody_is_responsible() -> None:
    story = on_call()

    assert asked(story, 0, urgency="high") == [
        ("ana", "phone"),
        ("boris", "phone"),
        ("carol", "mail"),
    ]


def test_permission_to_be_woken_for_a_class_of_action() -> None:
    for classes, woken in ((("irreversible",), True), (("all",), True), (("deploy",), False)):
        rota = RotaPolicy(shifts=ROTA.shifts, wake_for={"dora": classes})
        story = on_call(*TEAM, person("dora", "room", quiet=SLEEPS), rota=rota)
        found = asked(story, NIGHT + HOUR, urgency="high")
        assert (("dora", "room") in found) == woken


def test_if_nobody_on_duty_can_be_reached_their_backup_is_woken() -> None:
    story = on_call()
    story.happens(tick(14 * HOUR), moved(14 * HOUR, "phone"))

    assert ("carol", "mail") in asked(story, DEEP_NIGHT, urgency="high", inferred=True)


def test_a_request_that_nobody_received_goes_to_the_backup_with_the_first_step() -> None:
    story = on_call()
    story.happens(tick(14 * HOUR))
    story.asked(DEEP_NIGHT, urgency="high", lasts=DAY)  # never delivered

    found = sent(story, DEEP_NIGHT + 10 * MINUTE, DEEP_NIGHT + 20 * MINUTE)

    assert ("carol", "mail") in places(found)


def test_a_sleeper_gets_two_urgent_messages_and_the_second_says_so() -> None:
    story, found = OutboxStory(one_each(person("alice", quiet=SLEEPS))), list[Due]()
    for n in range(6):
        dues = story.asked(NIGHT + n * HOUR, f"p{n}", f"agent-{n}", urgency="high", lasts=5 * DAY)
        story.tells(NIGHT + n * HOUR, *dues)
        found += [*dues, *sent(story, NIGHT + n * HOUR + 1, NIGHT + (n + 1) * HOUR - 1, 60)]

    assert len(found) == 2
    assert [due.limited_until for due in found] == [None, at(MORNING)]
    assert kinds(sent(story, MORNING, MORNING + 60, 5)).count("request") == 4


def test_one_agent_cannot_use_up_the_night() -> None:
    story = OutboxStory(one_each(person("alice", quiet=SLEEPS)))
    for n in range(5):
        asked(story, NIGHT + n * HOUR, f"p{n}", agent="loud", urgency="high")

    assert asked(story, NIGHT + 6 * HOUR, "q", agent="quiet", urgency="high") == [("alice", "mail")]


def test_nobody_is_woken_twice_by_one_request() -> None:
    rota = RotaPolicy(shifts=(WeeklyShift(who="ana"),))
    story = on_call(ANA, rota=rota)
    asked(story, NIGHT + HOUR, urgency="high")

    found = sent(story, NIGHT + HOUR + 1, NIGHT + 5 * HOUR, 60)

    # Her next channel, once.
    assert places(found) == [("ana", "mail")]


@pytest.mark.req("K4")
def test_when_a_channel_has_had_enough_the_next_one_takes_over() -> None:
    who = person("alice", "room", "mail")
    story = OutboxStory(one_each(who))
    found = [
        place
        for n in range(9)
        for place in asked(story, n * 10, f"p{n}", agent=f"agent-{n}", urgency="high")
    ]

    assert [channel for _, channel in found[: PEOPLE.in_all]] == ["room"] * PEOPLE.in_all
    assert {channel for _, channel in found[PEOPLE.in_all :]} == {"mail"}


def test_the_last_message_before_a_limit_says_until_when() -> None:
    story = OutboxStory(one_each(person("alice", "room")))
    dues = [
        due
        for n in range(PEOPLE.party)
        for due in story.asked(n * 10, f"p{n}", urgency="high", lasts=DAY)
    ]

    assert [due.limited_until for due in dues] == [None, None, at(20) + PEOPLE.gap]
    assert asked(story, 60, "p9", urgency="high") == []
    (later,) = story.ticks(20 + PEOPLE.gap.total_seconds())
    assert len(refs(later)) == 1


def test_if_all_channels_of_the_people_on_duty_are_full_somebody_else_is_notified() -> None:
    people = person("alice", "room"), person("bob", "mail")
    rota = RotaPolicy(shifts=(WeeklyShift(who="alice"),))
    story = on_call(*people, rota=rota)
    found = [asked(story, n, f"p{n}", urgency="high") for n in range(PEOPLE.party + 1)]

    assert found[0] == [("alice", "room")]
    assert found[-1] == []  # bob is not on duty, and alice gets it with the next message

    story = on_call(person("alice", "room", backup="bob"), people[1], rota=rota)
    found = [asked(story, n, f"p{n}", urgency="high") for n in range(PEOPLE.party + 1)]
    assert found[-1] == [("bob", "mail")]


def test_alerts_go_to_people_on_duty_on_one_channel() -> None:
    from safetyd.core.events.guard_events import BudgetMarked  # noqa: PLC0415

    story = on_call(start=7 * HOUR)
    amounts = {"id": "", "spent": 9.0, "reserved": 0.0, "limit": 10.0, "estimate": 2.0}
    event = BudgetMarked(at=at(7 * HOUR), t=7 * HOUR, mark="exceeded", scope="day", **amounts)  # type: ignore[arg-type]

    dues = [due for due in story.dues(event) if kinds([due]) == ["alert"]]

    assert ("ana", "phone") in places(dues)
    assert "boris" not in {due.recipient for due in dues}


def test_an_agent_that_waits_also_reaches_the_phone_of_whoever_is_on_duty() -> None:
    rota = RotaPolicy(shifts=(WeeklyShift(who="omar"),))
    people = person("lena"), person("omar", "phone", uses=URGENT_ONLY)
    story = on_call(*people, rota=rota)
    story.asks(0, "p1", lasts=5 * DAY)
    story.asks(1, "p2", lasts=20 * MINUTE, wait=True)

    found = sent(story, 2, 19 * MINUTE)

    assert {due.recipient for due in found} == {"lena", "omar"}
    assert [len(refs(due)) for due in found if due.recipient == "omar"] == [1]


def test_at_night_whoever_is_awake_gets_normal_requests() -> None:
    worker = person("ana", "phone", uses=URGENT_ONLY)
    rota = RotaPolicy(shifts=(WeeklyShift(who="ana"),))
    story = on_call(worker, CAROL, rota=rota)
    story.asks(NIGHT + HOUR, lasts=5 * DAY)

    assert places(sent(story, NIGHT + HOUR + 1, NIGHT + 2 * HOUR)) == [("ana", "phone")]


def test_stories_without_a_rota_have_no_duty() -> None:
    story = OutboxStory(one_each(person("alice")), NO_ROTA)

    assert not any(event.lasting for event in story.happens(tick(0)))


def test_a_request_that_ends_at_night_is_sent_before_quiet_hours_begin() -> None:
    story = OutboxStory(one_each(person("alice", quiet=SLEEPS)))
    story.asks(NIGHT - 5 * MINUTE, "p0", lasts=5 * DAY)
    sent(story, NIGHT - 5 * MINUTE + 1, NIGHT - 3 * MINUTE)
    ends_at_night = story.asks(NIGHT - 2 * MINUTE, "p1", lasts=HOUR)
    story.asks(NIGHT - 2 * MINUTE, "p2", agent="other", lasts=5 * DAY)

    (due,) = sent(story, NIGHT - 2 * MINUTE + 1, NIGHT - 1, 1)

    assert ends_at_night in refs(due)
