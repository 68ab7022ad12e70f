import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from errno import ENOSPC
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from safetyd.agents.intake import Intake
from safetyd.agents.pricing import PricesConfig, price_list
from safetyd.agents.proposal_envelope import ProposalEnvelope
from safetyd.bus.codec import read_proposal
from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.engine.journal_lines import decode_batch
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.events.guard_events import Stopped
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from safetyd.core.messages.telemetry import Noted
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from safetyd.journal.audit_reading import lines_after
from safetyd.journal.commit_loop import SLICE_S, CommitLoop, Frozen
from safetyd.journal.journals import MAX_BATCH_BYTES
from safetyd.journal.mailbox import (
    EventEnvelope,
    InquiryEnvelope,
    Mailbox,
    QuestionEnvelope,
    Slices,
)
from safetyd.journal.stream import Displaced, JetStreamJournal
from safetyd.operators.handlers import encoded
from tests.captured_connection import REPLY, CapturedPublisher, never_fails
from tests.nats_process import NatsProcess
from tests.servers import connected, frozen, until
from tests.story import outcome, propose, stop

MAX_BYTES = 64 * 1024 * 1024


class FullDisk(Audit):
    """An audit file that cannot be written for as long as `full`."""

    full = False

    def append(self, lines: Sequence[bytes], last_seq: int) -> None:
        if self.full:
            raise OSError(ENOSPC, "No space left on device")
        super().append(lines, last_seq)


class LoopRig:
    """A loop over a real journal and a real audit file, and what came of its envelopes."""

    def __init__(self, journal: JetStreamJournal, directory: Path) -> None:
        self.directory = directory
        self.journal = journal
        self.audit = FullDisk(directory, MAX_BYTES)
        self.audit.open()
        self.mailbox = Mailbox()
        self.clock = Clock()
        self.sizes: list[int] = []
        self.story: list[str] = []
        self.heard: list[str] = []  # also what is no envelope
        self.loop = CommitLoop(
            self.mailbox,
            Engine(Policy()),
            journal,
            self.audit,
            self.clock,
            observers=[lambda events: self.heard.append(f"{len(events)} events")],
            appended=lambda _seconds, events: self.sizes.append(events),
            flush=lambda: self.heard.append("flushed"),
        )

    def put(self, event: Event, name: str = "told") -> None:
        self.mailbox.put(EventEnvelope(lambda _engine, _moment: event, lambda: self.tell(name)))

    def tell(self, name: str) -> None:
        """Write down what could be seen when somebody was told."""
        seen = f"{name}: journal {self.journal.last}, audit {self.audit.seq}"
        self.story.append(seen)
        self.heard.append(seen)

    def propose(self, proposed: Proposed, late: list[bool]) -> None:
        self.mailbox.put(
            ProposalEnvelope(
                proposed.agent,
                proposed.proposal,
                proposed.digest,
                REPLY,
                CapturedPublisher().publisher,
                lambda _envelope, is_late: late.append(is_late),
                prices=price_list(PricesConfig()),
                intake=Intake(0),
                keyless=False,
                size=100,
            )
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.loop.decide)
            tasks.start_soon(self.loop.answer)
            tasks.start_soon(self.loop.commit)
            yield
            tasks.cancel_scope.cancel()

    async def done(self) -> None:
        """Return once everything that was put before is told."""
        heard = anyio.Event()
        self.mailbox.put(
            QuestionEnvelope(lambda engine, _moment: engine.seq, lambda _: heard.set(), heard.set)
        )
        with anyio.fail_after(15):
            await heard.wait()


@pytest.fixture
async def rig(client: HardenedClient, tmp_path: Path) -> LoopRig:
    journal = JetStreamJournal(client, Subjects(), "b00t")
    await journal.open(MAX_BYTES)
    await client.flush()
    return LoopRig(journal, tmp_path)


async def test_batch_that_only_carries_answers_is_announced_to_nobody(rig: LoopRig) -> None:
    async with rig.at_work():
        await rig.done()

    assert rig.heard == ["flushed"]


async def batches(journal: JetStreamJournal) -> list[list[Event]]:
    return [decode_batch(batch) async for _, batch in journal.replay(0)]


async def steps(count: int = 20) -> None:
    """Let other tasks go on as far as they can without the outside."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


async def test_nobody_is_told_before_journal_and_audit_file_have_it(rig: LoopRig) -> None:
    async with rig.at_work():
        rig.put(stop(0))
        await rig.done()

    assert rig.story == ["told: journal 1, audit 2"]
    assert [event.seq for event in (await batches(rig.journal))[0]] == [1, 2]
    assert len(list(lines_after(rig.directory, 0))) == 2


async def test_step_of_the_wall_clock_is_known_before_anything_that_happens_after_it(
    rig: LoopRig,
) -> None:
    rig.clock._wall_minus_steady -= 100.0  # as if the clock had been put forward since

    async with rig.at_work():
        rig.put(stop(0))
        await rig.done()

    (written, *_), events = await batches(rig.journal), list(lines_after(rig.directory, 0))
    stepped = written[0]
    assert isinstance(stepped, ClockStepped)
    assert 99.0 < stepped.seconds < 101.0
    assert [event.seq for event in written] == list(range(1, len(events) + 1))
    assert any(isinstance(event, Stopped) for event in written[1:])


async def test_while_the_journal_does_not_answer_nothing_is_mirrored_or_told(
    rig: LoopRig, jetstream: NatsProcess
) -> None:
    async with rig.at_work():
        with frozen(jetstream):
            rig.put(stop(0))
            await steps()
            assert rig.story == []
            assert rig.audit.seq == 0
            assert rig.loop.unwritten_s > 0
        await rig.done()

    assert rig.story == ["told: journal 1, audit 2"]
    assert rig.loop.unwritten_s == 0.0


async def test_while_the_audit_file_cannot_be_written_nobody_is_told(
    rig: LoopRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.commit_loop.AUDIT_AGAIN_S", 0.01)
    rig.audit.full = True

    async with rig.at_work():
        rig.put(stop(0))
        await until(lambda: rig.loop.problem)
        problem, journalled, told = rig.loop.problem, rig.journal.last, list(rig.story)
        rig.audit.full = False
        await rig.done()

    assert "No space left on device" in problem
    assert (journalled, told) == (1, [])
    assert rig.story == ["told: journal 1, audit 2"]
    assert rig.loop.problem == ""


async def test_batch_fills_while_another_is_under_way(rig: LoopRig, jetstream: NatsProcess) -> None:
    async with rig.at_work():
        with frozen(jetstream):
            rig.put(stop(0), "first")
            await steps()
            for number in range(1, 10):
                rig.put(stop(number, epoch=number + 1), f"{number}")
            await steps()
        await rig.done()

    assert rig.sizes == [2, 18]
    assert [said.partition(":")[0] for said in rig.story] == ["first", *map(str, range(1, 10))]


async def test_engine_stops_deciding_when_batches_are_full(
    rig: LoopRig, jetstream: NatsProcess
) -> None:
    async with rig.at_work():
        with frozen(jetstream):
            for number in range(12):
                rig.propose(large(number), [])
            await steps(200)
            waiting = len(rig.mailbox)
        await rig.done()

    assert waiting > 0
    assert rig.loop._engine.seq >= 12


def large(number: int) -> Proposed:
    """The longest proposal that is taken, and one that is blocked at that."""
    room = MAX_MESSAGE_BYTES - 9000
    fields = {
        "type": "run_shell",
        "id": f"p{number}",
        "text": "rm -rf /" + "x" * 8000,
        "context": {"numbers": [10**15] * (room // 17)},
    }
    proposal, digest = read_proposal("code", msgspec.json.encode(fields), "spare")
    return Proposed(at=propose(0).at, t=0.0, agent="code", proposal=proposal, digest=digest)


async def test_largest_proposals_make_batches_that_the_server_takes(rig: LoopRig) -> None:
    late: list[bool] = []

    async with rig.at_work():
        for number in range(20):
            rig.propose(large(number), late)
        await rig.done()

    sizes = [len(batch) async for _, batch in rig.journal.replay(0)]
    assert len(late) == 20
    assert max(sizes) <= MAX_BATCH_BYTES
    assert len(sizes) > 5


async def test_decision_that_left_in_time_is_not_late(rig: LoopRig) -> None:
    late: list[bool] = []

    async with rig.at_work():
        rig.propose(propose(0), late)
        await rig.done()

    assert late == [False]


async def test_decision_that_took_too_long_to_write_is_late(
    rig: LoopRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.commit_loop.ALLOW_LEAVES_WITHIN_S", -1.0)
    late: list[bool] = []

    async with rig.at_work():
        rig.propose(propose(0), late)
        await rig.done()

    assert late == [True]


async def test_question_is_answered_after_what_it_saw_is_durable(rig: LoopRig) -> None:
    answers: list[object] = []

    async with rig.at_work():
        rig.put(stop(0))
        rig.mailbox.put(
            QuestionEnvelope(
                lambda engine, _moment: engine.seq,
                lambda seq: answers.append((seq, rig.audit.seq)),
                never_fails,
            )
        )
        await rig.done()

    assert answers == [(2, 2)]


@pytest.mark.req("S1.26")
async def test_outlets_hear_of_events_after_the_answers_left(rig: LoopRig) -> None:
    async with rig.at_work():
        rig.put(stop(0))
        await rig.done()

    assert rig.heard[:3] == ["told: journal 1, audit 2", "flushed", "2 events"]


async def test_envelopes_without_events_write_nothing(rig: LoopRig) -> None:
    async with rig.at_work():
        rig.put(Ticked(at=stop(0).at, t=0.0), "first tick")  # by which a person is seen
        await rig.done()
        rig.put(Ticked(at=stop(0).at, t=0.0))
        await rig.done()

    assert rig.story == ["first tick: journal 1, audit 1", "told: journal 1, audit 1"]
    assert rig.sizes == [1]


async def frozen_state(rig: LoopRig) -> tuple[int, Frozen]:
    """Ask for the state at the next batch boundary and wait for it."""
    taken: list[tuple[int, Frozen]] = []
    heard = anyio.Event()

    def take(stream_seq: int, state: Frozen) -> None:
        taken.append((stream_seq, state))
        heard.set()

    rig.loop.freeze_next(take)
    rig.mailbox.put(EventEnvelope(lambda _engine, _moment: None, lambda: None))
    with anyio.fail_after(10):
        await heard.wait()
    return taken[0]


async def test_frozen_state_equals_what_replay_up_to_that_batch_gives(rig: LoopRig) -> None:
    async with rig.at_work():
        for number in range(50):
            rig.propose(propose(number, id=f"p{number}"), [])
            rig.put(outcome(number, f"p{number}"))
            await anyio.lowlevel.checkpoint()
        stream_seq, state = await frozen_state(rig)
        for number in range(50, 100):
            rig.propose(propose(number, id=f"p{number}"), [])
        await rig.done()

    replayed = Engine(Policy())
    async for sequence, batch in rig.journal.replay(0):
        if sequence <= stream_seq:
            replayed.replay(decode_batch(batch))
    checkpoint = state.encode_engine()
    assert checkpoint == replayed.save()()
    assert checkpoint.seq < rig.loop._engine.seq


async def test_state_of_an_idle_daemon_is_frozen_at_the_newest_batch(rig: LoopRig) -> None:
    async with rig.at_work():
        rig.put(stop(0))
        await rig.done()
        stream_seq, state = await frozen_state(rig)

    assert stream_seq == rig.journal.last == 1
    assert state.encode_engine().seq == 2
    assert state.t >= 0.0


async def test_loop_ends_when_another_daemon_writes(
    rig: LoopRig, jetstream: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.stream.ANSWER_S", 0.2)
    async with connected(jetstream.url) as theirs:
        other = JetStreamJournal(theirs, Subjects(), "other")
        await other.open(MAX_BYTES)
        await theirs.flush()
        await other.append(b"{}")

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - it rises out of the tasks
        async with rig.at_work():
            rig.put(stop(0))
            await rig.done()

    assert caught.group_contains(Displaced)
    assert rig.story == []
    assert rig.audit.seq == 0


async def test_stall_names_what_is_wrong(
    rig: LoopRig, jetstream: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.stream.ANSWER_S", 0.1)
    monkeypatch.setattr("safetyd.journal.commit_loop.STALLED_S", 0.0)
    well = rig.loop.stalled

    async with rig.at_work():
        with frozen(jetstream):
            rig.put(stop(0))
            await steps()
            waiting = rig.loop.stalled
            await until(lambda: rig.journal.problem)
            known = rig.loop.stalled
        await rig.done()

    assert well == ""
    assert waiting.startswith("the journal has not answered for")
    assert known == "the journal's server does not answer"


async def test_what_comes_between_two_slices_of_a_question_is_decided_first(rig: LoopRig) -> None:
    def slices(engine: EngineState, _moment: Moment) -> Slices:
        rig.put(stop(0), "stop")
        yield
        return Noted(ok=bool(engine.stop.stops))

    answers: list[bytes] = []
    rig.mailbox.put_question(
        InquiryEnvelope(
            slices,
            encoded,
            lambda answer: answers.append(bytes(answer)),
            never_fails,
            lambda _: None,
        )
    )
    async with rig.at_work():
        await until(lambda: answers)

    assert answers == [b'{"ok":true}']
    assert rig.story == ["stop: journal 1, audit 2"]


async def test_others_get_their_turn_between_slow_decisions(rig: LoopRig) -> None:
    turns = list[str]()

    def slow(_state: object, _moment: object) -> None:
        time.sleep(2 * SLICE_S)
        turns.append("slow")

    for _ in range(3):
        rig.mailbox.put(EventEnvelope(slow))
    async with rig.at_work():
        while turns.count("slow") < 3:
            turns.append("other")
            await anyio.lowlevel.checkpoint()

    assert "slow other slow" in " ".join(turns)
