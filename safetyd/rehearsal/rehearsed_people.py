"""People of a story: they read messages when they are awake, and answer requests."""

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Final

import anyio
import anyio.abc

from safetyd.clock import Clock
from safetyd.core import recipients
from safetyd.core.approvals.assurance import Given
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.recipients import QuietHours
from safetyd.core.rota import Rota
from safetyd.journal.mailbox import Carried, Mailbox
from safetyd.notify.answers import Outcome, answer
from safetyd.rehearsal.day_record import Arrival, DayRecord
from safetyd.rehearsal.rehearsed_agents import Answers
from safetyd.rehearsal.story_file import PersonInStory
from safetyd.rehearsal.story_times import StoryTimes, inside, seconds

WEEK: Final = timedelta(weeks=1)


class RehearsedPerson:
    """One person. `quiet` are the quiet hours of the configuration, `rota` is its rota."""

    def __init__(
        self, told: PersonInStory, quiet: QuietHours, times: StoryTimes, rota: Rota
    ) -> None:
        self.told = told
        self._quiet = quiet
        self._rota = rota
        turns = rota.turns(times.start - WEEK, times.end + WEEK)
        self._takes_turns = any(told.name in turn.names for turn in turns)
        self._asleep = times.windows(told.asleep)
        self._away = times.windows(told.away)
        self._duty = times.windows(told.on_duty)
        self._terminal = times.windows(told.terminal)

    def sleeps(self, at: datetime) -> datetime | None:
        """Return when the person's sleep ends, or None if they are awake."""
        if not self.told.asleep:
            return recipients.quiet_until(self._quiet, at)
        window = inside(self._asleep, at)
        return window and window.ends

    @property
    def has_duty(self) -> bool:
        """True if the person is on duty at some times: by the story, or else by the rota."""
        return bool(self._duty) or self._takes_turns

    def off_duty(self, at: datetime) -> bool:
        """Return True if the person has duty at other times, but not now."""
        if self._duty:
            return inside(self._duty, at) is None
        return self._takes_turns and not self._rota.covers(self.told.name, at)

    def at_night(self, at: datetime) -> bool:
        """Return True if the person sleeps or has quiet hours."""
        quiet = recipients.quiet_until(self._quiet, at) is not None
        return quiet or self.sleeps(at) is not None

    def reads_at(self, arrival: Arrival) -> datetime:
        """Return when the person reads a message."""
        woken = arrival.urgency == "high" and arrival.channel in self.told.woken_by
        return self._free(arrival.at, woken=woken and not self.off_duty(arrival.at))

    def answers_at(self, read: datetime, chance: Random) -> datetime:
        shortest, longest = map(seconds, self.told.answers_after)
        at = read + timedelta(seconds=chance.uniform(shortest, longest))
        return self._free(at, woken=self.sleeps(read) is not None)

    def at_terminal(self, at: datetime) -> datetime:
        """Return when the person can next use a terminal."""
        if not self._terminal or inside(self._terminal, at):
            return at
        return min((w.begins for w in self._terminal if w.begins > at), default=at)

    def _free(self, at: datetime, *, woken: bool) -> datetime:
        """Return when the person is next awake and not away."""
        while True:
            away, asleep = inside(self._away, at), None if woken else self.sleeps(at)
            if away is None and asleep is None:
                return at
            at = away.ends if away is not None else asleep or at


class People:
    """Hands messages to the people who read them, and records their answers."""

    def __init__(self, record: DayRecord, mailbox: Mailbox, clock: Clock, answers: Answers) -> None:
        self._record = record
        self._mailbox = mailbox
        self._clock = clock
        self._answers = answers
        self._persons = persons(record)
        self._read_by = Counter[str]()  # messages, by person

    def arrived(self, tasks: anyio.abc.TaskGroup, arrival: Arrival) -> None:
        self._record.arrivals.append(arrival)
        for name in self._record.persons(arrival.recipient, arrival.channel):
            if name in self._persons:
                tasks.start_soon(self._read, self._persons[name], arrival)

    async def _read(self, person: RehearsedPerson, arrival: Arrival) -> None:
        await self._until(person.reads_at(arrival))
        self._read_by[person.told.name] += 1
        count = self._read_by[person.told.name]
        chance = self._record.story.chance(person.told.name, "reads", count)
        await self._until(person.answers_at(self._clock.now().at, chance))
        for entry in arrival.entries:
            for ref in entry:
                await self._answer(person, arrival, ref, chance)

    async def _answer(
        self, person: RehearsedPerson, arrival: Arrival, ref: str, chance: Random
    ) -> None:
        told = person.told
        if chance.random() < told.ignores:
            return
        via = "cli" if told.by == "terminal" else f"link:{arrival.channel}"
        outcome = await self._given(told, ref, via)
        if outcome == "elsewhere":
            await self._until(person.at_terminal(self._clock.now().at))
            await self._given(told, ref, "cli")

    async def _given(self, person: PersonInStory, ref: str, via: str) -> Outcome:
        def plan(state: EngineState, moment: Moment) -> Carried[Outcome]:
            request = state.approvals.find(ref)
            if request is None or not request.pending:
                return Carried((), "too_late")
            chance = self._record.story.chance(request.agent, request.asked.id)
            approves = chance.random() < person.approves
            given = Given(answer="approved" if approves else "denied", by=person.name, via=via)
            return answer(state, moment, request, given, self._answers.waits)

        return await self._mailbox.carry_out(plan)

    async def _until(self, at: datetime) -> None:
        await anyio.sleep(max(0.0, (at - self._clock.now().at).total_seconds()))


def persons(record: DayRecord) -> dict[str, RehearsedPerson]:
    """Return the people of a story. Without any, every recipient of the configuration answers."""
    hours = {one.name: one.quiet for one in record.telling.recipients}
    told = record.story.people or tuple(PersonInStory(name=name) for name in hours)
    return {
        person.name: RehearsedPerson(person, hours[person.name], record.times, record.rota)
        for person in told
    }
