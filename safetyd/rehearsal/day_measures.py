"""What a rehearsed day was like for people: the table of measures, and the goals they miss."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from safetyd.core.daily_report.message_repeats import HOUR, is_repeat, quantile, worst
from safetyd.core.events.notification_events import ItemKind
from safetyd.core.recipients import ChannelKind
from safetyd.rehearsal.day_facts import (
    NOTIFIED_WITHIN,
    AskedRequest,
    DayFacts,
    Reading,
    asked_in,
    ended_before,
    refs,
)
from safetyd.rehearsal.day_record import Arrival
from safetyd.rehearsal.story_times import seconds

DAY: Final = timedelta(days=1)
ANSWERABLE: Final = timedelta(minutes=2)  # at least this much time is needed to answer
_MAIL: Final[tuple[ChannelKind, ...]] = ("email",)
_PHONE: Final[tuple[ChannelKind, ...]] = ("sms", "chat", "desktop")
_REMINDERS: Final[frozenset[ItemKind]] = frozenset({"reminder", "last_call"})


class Measure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the table. `value` is None if there is nothing to measure."""

    name: str
    value: float | None
    unit: str = ""  # s for seconds, or %
    goal: float | None = None  # the highest value
    detail: str = ""

    @property
    def missed(self) -> bool:
        return self.goal is not None and self.value is not None and self.value > self.goal


def measures(facts: DayFacts) -> list[Measure]:
    """Return the table of a day."""
    return [*_of_people(facts), *_of_messages(facts), *_of_requests(facts), *_of_bursts(facts)]


def _is_repeat(reading: Reading) -> bool:
    """Return True if the person read about the same thing shortly before."""
    return is_repeat(reading.since, urgent=reading.urgent)


def _of_people(facts: DayFacts) -> Iterator[Measure]:
    goals, record = facts.record.story.goals, facts.record
    for person in _readers(facts):
        arrivals = _of_person(facts, person)
        for channel in dict.fromkeys(arrival.channel for arrival in arrivals):
            number = sum(arrival.channel == channel for arrival in arrivals)
            yield Measure(name=f"{person}: messages by {channel}", value=number)
        for what, kinds, per_day, hour in (
            ("mails", _MAIL, goals.mail_per_day, goals.mail_worst_hour),
            ("SMS and push", _PHONE, goals.phone_per_day, goals.phone_worst_hour),
        ):
            at = [one.at for one in arrivals if record.kind_of(one.channel) in kinds]
            if at:
                yield Measure(name=f"{person}: {what} a day", value=worst(at, DAY), goal=per_day)
                yield Measure(
                    name=f"{person}: {what}, worst hour", value=worst(at, HOUR), goal=hour
                )
        yield from _nights(facts, person, arrivals)


def _nights(facts: DayFacts, person: str, arrivals: Sequence[Arrival]) -> Iterator[Measure]:
    goals, who = facts.record.story.goals, facts.person(person)
    if who is None:
        return
    nightly = [arrival for arrival in arrivals if who.sleeps(arrival.at)]
    idle = [arrival for arrival in nightly if not any(map(facts.is_urgent, refs(arrival)))]
    off = [
        arrival
        for arrival in arrivals
        if who.at_night(arrival.at)
        and who.off_duty(arrival.at)
        and not any(facts.may_wake(person, ref) for ref in refs(arrival))
    ]
    goal = goals.at_night.get(person)
    yield Measure(name=f"{person}: at night", value=len(nightly), goal=goal)
    yield Measure(
        name=f"{person}: at night, could have waited", value=len(idle), goal=goals.could_wait
    )
    if who.has_duty:
        yield Measure(name=f"{person}: at night, off duty", value=len(off), goal=goals.off_duty)


def _of_messages(facts: DayFacts) -> Iterator[Measure]:
    goals, arrivals, readings = facts.record.story.goals, facts.record.arrivals, facts.readings
    repeats = [reading for reading in readings if _is_repeat(reading)]
    yield Measure(
        name="repeats",
        value=round(100 * len(repeats) / len(readings), 1) if readings else 0.0,
        unit="%",
        goal=goals.repeats_percent,
        detail=f"{len(repeats)} of {len(readings)} entries",
    )
    for name, value in _noise(facts):
        yield Measure(name=name, value=value)
    counted = sum(arrival.more for arrival in arrivals)
    yield Measure(name="shown only as a count", value=counted, goal=goals.counted_only)
    late = [one for one in arrivals if _answered_before(facts, one)]
    yield Measure(name="notified after the answer", value=len(late), goal=goals.after_answer)
    yield Measure(name="messages given up", value=len(facts.given_up()))
    lost = len(facts.lost())
    yield Measure(name="sent, but nobody got it", value=lost, goal=goals.undelivered)
    kinds = facts.record.telling.channels
    digests = [one.text for one in arrivals if one.digest and kinds[one.channel] != "webhook"]
    lines = max((text.count("\n") + 1 for text in digests), default=0)
    yield Measure(name="lines of the longest digest", value=lines, goal=goals.digest_lines)
    subjects = [one.subject for one in arrivals]
    longest = max(subjects, key=len, default="")
    yield Measure(name="characters of the longest subject", value=len(longest), detail=longest)


def _noise(facts: DayFacts) -> Iterator[tuple[str, int]]:
    """Yield how many messages had nothing new, by what they contained."""
    of_message: dict[tuple[str, str], list[Reading]] = {}
    for reading in facts.readings:
        of_message.setdefault((reading.person, reading.arrival.delivery), []).append(reading)
    counts = dict.fromkeys(("reminders", "what another channel said", "summaries", "alerts"), 0)
    for found in of_message.values():
        kinds = {mention.kind for mention in found[0].arrival.mentions}
        if kinds <= _REMINDERS:
            counts["reminders"] += 1
        elif all(map(_is_repeat, found)):
            counts["what another channel said"] += 1
        elif kinds == {"summary"}:
            counts["summaries"] += 1
        elif kinds == {"alert"}:
            counts["alerts"] += 1
    yield from ((f"messages with only {name}", count) for name, count in counts.items())


def _of_requests(facts: DayFacts) -> Iterator[Measure]:
    goals, requests = facts.record.story.goals, list(facts.requests.values())
    yield Measure(name="requests", value=len(requests), goal=goals.requests)
    ends = Counter(request.ended for request in requests)
    answered = ends["approved"] + ends["denied"]
    detail = ", ".join(f"{number} {how}" for how, number in ends.most_common())
    yield Measure(name="requests answered", value=answered, detail=detail)
    never = [request for request in requests if _never_notified(facts, request)]
    yield Measure(name="requests never notified", value=len(never), goal=goals.never_notified)
    late = [request for request in requests if _too_late(request)]
    yield Measure(name="notified too late for the deadline", value=len(late), goal=goals.too_late)
    urgent = [
        (request.first_at - request.asked_at).total_seconds()
        for request in requests
        if request.first_at and request.urgency == "high"
    ]
    normal = [
        facts.waking(request.agent, request.asked_at, request.first_at).total_seconds()
        for request in requests
        if request.first_at and request.urgency != "high"
    ]
    for name, values, share, goal in (
        ("urgent requests notified after, p95", urgent, 0.95, goals.urgent_p95),
        ("other requests notified after, p50", normal, 0.5, goals.normal_p50),
        ("other requests notified after, p95", normal, 0.95, goals.normal_p95),
    ):
        most = None if goal is None else seconds(goal)
        yield Measure(name=name, value=quantile(values, share), unit="s", goal=most)


def _of_bursts(facts: DayFacts) -> Iterator[Measure]:
    """Yield how many messages and entries one person gets about a burst within an hour."""
    goals = facts.record.story.goals
    for burst, proposed in facts.record.bursts.items():
        wanted = {facts.request_of[key] for key in proposed if key in facts.request_of}
        if not wanted:
            continue
        until = min(facts.requests[ref].asked_at for ref in wanted) + HOUR
        messages, entries = 0, 0
        for person in _readers(facts):
            about = [
                arrival
                for arrival in _of_person(facts, person)
                if arrival.at < until and not wanted.isdisjoint(asked_in(arrival))
            ]
            shown = [sum(not wanted.isdisjoint(e) for e in one.entries) for one in about]
            messages, entries = max(messages, len(about)), max((entries, sum(shown)))
        name = f"burst of {len(proposed)} by {burst}"
        yield Measure(name=f"{name}: messages", value=messages, goal=goals.burst_messages)
        yield Measure(name=f"{name}: entries", value=entries, goal=goals.burst_entries)


def _readers(facts: DayFacts) -> list[str]:
    """Return everybody who reads messages, in the order of the configuration."""
    record = facts.record
    known = [
        person
        for one in record.telling.recipients
        for channel in one.channels
        for person in record.persons(one.name, channel)
    ]
    return list(dict.fromkeys(known))


def _of_person(facts: DayFacts, person: str) -> list[Arrival]:
    record = facts.record
    return [one for one in record.arrivals if person in record.persons(one.recipient, one.channel)]


def _answered_before(facts: DayFacts, arrival: Arrival) -> bool:
    """Return True if a request had ended when its message was sent."""
    asked = map(facts.requests.get, asked_in(arrival))
    return any(request is not None and ended_before(request, arrival) for request in asked)


def _never_notified(facts: DayFacts, request: AskedRequest) -> bool:
    """Return True if a request was pending for long, expired or was answered without a message."""
    if request.ended in {"approved", "denied"}:
        return not facts.was_notified(request.by, request)
    if request.first_at is not None or request.ended in {"cancelled", "superseded"}:
        return False
    until = request.ended_at or facts.record.times.end
    waited = facts.waking(request.agent, request.asked_at, until)
    return request.ended == "expired" or waited >= NOTIFIED_WITHIN


def _too_late(request: AskedRequest) -> bool:
    """Return True if the first message left no time for an answer."""
    if request.first_at is None or request.deadline is None:
        return False
    needed = min(ANSWERABLE, (request.deadline - request.asked_at) / 2)
    return request.deadline - request.first_at < needed
