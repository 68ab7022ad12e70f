"""Agents of a story: they propose, wait for answers, act, and report outcomes."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Final

import anyio
import anyio.abc
import msgspec

from safetyd.agents.claims import Claim, claim
from safetyd.agents.permissions import PermissionAsk, withdrawn
from safetyd.agents.pricing import PriceList
from safetyd.bus.codec import read_proposal
from safetyd.clock import Clock, uptime
from safetyd.core.approvals.final_decisions import Conclusion
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Proposed, Reported
from safetyd.core.events.event import Event, Moment
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import AnyTelemetry, Outcome, SessionEnded
from safetyd.hosts.wait_times import LONG_S
from safetyd.journal.mailbox import Effects, Envelope, EventEnvelope, Mailbox
from safetyd.rehearsal.day_record import DayRecord
from safetyd.rehearsal.story_file import AgentInStory, Story, Work
from safetyd.rehearsal.story_times import StoryTimes, Window, inside, seconds

PATIENCE_S: Final = 1.0  # between an approval and the claim
WAITS_S: Final = 3600.0  # for an answer, unless the proposal says otherwise

_named = re.compile(r"\{(\w+)\}").sub


class RehearsedProposal(Envelope):
    """A proposal. `told` gets the decision once it is durable."""

    def __init__(
        self, make: Callable[[Moment], Proposed], told: Callable[[Decision], None]
    ) -> None:
        self.received = uptime()
        self._make = make
        self._told = told
        self._decision: Decision | None = None

    def open(self, state: EngineState, moment: Moment) -> Sequence[Event]:  # noqa: ARG002
        return (self._make(moment),)

    def note(self, state: EngineState, effects: Effects) -> None:  # noqa: ARG002
        self._decision = effects.decision

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - virtual time has stood still
        if self._decision is not None:
            self._told(self._decision)


class Answers:
    """The final decisions that agents wait for."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], tuple[anyio.Event, list[Decision]]] = {}
        self._held: set[tuple[str, str]] = set()  # agents that wait without doing anything else

    def waits(self, request: Request) -> bool:
        """Return True if an agent waits for the answer to a request."""
        return (request.agent, request.asked.id) in self._held

    def conclude(self, _state: EngineState, given: Sequence[Conclusion]) -> Callable[[], None]:
        """Return a function that gives final decisions to their agents."""

        def tell() -> None:
            for _, decision in given:
                event, found = self._waiting.get((decision.agent, decision.id), (None, []))
                if event is not None:
                    found.append(decision)
                    event.set()

        return tell

    def expect(self, agent: str, proposal: Proposal) -> None:
        """Remember that an agent wants the final decision. Call it before it proposes."""
        key = agent, proposal.id or ""
        self._waiting[key] = anyio.Event(), []
        if proposal.wait:
            self._held.add(key)

    async def final(self, agent: str, first: Decision, held_s: float = math.inf) -> Decision:
        """Return the final decision on a proposal. After `held_s`, the agent does other work."""
        key = agent, first.id
        event, found = self._waiting[key]
        if first.status == "pending":
            if first.answerable_within(held_s):
                with anyio.move_on_after(held_s):
                    await event.wait()
            self._held.discard(key)
            await event.wait()
        del self._waiting[key]
        self._held.discard(key)
        return found[0] if found else first


class RehearsedAgent:
    """One agent. Each kind of its work runs on its own."""

    def __init__(
        self,
        name: str,
        told: AgentInStory,
        story: Story,
        times: StoryTimes,
        office: "AgentOffice",
    ) -> None:
        self.name = name
        self._told = told
        self._story = story
        self._times = times
        self._office = office
        self._made = 0
        self._session = ""

    def run(self, tasks: anyio.abc.TaskGroup) -> None:
        for number, work in enumerate(self._told.does):
            tasks.start_soon(self._work, number, work, tasks)

    async def _work(self, number: int, work: Work, tasks: anyio.abc.TaskGroup) -> None:
        chance = self._story.chance(self.name, number)
        for at, burst in self._schedule(work, chance):
            await self._office.sleep_until(at)
            tasks.start_soon(self._act, work, chance, burst)

    def _schedule(self, work: Work, chance: Random) -> Iterator[tuple[datetime, str]]:
        """Yield when the work is done, and the name of the burst if it is part of one."""
        spans = self._times.windows((work.between,) if work.between else ())
        for at in self._starts(work, chance):
            if at >= self._times.end or (spans and not inside(spans, at)):
                continue
            most = seconds(work.within)
            offsets = sorted(chance.uniform(0, most) for _ in range(work.burst))
            burst = f"{self.name} {self._times.local(at):%a %H:%M}" if work.burst > 1 else ""
            for offset in offsets if burst else (0.0,):
                yield at + timedelta(seconds=offset), burst

    def _starts(self, work: Work, chance: Random) -> Iterator[datetime]:
        if work.every is None:
            yield from sorted(map(self._times.at, work.at))
            return
        interval = seconds(work.every)
        at = self._times.start + timedelta(seconds=chance.uniform(0, interval))
        while at < self._times.end:
            yield at
            at += timedelta(seconds=interval * chance.uniform(1 - work.jitter, 1 + work.jitter))

    async def _act(self, work: Work, chance: Random, burst: str) -> None:
        action = self._filled(work, chance)
        for attempt in range(work.tries):
            asked_at = self._office.now()
            decision = await self._office.propose(self, action, "" if attempt else burst)
            if decision.allowed:
                held = self._office.now() - asked_at <= timedelta(seconds=LONG_S)
                if decision.cause != "human_approved" or (self.host and held):
                    await self._carry_out(work, decision, chance)
                else:
                    await self._carry_out_approved(work, action, decision, chance)
                return
            if work.again is None or self._office.over:
                return
            await anyio.sleep(seconds(work.again) * chance.uniform(0.8, 1.2))

    async def _carry_out_approved(
        self, work: Work, action: dict[str, object], decision: Decision, chance: Random
    ) -> None:
        """Use an approval, and carry out the action if it is still valid."""
        await anyio.sleep(PATIENCE_S)
        if self.host or work.then == "propose again":
            decision = await self._office.propose(self, action, "")
        elif not await self._office.claim(self.name, decision):
            return
        if decision.allowed:
            await self._carry_out(work, decision, chance)

    async def _carry_out(self, work: Work, decision: Decision, chance: Random) -> None:
        await anyio.sleep(seconds(work.takes) * chance.uniform(0.5, 1.5))
        dependency = work.action.dependency
        down = dependency is not None and self._office.fails(dependency)
        failed = chance.random() < work.fails
        outcome = Outcome(
            ok=not (down or failed),
            id=decision.id,
            error="it is down in this story" if down else "",
            dependency=dependency if down else None,
            latency_ms=seconds(work.takes) * 1000,
        )
        self._office.report(self, outcome)

    def _filled(self, work: Work, chance: Random) -> dict[str, object]:
        """Return the action with its placeholders filled in, and the session."""
        words = {"n": str(self._made), "agent": self.name}
        for name, choices in self._story.words.items():
            words[name] = chance.choice(choices)
        given = msgspec.to_builtins(work.action)
        fields = {name: _fill(value, words) for name, value in given.items()}
        if self._told.host:
            fields["wait"] = True
        if work.timeout is not None:
            fields["timeout_s"] = seconds(work.timeout)
        if session := self._in_session():
            fields["session"] = session
        return fields

    def _in_session(self) -> str:
        """Return the current session. If a new one begins, report the end of the last one."""
        if self._told.session is None:
            return ""
        passed = self._office.now() - self._times.start
        number = int(passed.total_seconds() / seconds(self._told.session))
        session = f"{self.name}-s{number + 1}"
        if self._session and session != self._session:
            self._office.report(self, SessionEnded(session=self._session))
        self._session = session
        return session

    def next_id(self) -> str:
        self._made += 1
        return f"{self.name}-{self._made}"

    @property
    def keyless(self) -> bool:
        return self._told.keyless

    @property
    def host(self) -> str:
        return self._told.host


def _fill(value: object, words: Mapping[str, str]) -> object:
    match value:
        case str():
            return _named(lambda found: words.get(found[1], found[0]), value)
        case dict():
            return {key: _fill(inner, words) for key, inner in value.items()}
        case list() | tuple():
            return [_fill(inner, words) for inner in value]
    return value


class AgentOffice:
    """What agents need: the way to the engine, and the state of their dependencies."""

    def __init__(
        self,
        record: DayRecord,
        mailbox: Mailbox,
        clock: Clock,
        prices: PriceList,
        outages: dict[str, list[Window]],
    ) -> None:
        self.answers = Answers()
        self._record = record
        self._mailbox = mailbox
        self._clock = clock
        self._prices = prices
        self._outages = outages

    def agents(self) -> Iterator[RehearsedAgent]:
        story, times = self._record.story, self._record.times
        for told in story.agents:
            for number in range(1, told.count + 1):
                name = f"{told.name}-{number}" if told.count > 1 else told.name
                yield RehearsedAgent(name, told, story, times, self)

    @property
    def over(self) -> bool:
        return self.now() >= self._record.times.end

    def now(self) -> datetime:
        return self._clock.now().at

    async def sleep_until(self, at: datetime) -> None:
        await anyio.sleep(max(0.0, (at - self.now()).total_seconds()))

    def fails(self, dependency: str) -> bool:
        return inside(self._outages.get(dependency, []), self.now()) is not None

    async def propose(
        self, agent: RehearsedAgent, action: Mapping[str, object], burst: str
    ) -> Decision:
        """Propose, and return the final decision."""
        payload = msgspec.json.encode(action)
        proposal, digest = read_proposal(agent.name, payload, agent.next_id())
        self._record.proposals += 1
        if burst:
            made = self._record.bursts.setdefault(burst, [])
            made.append((agent.name, proposal.id or ""))
        self.answers.expect(agent.name, proposal)
        given: list[Decision] = []
        decided = anyio.Event()

        def proposed(moment: Moment) -> Proposed:
            return Proposed(
                at=moment.at,
                t=moment.t,
                agent=agent.name,
                proposal=proposal,
                digest=digest,
                keyless=agent.keyless,
                priced_nano=self._prices.of_proposal(proposal, moment.at),
                host=agent.host,
            )

        def told(decision: Decision) -> None:
            given.append(decision)
            decided.set()

        self._mailbox.put(RehearsedProposal(proposed, told))
        await decided.wait()
        first, waits_s = given[0], proposal.timeout_s or WAITS_S
        if agent.host:
            return await self.answers.final(agent.name, first, LONG_S)
        if proposal.wait and first.status == "pending" and not first.answerable_within(waits_s):
            # As the client does: nobody who may answer can be notified in time.
            await self._withdraw(agent, first)
        return await self.answers.final(agent.name, first)

    async def _withdraw(self, agent: RehearsedAgent, pending: Decision) -> None:
        ask = PermissionAsk(request_id=pending.request_id, withdraw=True)
        await self._mailbox.carry_out(withdrawn(agent.name, ask, keyless=agent.keyless))

    async def claim(self, agent: str, decision: Decision) -> bool:
        wanted = Claim(id=decision.id, digest=decision.digest)
        return (await self._mailbox.carry_out(claim(agent, wanted, "story"))).granted

    def report(self, agent: RehearsedAgent, telemetry: AnyTelemetry) -> None:
        def made(state: EngineState, moment: Moment) -> Reported:
            priced = None
            if isinstance(telemetry, Outcome):
                begun = state.actions.find(agent.name, telemetry.id)
                priced = self._prices.of_outcome(telemetry, begun, moment.at)
            return Reported(
                at=moment.at,
                t=moment.t,
                agent=agent.name,
                telemetry=telemetry,
                keyless=agent.keyless,
                priced_nano=priced,
            )

        self._mailbox.put(EventEnvelope(made))
