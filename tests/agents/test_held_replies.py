from collections.abc import Callable

import pytest

from safetyd.agents.emergency_stop import StopFlag
from safetyd.agents.held_replies import MAX_HELD, HeldReplies, HeldReply, Shape
from safetyd.agents.permissions import result
from safetyd.core.approvals.request import MAX_JOINED
from safetyd.core.file_commits import CommitFirst
from safetyd.core.guards.stop import as_stop
from tests.captured_connection import REPLY, CapturedPublisher
from tests.core.approvals.queue_story import QueueStory
from tests.story import stop


class Room:
    """People, an agent's connection, and the replies that wait."""

    def __init__(self, *, keyless: bool = False) -> None:
        self.queue = QueueStory()
        self.captured = CapturedPublisher(keyless=keyless)
        self.stop_flag = StopFlag()
        self.answers = HeldReplies({keyless: self.captured.publisher}, self.stop_flag)

    def hold(self, id_: str = "p1", reply: bytes = REPLY, shape: Shape | None = None) -> bool:
        request = next(self.queue.engine.approvals.pending("code"))
        return self.answers.hold(request, id_, HeldReply(self.captured.publisher, reply, shape))

    def denies(self, request_id: str | None, by: str = "alice") -> None:
        self.tells(lambda: self.queue.answers(1, request_id, "denied", by=by))

    def tells(self, act) -> None:
        """Let something happen, and tell of it as of what is written down."""
        act()
        engine = self.queue.engine
        self.answers.conclude(engine, engine.take_conclusions())()


async def test_who_waits_is_told_and_so_is_the_bus() -> None:
    room = Room()
    asked = room.queue.asks(0, wait=True)
    assert room.hold()

    room.denies(asked.request_id)

    on_bus, reply = room.captured.said()
    assert on_bus.subject == "safety.v1.decision.code.p1"
    assert (reply.subject, reply.fields["cause"]) == (REPLY.decode(), "human_denied")


async def test_who_waits_is_told_once() -> None:
    room = Room()
    asked = room.queue.asks(0, wait=True)
    room.hold()
    room.denies(asked.request_id)
    room.captured.said()

    room.denies(asked.request_id, by="bob")

    assert room.captured.said() == []


async def test_a_reply_has_the_shape_that_was_asked_for() -> None:
    room = Room()
    asked = room.queue.asks(0, wait=True)
    room.hold(shape=result)

    room.tells(lambda: room.queue.answers(1, asked.request_id, words="go", waits=True))

    assert room.captured.answer() == {"approved": True, "message": "go"}


async def test_repeats_that_wait_are_told_that_another_took_their_place() -> None:
    room = Room()
    asked = room.queue.asks(0, wait=True)
    room.queue.asks(0, "p2", wait=True)
    room.hold("p1", b"_R_.first")
    room.hold("p2", b"_R_.second")

    room.tells(lambda: room.queue.answers(1, asked.request_id, waits=True))

    told = {said.subject: said.fields["cause"] for said in room.captured.said()}
    assert told["_R_.first"] == "superseded"
    assert told["_R_.second"] == "human_approved"


async def test_nobody_waits_for_what_will_not_be_told() -> None:
    room = Room()
    room.queue.asks(0)
    for number in range(MAX_JOINED + 1):
        room.queue.asks(0, f"r{number}")

    assert room.hold(f"r{MAX_JOINED - 1}")
    assert not room.hold(f"r{MAX_JOINED}")
    assert not room.hold("unknown")


async def test_of_too_many_replies_the_newest_are_told() -> None:
    room = Room()
    asked = room.queue.asks(0)
    for number in range(MAX_HELD + 1):
        room.hold("p1", b"_R_.%d" % number)

    room.denies(asked.request_id)

    told = [said.subject for said in room.captured.said() if said.subject.startswith("_R_")]
    assert told == [f"_R_.{n}" for n in range(1, MAX_HELD + 1)]


async def test_only_the_first_proposal_counts_as_waiting() -> None:
    room = Room()
    asked = room.queue.asks(0)
    room.queue.asks(0, "p2")
    request = room.queue.request(asked.request_id)

    room.hold("p2")
    assert not room.answers.waits(request)
    room.hold("p1")
    assert room.answers.waits(request)


async def test_a_proposal_that_waits_takes_the_request_over() -> None:
    room = Room()
    asked = room.queue.asks(0)
    room.queue.asks(0, "p2", wait=True)
    request = room.queue.request(asked.request_id)

    room.hold("p1")
    assert not room.answers.waits(request)
    room.hold("p2")
    assert room.answers.waits(request)


@pytest.mark.parametrize("keyless", [True, False])
async def test_what_has_no_connection_is_told_to_nobody(keyless: bool) -> None:  # noqa: FBT001
    room = Room(keyless=keyless)
    asked = room.queue.asks(0, keyless=False)

    room.denies(asked.request_id)

    assert len(room.captured.said()) == (0 if keyless else 1)


async def test_an_allow_that_a_stop_overtook_does_not_leave() -> None:
    room = Room()
    asked = room.queue.asks(0, wait=True)
    room.hold()
    room.stop_flag.set(as_stop(stop(1)))

    room.tells(lambda: room.queue.answers(1, asked.request_id, waits=True))

    assert {said.fields["decision"] for said in room.captured.said()} == {"block"}
    room.stop_flag.clear(["operator"], 2)
    assert room.queue.asks(3, wait=True).allowed, "the same id finds it again"


class LaterCommits:
    """Commits that are made when the test says so."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self.before: list[tuple[str, str]] = []

    def after(
        self, agent: str, id_: str, first: CommitFirst | None, act: Callable[[], None]
    ) -> None:
        self.before.append((agent, id_))
        self._waiting.append(act)

    def made(self) -> None:
        for act in self._waiting:
            act()
        self._waiting.clear()


def room_with_commits() -> tuple[Room, LaterCommits]:
    room, commits = Room(), LaterCommits()
    publishers = {False: room.captured.publisher}
    room.answers = HeldReplies(publishers, room.stop_flag, commits)
    return room, commits


async def test_an_approval_leaves_after_the_commit_before_it() -> None:
    room, commits = room_with_commits()
    asked = room.queue.asks(0, wait=True)
    room.hold()

    room.tells(lambda: room.queue.answers(1, asked.request_id, waits=True))
    before = room.captured.said()
    commits.made()

    assert before == []
    assert commits.before == [("code", "p1")]
    assert [said.fields["cause"] for said in room.captured.said()] == ["human_approved"] * 2


async def test_an_approval_that_a_stop_overtook_while_it_was_committed_does_not_leave() -> None:
    room, commits = room_with_commits()
    asked = room.queue.asks(0, wait=True)
    room.hold()
    room.tells(lambda: room.queue.answers(1, asked.request_id, waits=True))

    room.stop_flag.set(as_stop(stop(2)))
    commits.made()

    assert room.captured.answer()["cause"] == "stopped"


async def test_a_no_waits_for_no_commit() -> None:
    room, commits = room_with_commits()
    asked = room.queue.asks(0, wait=True)
    room.hold()

    room.denies(asked.request_id)

    assert room.captured.answer()["cause"] == "human_denied"
    assert commits.before == []
