"""A queue, an outbox and the journal between them, for stories about who is told what."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import ApprovalsConfig, request_id
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Asking, Decided
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import (
    Announced,
    ChannelMoved,
    Due,
    Item,
    Note,
    NotTold,
    Told,
)
from safetyd.core.events.request_events import Answered, Expired
from safetyd.core.messages.proposal import Proposal, Urgency
from safetyd.core.messages.verdict import ASK, Verdict
from safetyd.core.on_call import OnCall
from safetyd.core.outbox.outbox import Outbox
from safetyd.core.recipients import (
    CalmConfig,
    ChannelKind,
    Habits,
    QuietHours,
    Recipient,
    TellingConfig,
)
from safetyd.core.rota import RotaPolicy
from tests.story import at, tick

MINUTE = 60.0
HOUR = 3600.0
DAY = 86_400.0
NIGHT = 11 * HOUR  # stories begin at noon, and quiet hours at 23:00
MORNING = 19 * HOUR

NO_ROTA = RotaPolicy()
AWAKE = QuietHours(start="00:00", end="00:00")
MAIL: dict[str, ChannelKind] = {"mail": "email"}
BOTH: dict[str, ChannelKind] = {"mail": "email", "phone": "sms"}
ALL: dict[str, ChannelKind] = {**BOTH, "screen": "desktop", "hook": "webhook", "room": "chat"}


def recipient(name: str, *channels: str, **fields: object) -> Recipient:
    habits = {each: fields.pop(each) for each in Habits.__struct_fields__ if each in fields}
    return Recipient(name=name, channels=channels, habits=Habits(**habits), **fields)  # type: ignore[arg-type]


def alice(channels: Iterable[str] = ("mail",), **fields: object) -> Recipient:
    return recipient("alice", *channels, **fields)


def config(channels: dict[str, ChannelKind] = MAIL, **fields: object) -> TellingConfig:
    """Configure channels, all of them alice's unless other recipients are named.

    Everybody gets everything on every channel, and no message waits for an answer to another one.
    """
    usual = {"strategy": "all", "patience_s": (), "rounds": ()}
    fields = {"recipients": (alice(channels),), **usual, **fields}
    calm = {name: fields.pop(name) for name in CalmConfig.__struct_fields__ if name in fields}
    return TellingConfig(channels=channels, calm=CalmConfig(**calm), **fields)  # type: ignore[arg-type]


def decided(  # noqa: PLR0913
    t: float,
    seq: int,
    id: str = "p1",  # noqa: A002
    agent: str = "code",
    *,
    urgency: Urgency = "normal",
    inferred: bool = False,
    wait: bool = False,
    lasts: float | None = DAY,
    joins: bool = False,
    keyless: bool = False,
) -> Decided:
    """Ask a person; `inferred` is an urgency that the agent did not declare."""
    said: Urgency = "normal" if inferred else urgency
    asks = Asking(
        request_id=request_id(agent, id, seq),
        action=id.encode(),
        urgency=urgency,
        deadline=None if lasts is None else at(t + lasts),
        joins=joins,
    )
    return Decided(
        at=at(t),
        t=float(t),
        agent=agent,
        proposal=Proposal(type="push", id=id, text=id, urgency=said, wait=wait),
        digest=f"sha256:{id}",
        decision=ASK,
        type="push",
        tier="requires_permission",
        reversibility="irreversible",
        risk="high",
        verdicts=(Verdict("classify", ASK, "classify.high", "it is risky"),),
        asks=asks,
        keyless=keyless,
    )


class OutboxStory:
    """Hands each event to the queue and then to the outbox, as the engine does."""

    def __init__(self, telling: TellingConfig | None = None, rota: RotaPolicy = NO_ROTA) -> None:
        self.config = config() if telling is None else telling
        self.rota = rota
        self.seq = 0
        self.now = at(0)
        self.journal: list[bytes] = []
        self.build()

    def build(self) -> None:
        self.approvals = Approvals(ApprovalsConfig())
        self.on_call = OnCall(self.rota)
        self.outbox = Outbox(self.config, self.approvals, self.keyless, self.on_call)

    def keyless(self, agent: str) -> bool:
        return agent.startswith("made-up")

    def happens(self, *events: Event) -> list[Event]:
        """Return everything that was journalled."""
        lasting: list[Event] = []
        for event in events:
            todo, self.now = [event], event.at
            for current in todo:
                if current.lasting:
                    self.seq += 1
                    current.seq = self.seq
                    lasting.append(current)
                todo += self.approvals.observe(current)
                todo += self.on_call.observe(current)
                todo += self.outbox.observe(current)
        self.journal += [encode(event) for event in lasting]
        return lasting

    def dues(self, *events: Event) -> list[Due]:
        return [event for event in self.happens(*events) if isinstance(event, Due)]

    def ticks(self, t: float) -> list[Due]:
        return self.dues(tick(t))

    def asks(self, t: float, id: str = "p1", agent: str = "code", **fields: object) -> str:  # noqa: A002
        """Return the id of the request."""
        self.asked(t, id, agent, **fields)
        return request_id(agent, id, self.last)

    def asked(self, t: float, id: str = "p1", agent: str = "code", **fields: object) -> list[Due]:  # noqa: A002
        """Ask, and return the messages that are due because of it."""
        self.last = self.seq + 1
        return self.dues(decided(t, self.last, id, agent, **fields))  # type: ignore[arg-type]

    def answers(
        self, t: float, ref: str, answer: Literal["approved", "denied"] = "approved"
    ) -> list[Due]:
        request = self.approvals.find(ref)
        assert request is not None
        return self.dues(
            Answered(
                at=at(t),
                t=float(t),
                request_id=ref,
                agent=request.agent,
                id=request.asked.id,
                answer=answer,
                by="alice",
                via="cli",
            )
        )

    def tells(self, t: float, *dues: Due, state: str = "accepted") -> list[Due]:
        return self.dues(*(told(t, due, state) for due in dues))

    def tells_at(self, t: float) -> list[Due]:
        """Let time come, and tell what is due then."""
        dues = self.ticks(t)
        self.tells(t, *dues)
        return dues

    def fails(self, t: float, due: Due, state: str = "dead") -> list[Due]:
        return self.dues(not_told(t, due, state))

    def expires(self, t: float, *refs: str) -> list[Due]:
        return self.dues(Expired(at=at(t), t=float(t), request_ids=refs))

    def waiting(self) -> list[tuple[str, str, int, datetime]]:
        """Return for whom something waits, how much, and until when."""
        return list(self.outbox.waiting(self.now))

    def state(self) -> tuple[bytes, ...]:
        return self.approvals.save()(), self.on_call.save()(), self.outbox.save()()

    def replayed(self) -> "OutboxStory":
        """Return what the journal alone gives."""
        story = OutboxStory(self.config, self.rota)
        for line in self.journal:
            event = decode(line)
            story.seq = event.seq
            todo = [event]
            for current in todo:
                actors = story.approvals, story.on_call, story.outbox
                caused = [found for actor in actors for found in actor.observe(current)]
                todo += [found for found in caused if not found.lasting]
        return story

    def restored(self, telling: TellingConfig | None = None) -> "OutboxStory":
        """Return what a checkpoint gives, maybe with another configuration."""
        story = OutboxStory(telling or self.config, self.rota)
        story.seq, story.now = self.seq, self.now
        story.approvals.load(self.approvals.save()())
        story.on_call.load(self.on_call.save()())
        story.outbox.load(self.outbox.save()())
        return story


def told(t: float, due: Due, state: str = "accepted") -> Told:
    fields = {"state": state, "provider_id": "x1"}
    return Told(at=at(t), t=float(t), delivery=due.delivery, channel=due.channel, **fields)  # type: ignore[arg-type]


def not_told(t: float, due: Due, state: str = "dead") -> NotTold:
    return NotTold(
        at=at(t),
        t=float(t),
        delivery=due.delivery,
        channel=due.channel,
        state=state,  # type: ignore[arg-type]
        error="it said no",
        attempts=2,
        by="bob",  # so that it is no alert
    )


def moved(t: float, channel: str, *, up: bool = False) -> ChannelMoved:
    return ChannelMoved(at=at(t), t=float(t), channel=channel, up=up)


def announced(t: float, id: str = "note_a", kind: str = "test", **fields: object) -> Announced:  # noqa: A002
    urgency = fields.pop("urgency", "normal")
    note = Note(id=id, kind=kind, urgency=urgency, title="hello", text="", at=at(t))  # type: ignore[arg-type]
    return Announced(at=at(t), t=float(t), note=note, **fields)  # type: ignore[arg-type]


def refs(due: Due) -> list[str]:
    return [item.ref for item in due.items]


def kinds(dues: Iterable[Due]) -> list[str]:
    return [item.kind for due in dues for item in due.items]


def channels(dues: Iterable[Due]) -> list[str]:
    return [due.channel for due in dues]


def seconds(due: Due) -> float:
    return (due.at - at(0)) / timedelta(seconds=1)


def requested(ref: str, step: int = 0) -> Item:
    return Item("request" if not step else "reminder", ref, step)
