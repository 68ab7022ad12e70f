"""Whatever agents ask, people answer and channels do: nobody is flooded, and nobody is left out."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BudgetMarked
from safetyd.core.events.notification_events import Due, LinkOpened, Unparked
from safetyd.core.events.request_events import Cancelled, Deferred
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.recipients import ChannelKind, ChannelUse, QuietHours, Recipient, TellingConfig
from safetyd.core.rota import RotaPolicy, WeeklyShift
from tests.core.outbox.outbox_story import (
    BOTH,
    HOUR,
    MINUTE,
    NIGHT,
    NO_ROTA,
    OutboxStory,
    alice,
    announced,
    config,
    moved,
    not_told,
    recipient,
    told,
)
from tests.examples import examples
from tests.story import at, resume, stop, tick

BOB = Recipient(name="bob", channels=("phone",), agents=("code", "web"))
PEOPLE = (alice(BOTH, backup="bob"), BOB)
EVERYONE = recipient("everyone", "hook", shared=True)
WITH_HOOK: Final[dict[str, ChannelKind]] = {**BOTH, "hook": "webhook"}
INTERVAL = 60.0
PATIENT = (900.0, 1800.0)
MOST_IN_AN_HOUR = 10  # messages of one person by mail that are not urgent
ROTA = RotaPolicy(
    timezone="UTC",
    shifts=(
        WeeklyShift(who="alice", from_="08:00", to="02:00"),
        WeeklyShift(who="bob", from_="02:00", to="06:00"),
    ),
    wake_for={"bob": ("push",)},
)
USES: Final[dict[str, dict[str, ChannelUse]]] = {
    "none": {},
    "urgent": {"phone": ChannelUse(min_urgency="high")},
    "hours": {
        "mail": ChannelUse(hours=QuietHours(start="09:00", end="18:00"), wait_s=600.0),
        "phone": ChannelUse(min_urgency="normal"),
    },
    "seldom": {
        "mail": ChannelUse(hours=QuietHours(start="13:00", end="14:00")),
        "phone": ChannelUse(hours=QuietHours(start="14:00", end="15:00")),
    },
}


class Step(NamedTuple):
    """One thing that happens, and how many seconds after the last."""

    what: str
    after: float = 1.0
    number: int = 0


class OutboxModel:
    """An outbox, what was due in it, and what must always be true of it."""

    def __init__(self, telling: TellingConfig, rota: RotaPolicy = NO_ROTA) -> None:
        self.story = OutboxStory(telling, rota)
        self.t = 0.0
        self.asked: list[str] = []
        self.dues: list[Due] = []
        self.over: set[str] = set()

    def does(self, step: Step) -> None:
        self.t += step.after
        self.new: list[Due] = []
        before = set(self.over)
        getattr(self, step.what)(step.number)
        self.over = {ref for ref in self.asked if not self.pending(ref)}
        for due in self.new:
            assert not {i.ref for i in due.items if i.kind != "expired"} & before
        self.dues += self.new
        self.check()

    def happens(self, *events: Event) -> None:
        self.new = self.story.dues(*events)

    def pending(self, ref: str) -> bool:
        request = self.story.approvals.find(ref)
        return request is not None and request.pending

    def ask(self, number: int) -> None:
        urgency = ("low", "normal", "normal", "high")[number % 4]
        lasts = (None, 10 * MINUTE, HOUR, 12 * HOUR)[number // 4 % 4]
        agent = ("code", "ops", "web")[number // 16 % 3]
        fields = {"urgency": urgency, "lasts": lasts, "inferred": number > 40, "wait": number > 30}
        self.new = self.story.asked(self.t, f"p{len(self.asked)}", agent, **fields)
        (*_, request) = self.story.approvals.pending()
        self.asked.append(request.id)

    def storm(self, number: int) -> None:
        everything: list[Due] = []
        for _ in range(12):
            self.ask(number)
            everything += self.new
        self.new = everything

    def answer(self, number: int) -> None:
        self.new = self.story.answers(self.t, self.some(number)) if self.asked else []

    def cancel(self, number: int) -> None:
        fields = {"request_id": self.some(number), "by": "bob", "via": "cli"}
        self.happens(Cancelled(at=at(self.t), t=self.t, **fields))  # type: ignore[arg-type]

    def put_off(self, number: int) -> None:
        fields = {"request_id": self.some(number), "by": "bob", "until": at(self.t + 30 * MINUTE)}
        self.happens(Deferred(at=at(self.t), t=self.t, **fields))  # type: ignore[arg-type]

    def some(self, number: int) -> str:
        return self.asked[number % len(self.asked)] if self.asked else "req_none"

    def tell(self, number: int) -> None:
        state = "delivered" if number % 2 else "accepted"
        self.happens(*(told(self.t, due, state) for due in self.under_way(number)))

    def fail(self, number: int) -> None:
        state = ("dead", "undelivered", "parked", "cancelled", "expired", "quiet")[number % 6]
        self.happens(*(not_told(self.t, due, state) for due in self.under_way(number)))

    def under_way(self, number: int) -> list[Due]:
        ids = {d.id for d in self.story.outbox.deliveries() if d.under_way or d.state == "accepted"}
        dues = [due for due in self.dues if due.delivery in ids]
        return [dues[number % len(dues)]] if dues else []

    def tell_all(self, number: int) -> None:
        self.happens(*(told(self.t, due) for due in self.dues))

    def unpark(self, number: int) -> None:
        ids = tuple(delivery.id for delivery in self.story.outbox.deliveries("parked"))
        self.happens(Unparked(at=at(self.t), t=self.t, deliveries=ids, by="bob"))

    def open(self, number: int) -> None:
        for due in self.dues[number % 8 :][:1]:
            ids = tuple(item.ref for item in due.items if item.ref in self.asked)
            fields = {"delivery": due.delivery, "recipient": due.recipient, "request_ids": ids}
            self.happens(LinkOpened(at=at(self.t), t=self.t, **fields))  # type: ignore[arg-type]

    def move(self, number: int) -> None:
        channel = ("mail", "phone")[number % 2]
        self.happens(moved(self.t, channel, up=number % 4 > 1))

    def alarm(self, number: int) -> None:
        self.happens(stop(self.t, epoch=number))

    def go_on(self, number: int) -> None:
        self.happens(resume(self.t, epoch=number))

    def mark(self, number: int) -> None:
        fields = {"id": "x", "spent": 9.0, "reserved": 0.0, "limit": 10.0, "estimate": 2.0}
        mark = ("warning", "exceeded")[number % 2]
        scope = ("day", "chain")[number // 2 % 2]
        self.happens(BudgetMarked(at=at(self.t), t=self.t, mark=mark, scope=scope, **fields))  # type: ignore[arg-type]

    def announce(self, number: int) -> None:
        kind = ("test", "alert")[number % 2]
        self.happens(announced(self.t, f"note_t{int(self.t)}_{number}", kind))

    def tick(self, number: int) -> None:
        self.happens(tick(self.t))

    def restart(self, number: int) -> None:
        journal, seq = self.story.journal, self.story.seq
        self.story = self.story.restored()
        self.story.journal, self.story.seq, self.new = journal, seq, []

    def check(self) -> None:
        self.check_batches()
        self.check_nights()
        for ref in filter(self.pending, self.asked):
            assert self.calm(ref) or self.looked_after(ref)

    def calm(self, ref: str) -> bool:
        """Return True if nobody wants to know of a request."""
        request = self.story.approvals.find(ref)
        return (
            request is not None
            and request.urgency == "low"
            and self.story.config.min_urgency != "low"
        )

    def looked_after(self, ref: str) -> bool:
        """Return True if a request waits, was sent or was put off. A night ends in a queue."""
        state = self.story.outbox._state
        sent = any(delivery.state != "quiet" for delivery in self.story.outbox.told(ref))
        put_off = state.cases[ref].tell_by is None and state.cases[ref].next is not None
        return sent or put_off or any(queue.holds(ref) for queue in state.lanes.values())

    def check_nights(self) -> None:
        """Nothing comes at night that can wait, and what is urgent comes only a few times."""
        for due in filter(batch, self.new):
            assert self.story.outbox.quiet_until(due.recipient, due.at) is None
        nights: dict[tuple[str, object], set[object]] = {}
        for due in self.dues:
            urgent = due.urgency == "high" and any(item.ref in self.asked for item in due.items)
            until = self.story.outbox.quiet_until(due.recipient, due.at)
            if until is not None and urgent and due.recipient != EVERYONE.name:
                night = due.recipient, until
                nights.setdefault(night, set()).add(due.at)  # all channels at once
        calm, on_call = self.story.config.calmness, self.story.rota.in_use
        most = calm.on_call_night_messages if on_call else calm.night_messages
        assert max(map(len, nights.values()), default=0) <= most

    def check_hours(self) -> None:
        """Nobody who has patience gets too many messages in an hour."""
        for name in ("alice", "bob"):
            sent = [
                due.at
                for due in filter(batch, self.dues)
                if (due.recipient, due.channel) == (name, "mail")
            ]
            within = [sum(a <= b < a + timedelta(hours=1) for b in sent) for a in sent]
            assert max(within, default=0) <= MOST_IN_AN_HOUR

    def check_batches(self) -> None:
        """No queue has two batches under way, and no two of them come too soon."""
        if self.story.config.calmness.patience_s:
            self.check_hours()
        under_way = [d for d in self.story.outbox.deliveries() if d.under_way and batch(d)]
        queues = [(d.recipient, d.channel) for d in under_way]
        assert len(queues) == len(set(queues))
        last: dict[tuple[str, str], Due] = {}
        for due in filter(batch, self.dues):
            queue = due.recipient, due.channel
            apart = (due.at - last[queue].at).total_seconds() if queue in last else INTERVAL
            assert apart >= INTERVAL
            last[queue] = due

    def ends(self) -> None:
        """The journal gives the same, and so does a checkpoint; and so does what comes next."""
        story = self.story
        replayed, restored = story.replayed(), story.restored()
        assert replayed.state() == story.state() == restored.state()
        for later in (MINUTE, HOUR):
            caused = [each.happens(tick(self.t + later)) for each in (story, replayed, restored)]
            assert caused[0] == caused[1] == caused[2]
        assert replayed.state() == story.state() == restored.state()


def batch(due: Due | Delivery) -> bool:
    """Return True if a message is neither urgent nor a test nor a handover."""
    return due.urgency != "high" and due.items[0].kind not in {"test", "alert"}


WHATS = [
    "ask",
    "ask",
    "ask",
    "storm",
    "answer",
    "cancel",
    "put_off",
    "tell",
    "tell_all",
    "tell_all",
    "fail",
    "open",
    "unpark",
    "move",
    "alarm",
    "go_on",
    "mark",
    "announce",
    "tick",
    "tick",
    "tick",
    "restart",
]
gaps = st.sampled_from([0.0, 1.0, 30.0, 61.0, 299.0, 15 * MINUTE, HOUR, NIGHT])
stories = st.lists(
    st.builds(Step, st.sampled_from(WHATS), gaps, st.integers(0, 63)), min_size=1, max_size=30
)


def people(uses: str, backup: str, *, everyone: bool) -> tuple[Recipient, ...]:
    found = alice(BOTH, backup=backup, uses=USES[uses]), BOB
    return (*found, EVERYONE) if everyone else found


configs = st.builds(
    lambda recipients, strategy, mode, least, bypass, patience, rounds: config(
        WITH_HOOK,
        recipients=recipients,
        strategy=strategy,
        batch_mode=mode,
        min_urgency=least,
        quiet_bypass=bypass,
        patience_s=patience,
        rounds=rounds,
    ),
    st.builds(
        people,
        st.sampled_from(sorted(USES)),
        st.sampled_from(["", "bob"]),
        everyone=st.booleans(),
    ),
    st.sampled_from(["sequential", "all"]),
    st.sampled_from(["trailing", "leading"]),
    st.sampled_from(["low", "normal"]),
    st.sampled_from(["high", "none"]),
    st.sampled_from([PATIENT, ()]),
    st.sampled_from([("09:00", "16:00"), ("12:01", "13:00", "23:00"), ()]),
)
rotas = st.sampled_from([NO_ROTA, ROTA])

OUTAGE = [
    Step("ask", 0, 1),
    Step("tick", 61),
    Step("fail", 1, 2),
    Step("storm", 1, 1),
    Step("move", 1, 0),
    Step("tick", 15 * MINUTE),
    Step("restart", 1),
    Step("unpark", 1),
    Step("tell_all", 1),
    Step("tick", 61),
]
ONE_NIGHT = [
    Step("storm", NIGHT, 3),
    Step("ask", 0, 35),
    Step("alarm", 0, 1),
    Step("put_off", 1, 0),
    Step("tell_all", 1),
    Step("tick", HOUR),
    Step("fail", 1, 5),
    Step("announce", 1, 0),
    Step("announce", 1, 1),
    Step("answer", 1, 1),
    Step("cancel", 1, 2),
    Step("tick", 8 * HOUR),
]


@pytest.mark.req("S3.37", "S3.38", "S3.63", "K4")
@given(configs, rotas, stories)
@example(config(BOTH, recipients=PEOPLE, strategy="sequential"), NO_ROTA, OUTAGE)
@example(config(BOTH, recipients=PEOPLE, strategy="sequential"), ROTA, OUTAGE + ONE_NIGHT)
@example(config(BOTH, recipients=PEOPLE), NO_ROTA, ONE_NIGHT)
@example(config(BOTH, recipients=PEOPLE, batch_mode="leading"), NO_ROTA, OUTAGE + ONE_NIGHT)
def test_nobody_is_flooded_and_the_journal_knows_everything(
    telling: TellingConfig, rota: RotaPolicy, steps: Sequence[Step]
) -> None:
    model = OutboxModel(telling, rota)

    for step in steps:
        model.does(step)

    model.ends()


@pytest.mark.req("S3.29", "K4")
@examples(0.5)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, 20.0, 61.0]), st.integers(0, 3)), max_size=25),
    st.sampled_from(["trailing", "leading"]),
)
@example([(1.0, 3)] * 12, "trailing")
@example([(0.0, 0)] * 5 + [(0.0, 1), (20.0, 0)] + [(61.0, 0)] * 4 + [(61.0, 3)], "leading")
def test_whoever_hears_of_an_agent_hears_of_each_of_its_requests_on_every_channel(
    asks: list[tuple[float, int]], mode: str
) -> None:
    model = OutboxModel(config(BOTH, recipients=PEOPLE, batch_mode=mode))
    for after, number in asks:
        model.does(Step("ask", after, number))

    for _ in range(40):
        model.does(Step("tick", 5 * MINUTE))
        model.does(Step("tell_all", 0.0))

    queues = {("alice", "mail"), ("alice", "phone"), ("bob", "phone")}
    for ref in filter(model.pending, model.asked):
        found = model.story.outbox.told(ref)
        assert {(delivery.recipient, delivery.channel) for delivery in found} == queues


def test_stories_reach_every_kind_of_event() -> None:
    model = OutboxModel(config(BOTH, recipients=PEOPLE, strategy="sequential"))

    for step in OUTAGE + ONE_NIGHT:
        model.does(step)

    assert any(due.digest for due in model.dues)
    assert any(due.channel == "phone" for due in model.dues)
    assert any(b'"event":"climbed"' in line for line in model.story.journal)
