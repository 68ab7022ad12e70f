"""Each measure of a day, on days written down by hand: it is exact, and it can be missed."""

from datetime import timedelta

import pytest

from safetyd.core.daily_report.message_repeats import quantile, worst
from safetyd.core.events.guard_events import Paused, SafeModeEntered, Stopped
from safetyd.core.rota import WeeklyShift
from safetyd.rehearsal.day_measures import Measure
from safetyd.rehearsal.story_file import DayGoals, PersonInStory
from tests.days.written_day import START, WrittenDay, at, moment

NIGHT = 19 * 60  # the minute of 01:00
MORNING = 26 * 60  # 08:00 on the next day
HOUR = timedelta(hours=1)


def test_a_goal_is_missed_only_by_a_higher_value() -> None:
    assert not Measure(name="x", value=3, goal=3).missed
    assert Measure(name="x", value=4, goal=3).missed
    assert not Measure(name="x", value=4).missed
    assert not Measure(name="x", value=None, goal=3).missed


def test_the_worst_hour_may_begin_at_any_minute() -> None:
    assert worst([at(0), at(50), at(59), at(109), at(119)], HOUR) == 3
    assert worst([], HOUR) == 0


def test_quantiles_are_values_that_occurred() -> None:
    assert quantile(range(1, 101), 0.95) == 95
    assert quantile([7, 1, 3], 0.5) == 3
    assert quantile([], 0.5) is None


def test_mail_and_phone_are_counted_for_each_person_and_day() -> None:
    day = WrittenDay(goals=DayGoals(mail_per_day=2, phone_worst_hour=1))
    for number, minute in enumerate((120, 600, 1500, 1570)):
        day.asks(minute, f"r{number}").sends(minute, f"r{number}")
    day.sends(600, "r1", to="omar", channel="sms").sends(605, "r1", to="omar", channel="ntfy")

    assert day.value("lena: messages by email") == 4
    assert day.value("lena: mails a day") == 3  # 120 and 1570 are more than a day apart
    assert day.measure("lena: mails a day").missed
    assert day.value("lena: mails, worst hour") == 1
    assert day.value("omar: SMS and push a day") == 2  # both channels together
    assert day.measure("omar: SMS and push, worst hour").missed


def test_messages_at_night_are_those_of_the_persons_sleep() -> None:
    awake = PersonInStory(name="omar", asleep=("03:00-07:00",))
    day = WrittenDay(
        people=(PersonInStory(name="lena"), awake), goals=DayGoals(at_night={"lena": 0})
    )
    day.asks(NIGHT, "r1", urgency="high").sends(NIGHT, "r1")
    day.sends(NIGHT, "r1", to="omar", channel="sms")

    assert day.value("lena: at night") == 1
    assert day.measure("lena: at night").missed
    assert day.value("omar: at night") == 0  # at 01:00 he works


def test_only_urgent_messages_cannot_wait_until_the_morning() -> None:
    day = WrittenDay(goals=DayGoals(could_wait=0))
    day.asks(NIGHT, "r1", urgency="high").asks(NIGHT, "r2")
    day.sends(NIGHT, "r1", "r2")
    assert day.value("lena: at night, could have waited") == 0
    day.sends(NIGHT + 1, "r2")
    assert day.measure("lena: at night, could have waited").missed


def test_an_urgent_alert_cannot_wait_until_the_morning() -> None:
    stop = Stopped(**moment(NIGHT), source="operator", by="omar", reason="x", agent=None, epoch=1)
    stop.seq = 8
    day = WrittenDay().happens(stop).sends(NIGHT, "note_8", kind="alert")
    assert day.value("lena: at night, could have waited") == 0
    assert day.value("lena: at night") == 1


def test_a_person_off_duty_is_notified_only_by_day() -> None:
    shifts = (
        WeeklyShift(who="lena", from_="18:00", to="02:00"),
        WeeklyShift(who="omar", from_="02:00", to="18:00"),
    )
    day = WrittenDay(shifts=shifts, goals=DayGoals(off_duty=0))
    day.asks(NIGHT, "r1", urgency="high").sends(NIGHT, "r1").sends(300, "r1", to="omar")
    assert day.value("lena: at night, off duty") == 0
    day.sends(NIGHT, "r1", to="omar", channel="sms")
    assert day.measure("omar: at night, off duty").missed
    day.sends(NIGHT + 120, "r1")  # at 03:00, Omar is on duty
    assert day.measure("lena: at night, off duty").missed


def test_a_person_off_duty_may_be_woken_for_what_they_chose() -> None:
    shifts = (WeeklyShift(who="lena"), WeeklyShift(who="omar", from_="07:00", to="23:00"))
    for chosen, counted in (("push", 0), ("irreversible", 0), ("all", 0), ("deploy", 1)):
        day = WrittenDay(shifts=shifts, wake_for={"omar": (chosen,)})
        day.asks(NIGHT, "r1", urgency="high").sends(NIGHT, "r1", to="omar", channel="sms")
        assert day.value("omar: at night, off duty") == counted
    day = WrittenDay(shifts=shifts, wake_for={"omar": ("all",)})
    day.asks(NIGHT, "r1").sends(NIGHT, "r1", to="omar", channel="sms")  # not urgent
    assert day.value("omar: at night, off duty") == 1


def test_duty_in_a_story_replaces_the_rota() -> None:
    lena = PersonInStory(name="lena", on_duty=("00:00-12:00",))
    day = WrittenDay(people=(lena,), shifts=(WeeklyShift(who="omar"),))
    day.asks(NIGHT, "r1", urgency="high").sends(NIGHT, "r1")
    assert day.value("lena: at night, off duty") == 0
    day.asks(NIGHT - 90, "r2", urgency="high").sends(NIGHT - 90, "r2")
    assert day.value("lena: at night, off duty") == 1


def test_a_person_without_duty_has_no_measure_of_it() -> None:
    with pytest.raises(KeyError):
        WrittenDay().sends(NIGHT).value("lena: at night, off duty")


def test_the_same_request_to_the_same_person_is_a_repeat() -> None:
    day = WrittenDay(goals=DayGoals(repeats_percent=25))
    day.asks(120, "r1").asks(120, "r2").sends(120, "r1", "r2")
    day.sends(120, "r1", to="omar", channel="sms")
    assert day.value("repeats") == 0
    day.sends(121, "r1", to="omar", channel="ntfy")  # his other channel
    assert day.value("repeats") == 25
    assert not day.measure("repeats").missed
    day.sends(300, "r2", kind="reminder")
    assert day.value("repeats") == 40
    assert day.measure("repeats").missed
    day.sends(300 + 240, "r2", kind="reminder")  # four hours later
    assert day.value("repeats") == pytest.approx(33.3)


def test_an_urgent_request_may_be_repeated_after_five_minutes() -> None:
    day = WrittenDay().asks(120, "r1", urgency="high").sends(120, "r1").sends(125, "r1")
    assert day.value("repeats") == 0
    assert day.sends(129, "r1").value("repeats") == pytest.approx(33.3)


def test_two_alerts_of_one_cause_are_a_repeat() -> None:
    day = WrittenDay()
    for number in (3, 4):
        entered = SafeModeEntered(**moment(100 + number), by="safetyd", agent="coder")
        entered.seq = number
        day.happens(entered).sends(100 + 10 * number, f"note_{number}", kind="alert")
    assert day.value("repeats") == 50


def test_messages_without_anything_new_are_counted_by_reason() -> None:
    day = WrittenDay().asks(120, "r1").sends(120, "r1").sends(140, "r1", kind="reminder")
    day.sends(120, "r1", to="omar", channel="sms").sends(121, "r1", to="omar", channel="ntfy")
    day.sends(150, "s1", kind="summary").sends(160, "note_1", kind="alert")
    for what in ("reminders", "what another channel said", "summaries", "alerts"):
        assert day.value(f"messages with only {what}") == 1


def test_items_that_are_only_counted() -> None:
    day = WrittenDay(goals=DayGoals(counted_only=0)).asks(120, "r1").sends(120, "r1", more=41)
    assert day.value("shown only as a count") == 41
    assert day.measure("shown only as a count").missed


def test_a_message_that_was_sent_after_the_answer() -> None:
    day = WrittenDay(goals=DayGoals(after_answer=0)).asks(120, "r1").sends(121, "r1")
    day.answers(130, "r1").sends(130, "r1", at=at(131))  # it was on its way
    day.sends(140, "r1", kind="expired")  # says that it ended
    assert day.value("notified after the answer") == 0
    day.sends(140, "r1", kind="reminder")
    assert day.measure("notified after the answer").missed


@pytest.mark.parametrize("state", ["dead", "undelivered", "parked", "expired"])
def test_a_message_that_was_given_up_is_lost_if_nobody_got_its_content(state: str) -> None:
    day = WrittenDay(goals=DayGoals(undelivered=0)).asks(120, "r1").fails(121, "r1", state=state)
    assert day.value("messages given up") == 1
    assert day.measure("sent, but nobody got it").missed
    day.sends(122, "r1", to="omar", channel="sms")
    assert day.value("sent, but nobody got it") == 0


def test_a_message_that_is_not_needed_any_more_is_not_lost() -> None:
    day = WrittenDay().asks(120, "r1").fails(121, "r1", state="cancelled")
    assert day.value("messages given up") == 0
    assert day.value("sent, but nobody got it") == 0


def test_a_message_that_is_open_for_an_hour_is_lost() -> None:
    day = WrittenDay(lasts="5h").asks(120, "r1").starts(120, "r1")
    assert day.value("sent, but nobody got it") == 1
    assert (
        WrittenDay(lasts="2h30m").asks(120, "r1").starts(120, "r1").value("sent, but nobody got it")
        == 0
    )


def test_a_request_that_was_never_notified() -> None:
    goals = DayGoals(never_notified=0)
    assert (
        not WrittenDay(goals=goals, lasts="90m")
        .asks(60, "r1")
        .measure("requests never notified")
        .missed
    )  # there is still time
    day = WrittenDay(goals=goals, lasts="5h").asks(60, "r1")
    assert day.measure("requests never notified").missed
    assert day.sends(70, "r1").value("requests never notified") == 0


def test_only_waking_time_counts_for_a_request_that_is_not_notified() -> None:
    day = WrittenDay(lasts="25h").asks(NIGHT, "r1")
    assert day.value("requests never notified") == 0


def test_a_request_that_expired_or_was_cancelled_without_a_message() -> None:
    assert WrittenDay().asks(60, "r1").expires(70, "r1").value("requests never notified") == 1
    assert WrittenDay().asks(60, "r1").cancels(70, "r1").value("requests never notified") == 0


def test_news_that_a_request_expired_do_not_notify_of_it() -> None:
    day = WrittenDay().asks(60, "r1").expires(70, "r1").sends(80, "r1", kind="expired")
    assert day.value("requests never notified") == 1


def test_only_answers_of_people_who_were_notified_count() -> None:
    day = WrittenDay(goals=DayGoals(never_notified=0)).asks(120, "r1").sends(121, "r1")
    day.answers(125, "r1", by="omar")
    assert day.measure("requests never notified").missed  # he could not know of it
    day = WrittenDay().asks(120, "r1").sends(121, "r1").answers(125, "r1", by="lena", via="cli")
    assert day.value("requests never notified") == 0  # at a terminal, but she knew of it


def test_an_answer_before_the_message_does_not_count() -> None:
    day = WrittenDay().asks(120, "r1").answers(125, "r1").sends(126, "r1", began=at(124))
    assert day.value("requests never notified") == 1


def test_a_message_that_leaves_no_time_for_an_answer() -> None:
    goals = DayGoals(too_late=0)
    day = WrittenDay(goals=goals).asks(120, "r1", within=30).sends(147, "r1")
    assert day.value("notified too late for the deadline") == 0
    day = WrittenDay(goals=goals).asks(120, "r1", within=30).sends(149, "r1")
    assert day.measure("notified too late for the deadline").missed
    # Of a deadline after two minutes, half is enough.
    day = WrittenDay(goals=goals).asks(120, "r1", within=2).sends(121, "r1")
    assert day.value("notified too late for the deadline") == 0


def test_how_fast_urgent_requests_are_notified() -> None:
    day = WrittenDay(goals=DayGoals(urgent_p95="10s"))
    for number in range(20):
        ref = f"r{number}"
        wait = 30 / 60 if number in {3, 4} else 5 / 60
        day.asks(120 + number, ref, urgency="high").sends(120 + number + wait, ref)
    assert day.value("urgent requests notified after, p95") == 30
    assert day.measure("urgent requests notified after, p95").missed


def test_how_fast_other_requests_are_notified_in_waking_time() -> None:
    day = WrittenDay(goals=DayGoals(normal_p50="10m", normal_p95="15m"))
    day.asks(120, "r1").sends(121, "r1")
    day.asks(NIGHT, "r2").sends(MORNING - 55, "r2")  # five minutes after quiet hours
    day.asks(200, "r3").sends(220, "r3")
    assert day.value("other requests notified after, p50") == 5 * 60
    assert day.value("other requests notified after, p95") == 20 * 60
    assert day.measure("other requests notified after, p95").missed
    assert not day.measure("other requests notified after, p50").missed


def test_the_messages_and_entries_of_a_burst() -> None:
    day = WrittenDay(goals=DayGoals(burst_messages=2, burst_entries=3))
    refs = [f"r{number}" for number in range(20)]
    for number, ref in enumerate(refs):
        day.asks(120 + number / 10, ref, burst="coder Tue 08:00")
    day.sends(123, entries=(tuple(refs),), mentions=())
    day.sends(200, *refs)  # more than an hour later
    messages, entries = (f"burst of 20 by coder Tue 08:00: {n}" for n in ("messages", "entries"))
    assert (day.value(messages), day.value(entries)) == (1, 1)
    day.sends(125, *refs[:4], to="omar", channel="sms")
    assert (day.value(messages), day.value(entries)) == (1, 4)
    assert day.measure(entries).missed
    day.sends(126, refs[0], to="omar", channel="ntfy").sends(127, refs[0], to="omar")
    assert day.measure(messages).missed


def test_only_the_digest_after_quiet_hours_has_a_longest_length() -> None:
    day = WrittenDay(goals=DayGoals(digest_lines=80)).asks(120, "r1")
    day.sends(120, "r1", text="x\n" * 300)
    assert day.value("lines of the longest digest") == 0
    day.sends(MORNING - 60, "r1", text="x\n" * 80, digest=True)
    assert day.value("lines of the longest digest") == 81
    assert day.measure("lines of the longest digest").missed


def test_the_longest_subject_is_shown() -> None:
    day = (
        WrittenDay().asks(120, "r1").sends(120, "r1", subject="short").sends(121, subject="longer")
    )
    found = day.measure("characters of the longest subject")
    assert (found.value, found.detail) == (6, "longer")


def test_requests_and_answers_are_counted() -> None:
    day = WrittenDay(goals=DayGoals(requests=2)).asks(120, "r1").asks(121, "r2").asks(122, "r3")
    pause = Paused(**moment(123), agent="coder", source="anomaly", by="safetyd", reason="odd")
    pause.seq = 9
    day.happens(pause).answers(130, "r1").expires(140, "r2")
    assert day.value("requests") == 4
    assert day.measure("requests").missed
    answered = day.measure("requests answered")
    assert answered.value == 1
    assert answered.detail == "2 pending, 1 approved, 1 expired"


def test_the_written_day_starts_with_its_story() -> None:
    assert WrittenDay().record.times.start == START
