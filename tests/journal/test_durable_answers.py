"""Nothing that leaves the process mentions an event that is not in the journal.

Random stories of proposals, answers, pauses, questions and messages run against the real commit
loop, over a journal in memory and over JetStream. The journal acknowledges late, and the daemon may
crash at any point and start again from what is written.
"""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from safetyd.agents.agent_service import AgentService
from safetyd.agents.emergency_stop import StopFlag
from safetyd.agents.held_replies import HeldReplies
from safetyd.agents.refusals import Refusals
from safetyd.bus.subjects import Subjects
from safetyd.clock import Reading
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.policy import Policy
from safetyd.daemon.config import Config
from safetyd.daemon.settings import Settings
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoints import Checkpoints
from safetyd.journal.commit_loop import CommitLoop
from safetyd.journal.journals import Journal, MemoryJournal
from safetyd.journal.mailbox import CommandEnvelope, EventEnvelope, InquiryEnvelope, Mailbox
from safetyd.journal.recovery import restore
from safetyd.journal.stream import JetStreamJournal
from safetyd.monitoring.metrics import Metrics
from safetyd.monitoring.published_events import PublishedEvents
from safetyd.notify.channel import Channel, Limits, Receipt
from safetyd.notify.compose import Composer
from safetyd.notify.delivery.dispatch import Dispatch
from safetyd.notify.message import Notice
from safetyd.operators.commands import PLANS
from safetyd.operators.contract.request_contract import PendingQuestion
from safetyd.operators.handlers import encoded
from safetyd.operators.reviews import Review
from safetyd.operators.views.request_view import pending
from tests.captured_connection import CapturedPublisher, never_fails
from tests.examples import examples
from tests.journal.delayed_journal import DelayedJournal
from tests.nats_process import NatsProcess
from tests.notify.compose_rig import BATCH_S, FakeLinks, box, telling
from tests.operators.bound_handlers import read_review, taken
from tests.servers import connected, forget_journal
from tests.web.link_site import HandClock

AGENT: Final = "code"
ALL: Final = 1_000
POLICY: Final = Policy(telling=telling("email"))
_REQUEST: Final = re.compile(r"req_[0-9a-f]{12}")
_encode = msgspec.json.Encoder(enc_hook=repr).encode


class StoryClock(HandClock):
    def read(self) -> Reading:
        return Reading(self.now(), 0.0)


class Letterbox(Channel):
    """A channel that reports each message to the watcher."""

    name = "email"
    limits = Limits(deadline_s=10.0)

    def __init__(self, left: Callable[[object], None]) -> None:
        self._left = left

    async def send(self, notice: Notice) -> Receipt:
        self._left(notice)
        return Receipt("accepted", "1")

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()


class Watcher:
    """Compares everything that leaves with the journal as it is at that moment."""

    def __init__(self, journal: DelayedJournal) -> None:
        self._journal = journal
        self.count = 0
        self.wrong: list[str] = []

    def left(self, message: object) -> None:
        self.count += 1
        text = _encode(message).decode()
        durable = self._journal.durable
        asked = Counter(e.asks.request_id for e in durable if isinstance(e, Decided) and e.asks)
        ahead = [seq for seq in _seqs(msgspec.json.decode(text)) if seq > len(durable)]
        if ahead:
            self.wrong.append(f"{text} is ahead of the journal, which has {len(durable)} events")
        if set(_REQUEST.findall(text)) - asked.keys():
            self.wrong.append(f"{text} names a request that is not in the journal")
        cards = message.cards if isinstance(message, Notice) else ()
        if any(asked[card.id] < card.count for card in cards):
            self.wrong.append(f"{text} counts a repeat that is not in the journal")


def _seqs(part: object) -> Iterable[int]:
    if isinstance(part, dict):
        if isinstance(seq := part.get("seq"), int):
            yield seq
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _seqs(each)


class Life:
    """A daemon from its start to its crash: the commit loop, and everything that speaks."""

    def __init__(
        self,
        engine: Engine,
        journal: DelayedJournal,
        audit: Audit,
        watcher: Watcher,
        clock: StoryClock,
        place: Path,
    ) -> None:
        self.clock = clock
        self.watcher = watcher
        self.mailbox = Mailbox()
        self.engine = engine
        self._wire = CapturedPublisher()
        self._held = HeldReplies({False: self._wire.publisher}, StopFlag())
        composer = Composer(FakeLinks(), box)
        self._dispatch = Dispatch(self.mailbox, clock, composer, self._open_channels)
        self.loop = CommitLoop(
            self.mailbox,
            self.engine,
            journal,
            audit,
            clock,
            conclude=self._held.conclude,
            observers=(
                PublishedEvents(self._wire.publisher, Subjects()).observe,
                self._dispatch.observe,
                self._watch_events,
            ),
            flush=self._watch_wire,
        )
        self._agents = AgentService(
            self._wire.publisher,
            self.mailbox,
            Settings(Config(), None, place),
            StopFlag(),
            Refusals(),
            Metrics("1"),
            answers=self._held,
            clock=clock,
            keyless=False,
            problem=str,
            boot_id="b00t",
        )

    def start(self, tasks: anyio.abc.TaskGroup) -> None:
        for task in (self.loop.decide, self.loop.answer, self.loop.commit, self._dispatch.run):
            tasks.start_soon(task)

    async def rest(self) -> None:
        """Let everything go on that does not wait for the journal."""
        for _ in range(3):
            for _ in range(15):
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(0.0005)  # questions rest on a real clock
        self._watch_wire()

    def propose(self, id_: str, *, wait: bool) -> None:
        fields = {"type": "push", "id": id_, "text": "git push origin main", "wait": wait}
        payload = msgspec.json.encode(fields)
        self._agents.propose(b"safety.v1.propose.code", b"_R_.reply", payload)

    def ask_permission(self, id_: str) -> None:
        payload = msgspec.json.encode({"action": "push", "id": id_, "wait": True})
        self._agents.permission(b"safety.v1.permission.code", b"_R_.reply", payload)

    def answer(self, answer: str) -> None:
        """Answer all that the engine holds pending: an operator may type faster than disks."""
        ids = [request.id for request in self.engine.approvals.pending()]
        if ids:
            command = read_review({"command": answer, "ids": ids})
            review = Review("alice", command, self._held.waits, self.watcher.left)
            for envelope in review.envelopes():
                self.mailbox.put(envelope)

    def command(self, name: str) -> None:
        plan = taken(PLANS, "control", name, "alice", {"agent": AGENT})
        self.mailbox.put(CommandEnvelope(plan, self.watcher.left, never_fails))

    def look(self) -> None:
        def ask(engine: EngineState, moment: Moment) -> msgspec.Struct:
            return pending(engine, moment, PendingQuestion())

        self.mailbox.put_question(
            InquiryEnvelope(ask, encoded, self.watcher.left, never_fails, lambda _: None)
        )

    def tick(self) -> None:
        self.clock.t += BATCH_S

        def made(_engine: EngineState, moment: Moment) -> Event:
            return Ticked(at=moment.at, t=moment.t)

        self.mailbox.put(EventEnvelope(made, lambda: None))

    def _watch_wire(self) -> None:
        for said in self._wire.said():
            self.watcher.left(said.fields)

    def _watch_events(self, events: Iterable[Event]) -> None:
        for event in events:
            self.watcher.left({"seq": event.seq})

    async def _open_channels(self, only: Iterable[str] | None) -> Mapping[str, Channel]:
        return {} if only is not None else {"email": Letterbox(self.watcher.left)}


STEPS: Final[dict[str, Callable[[Life], None]]] = {
    "propose p1": lambda life: life.propose("p1", wait=True),
    "propose p2": lambda life: life.propose("p2", wait=False),
    "ask permission": lambda life: life.ask_permission("p3"),
    "approve": lambda life: life.answer("approve"),
    "deny": lambda life: life.answer("deny"),
    "pause": lambda life: life.command("pause"),
    "unpause": lambda life: life.command("unpause"),
    "look": Life.look,
    "tick": Life.tick,
}
# What the journal and the machine do: one append becomes durable, all of them, or a crash after
# which none or all of the appends that were under way turn out to be written.
FATES: Final = ("written", "all written", "crash", "crash after writing")

stories = st.lists(st.sampled_from((*STEPS, *FATES, "written", "all written")), max_size=40)


OpenJournal = Callable[[], AbstractAsyncContextManager[Journal]]


async def live(story: list[str], open_journal: OpenJournal, place: Path) -> Watcher:
    """Play a story; return who watched it."""
    clock, steps = StoryClock(), iter(story)
    async with open_journal() as inner:
        journal = DelayedJournal(inner)
    watcher = Watcher(journal)
    crashed = True
    while crashed:
        async with open_journal() as journal.inner, anyio.create_task_group() as tasks:
            life = await started(journal, watcher, clock, place)
            life.start(tasks)
            crashed = await until_crash(life, journal, steps)
            tasks.cancel_scope.cancel()
        journal.lose()
    return watcher


async def started(
    journal: DelayedJournal, watcher: Watcher, clock: StoryClock, place: Path
) -> Life:
    """Start a daemon from the journal alone."""
    directory = Path(tempfile.mkdtemp(dir=place))
    audit = Audit(directory, 64 * 1024 * 1024)
    audit.open()
    restored = await restore(POLICY, Checkpoints(directory / "checkpoints"), journal, audit)
    assert restored.replayed == len(journal.durable)
    return Life(restored.engine, journal, audit, watcher, clock, place)


async def until_crash(life: Life, journal: DelayedJournal, steps: Iterator[str]) -> bool:
    """Go on with a story; return False if it ended without a crash."""
    for step in steps:
        if act := STEPS.get(step):
            act(life)
        elif step == "written":
            await write(life, journal, 1)
        elif step == "all written":
            await write(life, journal, ALL)
        elif step == "crash after writing":
            while journal.unacknowledged:
                await journal.acknowledge(arrives=False)
            return True
        else:
            return True
        await life.rest()
    return False


async def write(life: Life, journal: DelayedJournal, most: int) -> None:
    while most and journal.unacknowledged:
        await journal.acknowledge()
        await life.rest()
        most -= 1


def in_memory() -> OpenJournal:
    journal = MemoryJournal()

    @asynccontextmanager
    async def open_() -> AsyncIterator[Journal]:
        yield journal

    return open_


def in_jetstream(bus: NatsProcess) -> OpenJournal:
    """Return what opens an empty stream, and the same one from then on, each time as a daemon."""
    boots = count()

    @asynccontextmanager
    async def open_() -> AsyncIterator[Journal]:
        async with connected(bus.url) as client:
            boot = next(boots)
            if boot == 0:
                await forget_journal(client, bus)
            journal = JetStreamJournal(client, Subjects(), f"boot{boot}")
            await journal.open(16 * 1024 * 1024)
            await client.flush()
            yield journal

    return open_


def play(story: list[str], open_journal: OpenJournal) -> Watcher:
    place = Path(tempfile.mkdtemp())
    try:
        return anyio.run(live, story, open_journal, place)
    finally:
        shutil.rmtree(place)


# The answer to p1 concludes in one batch, and p1 is decided again in the next.
OVERTAKEN: Final = [
    *("propose p1", "all written", "pause", "approve", "unpause", "propose p1"),
    *("written", "written", "all written", "crash", "propose p1", "all written"),
]
# p1 is due to be sent when its request is repeated.
REPEATED: Final = ["propose p1", "all written", "tick", "propose p2", "written", "all written"]


@examples(5)
@given(story=stories)
@example(story=OVERTAKEN)
@example(story=REPEATED)
def test_nothing_leaves_that_is_not_in_a_journal_in_memory(story: list[str]) -> None:
    assert play([*story, "written"], in_memory()).wrong == []


@examples(0.2)
@given(story=stories)
@example(story=OVERTAKEN)
@example(story=REPEATED)
def test_nothing_leaves_that_is_not_in_jetstream(jetstream: NatsProcess, story: list[str]) -> None:
    assert play([*story, "written"], in_jetstream(jetstream)).wrong == []


def test_stories_make_the_daemon_speak(jetstream: NatsProcess) -> None:
    story = ["propose p1", "propose p2", "look", "all written", "tick", "all written"]

    for open_journal in (in_memory(), in_jetstream(jetstream)):
        assert play(story, open_journal).count > 10
