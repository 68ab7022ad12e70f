"""A daemon's days without a daemon: an engine that ticks every second, and what it wrote down."""

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from safetyd.core.approvals.assurance import Given, taken
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Decided, Proposed, Refused, Reported, Withheld
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.events.guard_events import (
    BudgetRaised,
    Forgotten,
    Paused,
    PersonSeen,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.events.notification_events import (
    ChannelMoved,
    LinkRevoked,
    NotTold,
    Told,
    Unparked,
)
from safetyd.core.events.request_events import (
    Cancelled,
    Claimed,
    Deferred,
    Granted,
    GrantRevoked,
)
from safetyd.core.messages.proposal import Proposal, Target, Tokens
from safetyd.core.messages.telemetry import Iteration, Outcome, SessionEnded, Unreported
from safetyd.core.policy import Configured, Policy
from safetyd.core.recipients import Recipient, TellingConfig
from tests.story import at

AGENTS = ("code", "ops", "shop")
TELLING = TellingConfig(
    channels={"mail": "email", "phone": "sms"},
    recipients=(
        Recipient(name="alice", channels=("mail", "phone"), backup="bob"),
        Recipient(name="bob", channels=("mail",), agents=("ops",)),
    ),
)
TEXTS = (
    ("run_shell", "git status"),
    ("run_shell", "make test"),
    ("run_shell", "git commit -m 'one'"),
    ("run_shell", "git commit -m 'two'"),
    ("run_shell", "frobnicate --all"),
    ("run_shell", "rm -rf /"),
    ("push", "main"),
    ("read_file", ""),
    ("write_file", "x"),
    ("llm_call", "hello"),
    ("dance", ""),
)


class RecordedStory:
    """Each step is something that happens; `lines` are what a journal would have of it."""

    def __init__(self, policy: Policy, phase: float = 0.25) -> None:
        self.engine = Engine(policy)
        self.lines: list[bytes] = []
        self.t = 0.0
        self._shift = 0.0
        self._tick_t = phase
        self._count = 0
        self.configure(policy, "start")

    def configure(self, policy: Policy, why: Literal["start", "reload"] = "reload") -> None:
        self.happen(Configured, policy=policy, digest=policy.digest(), version="1", why=why)

    @property
    def now(self) -> Moment:
        return Moment(at(self.t + self._shift), self.t)

    def wait(self, seconds: float) -> None:
        """Let time pass, with a tick every second."""
        end = self.t + seconds
        while self._tick_t <= end:
            self.t = self._tick_t
            self.write(self.engine.handle(Ticked(at=self.now.at, t=self.t)))
            self._tick_t += 1.0
        self.t = end

    def write(self, events: Sequence[Event]) -> None:
        self.lines += [encode(event) for event in events]

    def happen(self, kind: type[Event], **fields: Any) -> None:
        self.put(kind(at=self.now.at, t=self.t, **fields))

    def put(self, event: Event) -> None:
        self.write(self.engine.handle(event))

    def ask(self, type_: str, text: str, **fields: Any) -> str:
        """Return the request that an agent's proposal opens."""
        decided = self.propose("code", type_, text, **fields)
        assert decided is not None
        assert decided.asks is not None
        return decided.asks.request_id

    def propose(
        self, agent: str, type_: str, text: str, *, permission: bool = False, **fields: Any
    ) -> Decided | None:
        """Return what was written of it."""
        self._count += 1
        digest = f"sha256:{fields.pop('digest', (type_, text))}"
        keyless = bool(fields.pop("keyless", False))
        fields = {"id": f"p{self._count}", **fields}
        proposal = Proposal(type=type_, text=text, **fields)
        proposed = Proposed(
            at=self.now.at,
            t=self.t,
            agent=agent,
            proposal=proposal,
            digest=digest,
            keyless=keyless,
            permission=permission,
        )
        _, events = self.engine.decide(proposed)
        self.write(events)
        return next((event for event in events if isinstance(event, Decided)), None)

    def answer(
        self, request_id: str, answer: Literal["approved", "denied"] = "approved", via: str = "cli"
    ) -> None:
        request = self.engine.approvals.find(request_id)
        assert request is not None
        given = Given(answer=answer, by="alice", via="cli")
        found = taken(request, given, self.now, self.engine.approve_via(request), waits=False)
        if isinstance(found, Event):
            self.put(found)

    def outcome(
        self, agent: str, id_: str | None, *, ok: bool = True, usd: float | None = None
    ) -> None:
        telemetry = Outcome(id=id_, ok=ok, cost_usd=usd)
        self.happen(Reported, agent=agent, telemetry=telemetry)


class RandomStory(RecordedStory):
    """A story of arbitrary steps."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.random = random.Random(seed)
        super().__init__(policy, self.random.random())
        self._epoch = 0
        self._steps = (
            *[self._propose] * 12,
            *[self._outcome] * 6,
            *[self._answer] * 4,
            *[self._tell] * 4,
            self._again,
            self._permission,
            self._dry_run,
            self._supersede,
            self._secret,
            self._iterate,
            self._end_session,
            self._unreported,
            self._stop,
            self._resume,
            self._pause,
            self._unpause,
            self._enter,
            self._exit,
            self._claim,
            self._grant,
            self._revoke,
            self._cancel,
            self._defer,
            self._move_channel,
            self._unpark,
            self._revoke_link,
            self._raise_budget,
            self._refuse,
            self._forget,
            self._see,
            self._step_clock,
            self._reload,
        )
        self._last: Decided | None = None

    def play(self, steps: int) -> list[bytes]:
        for _ in range(steps):
            choice = self.random.random()
            if choice < 0.6:
                self.wait(self.random.expovariate(1.0))
            elif choice < 0.7:
                self.wait(self.random.choice((30, 90, 400)) * self.random.random())
            elif choice < 0.715:
                self.wait(4000 * self.random.random())
            self.random.choice(self._steps)()
        return self.lines

    @property
    def agent(self) -> str:
        return self.random.choice(AGENTS)

    def _pending(self) -> str | None:
        pending = [one.id for one in self.engine.approvals.pending()]
        return self.random.choice(pending) if pending else None

    def _propose(self, **fields: Any) -> None:
        type_, text = self.random.choice(TEXTS)
        fields |= {"session": self.random.choice((None, "s"))}
        if type_ == "llm_call":
            fields |= {"model": "m", "cost_usd": 2 * self.random.random()}
        if self.random.random() < 0.3:
            fields |= {"wait": True, "timeout_s": 200.0}
        if self.random.random() < 0.1:
            fields |= {"dependency": "api", "context": {"why": "so"}, "tokens": Tokens(input=5)}
        keyless = self.random.random() < 0.2
        self._last = self.propose(self.agent, type_, text, keyless=keyless, **fields) or self._last

    def _again(self) -> None:
        if self._last is not None:
            last = self._last.proposal
            self.propose(
                self._last.agent, last.type, last.text, id=last.id, digest=self.random.choice("ab")
            )

    def _permission(self) -> None:
        self.propose(self.agent, "push", "release", permission=True, id=self.random.choice("xyz"))

    def _dry_run(self) -> None:
        self._propose(dry_run=True)

    def _supersede(self) -> None:
        if (request := self.engine.approvals.find(self._pending() or "")) is not None:
            self.propose(request.agent, "push", "other", supersedes=request.asked.id)

    def _secret(self) -> None:
        self.propose(self.agent, "type", "hunter2", target=Target(label="Password"))

    def _outcome(self) -> None:
        agent = self.agent
        open_ = self.engine.actions.under_way(agent)
        id_ = self.random.choice(open_) if open_ else "p1"
        self.outcome(agent, id_, ok=self.random.random() < 0.7, usd=self.random.random())

    def _iterate(self) -> None:
        agent = self.agent
        self.happen(Reported, agent=agent, telemetry=Iteration())

    def _end_session(self) -> None:
        agent = self.agent
        ended = SessionEnded(session="s")
        self.happen(Reported, agent=agent, telemetry=ended)

    def _unreported(self) -> None:
        agent = self.agent
        if open_ := self.engine.actions.under_way(agent):
            told = Unreported(id=open_[0])
            self.happen(Reported, agent=agent, telemetry=told)

    def _answer(self) -> None:
        if (id_ := self._pending()) is not None:
            self.answer(id_, self.random.choice(("approved", "approved", "denied")))

    def _stop(self) -> None:
        self._epoch += 1
        agent = self.random.choice((None, *AGENTS))
        self.happen(Stopped, source="operator", by="alice", agent=agent, epoch=self._next_epoch())

    def _next_epoch(self) -> int:
        return self.engine.stop.epoch + 1

    def _resume(self) -> None:
        for stop in self.engine.stop.stops:
            self.happen(
                Resumed,
                sources=(stop.source,),
                by="alice",
                agent=stop.agent,
                epoch=self._next_epoch(),
            )

    def _pause(self) -> None:
        agent = self.agent
        self.happen(Paused, agent=agent, source="operator", by="alice")

    def _unpause(self) -> None:
        for agent in self.engine.guards.pause.agents:
            sources = tuple(pause.source for pause in self.engine.guards.pause.pauses(agent))
            self.happen(Unpaused, agent=agent, sources=sources, by="alice")

    def _enter(self) -> None:
        agent = self.random.choice((None, *AGENTS))
        self.happen(SafeModeEntered, by="alice", agent=agent)

    def _exit(self) -> None:
        held = self.engine.guards.safe_mode.plan_exit(None, self.t, all_=True, force=True)
        for kernel in held.agents:
            agent = None if kernel == "*" else kernel
            self.happen(SafeModeExited, by="alice", agent=agent, forced=True)

    def _claim(self) -> None:
        for agent in AGENTS:
            for request in self.engine.approvals.unused(agent)[:1]:
                self.happen(
                    Claimed, request_id=request.id, agent=agent, id=request.asked.id, claimant="c"
                )

    def _grant(self) -> None:
        self._count += 1
        agent, id_ = self.agent, f"grt_{self._count}"
        type_ = self.random.choice(("push", "run_shell"))
        self.happen(
            Granted,
            id=id_,
            agent=agent,
            by="alice",
            via="cli",
            reason="work",
            uses=2,
            until=self.now.at + timedelta(seconds=500),
            type=type_,
            request_id=self._pending() or "",
            rules=("classify.high",),
        )

    def _revoke(self) -> None:
        for grant in self.engine.grants.live()[:1]:
            made = grant.made
            self.happen(GrantRevoked, grant=made.id, agent=made.agent, by="alice")

    def _cancel(self) -> None:
        if (id_ := self._pending()) is not None:
            self.happen(Cancelled, request_id=id_, by="alice", via="cli")

    def _defer(self) -> None:
        if (id_ := self._pending()) is not None:
            self.happen(
                Deferred, request_id=id_, by="alice", until=self.now.at + timedelta(minutes=9)
            )

    def _tell(self) -> None:
        """Report on all that is to be sent."""
        for delivery in tuple(self.engine.outbox.open()):
            id_, channel = delivery.id, delivery.channel
            state = self.random.choice(("accepted", "delivered", "delivered", "dead", "parked"))
            if state in {"dead", "parked"}:
                self.happen(NotTold, delivery=id_, channel=channel, state=state, error="x")
            else:
                self.happen(Told, delivery=id_, channel=channel, state=state)

    def _move_channel(self) -> None:
        channel, up = self.random.choice(("mail", "phone")), self.random.random() < 0.6
        self.happen(ChannelMoved, channel=channel, up=up)

    def _unpark(self) -> None:
        parked = tuple(delivery.id for delivery in self.engine.outbox.deliveries("parked"))
        if parked:
            self.happen(Unparked, deliveries=parked, by="alice")

    def _revoke_link(self) -> None:
        for delivery in tuple(self.engine.outbox.deliveries())[:1]:
            if (id_ := self._pending()) is not None:
                self.happen(
                    LinkRevoked, delivery=delivery.id, request_id=id_, recipient="alice", why="x"
                )

    def _raise_budget(self) -> None:
        self.happen(BudgetRaised, scope="day", usd=1.0, by="alice", reason="more")

    def _refuse(self) -> None:
        agent = self.agent
        self.happen(Refused, agent=agent, cause="malformed", count=2, example="x")
        self.happen(Withheld, agent=agent, id="p1", why="late")

    def _forget(self) -> None:
        agent = self.agent
        self.happen(Forgotten, agent=agent, by="alice")

    def _see(self) -> None:
        self.happen(PersonSeen, by="alice", how="ack")

    def _step_clock(self) -> None:
        seconds = self.random.choice((-100.0, 60.0))
        self._shift += seconds
        self.happen(ClockStepped, seconds=seconds)

    def _reload(self) -> None:
        self.configure(self.engine.policy)


class BatchedStory(RandomStory):
    """The same on a busy daemon: a tick often has the moment of what came just before it."""

    _late = False

    def wait(self, seconds: float) -> None:
        if seconds < 1 and self._tick_t <= self.t + seconds:
            self.t += seconds
            self._late = True
        else:
            super().wait(seconds)

    def write(self, events: Sequence[Event]) -> None:
        super().write(events)
        if self._late:
            self._late = False
            self._tick_t = self.t + 1.0
            self.write(self.engine.handle(Ticked(at=self.now.at, t=self.t)))
