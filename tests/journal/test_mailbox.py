import anyio

from safetyd.clock import uptime
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.journal.mailbox import MAX_BYTES, MAX_ENVELOPES, STALLED_S, Envelope, Mailbox, Question


class Note(Envelope):
    """An envelope that says nothing, of any size and age."""

    def __init__(self, size: int = 1, age_s: float = 0.0) -> None:
        self.size = size
        self.received = uptime() - age_s

    def open(self, state: EngineState, moment: Moment) -> tuple[Event, ...]:
        return ()

    def deliver(self, *, late: bool) -> None: ...


class Asked(Note, Question):
    done = False


def test_envelopes_come_out_in_the_order_they_went_in() -> None:
    mailbox, first, second = Mailbox(), Note(), Note()
    mailbox.put(first)
    mailbox.put(second)

    assert [mailbox.take(), mailbox.take(), mailbox.take()] == [first, second, None]


def test_stop_goes_before_everything_that_waits() -> None:
    mailbox, waiting, stop = Mailbox(), Note(), Note()
    mailbox.put(waiting)
    mailbox.put_first(stop)

    assert [mailbox.take(), mailbox.take()] == [stop, waiting]


def test_empty_mailbox_is_never_full() -> None:
    assert not Mailbox().full


def test_too_many_envelopes_fill_it() -> None:
    mailbox = Mailbox()
    for _ in range(MAX_ENVELOPES):
        mailbox.put(Note())

    assert len(mailbox) == MAX_ENVELOPES
    assert mailbox.full


def test_too_many_bytes_fill_it_until_they_are_taken() -> None:
    mailbox = Mailbox()
    mailbox.put(Note(size=MAX_BYTES))

    full = mailbox.full
    mailbox.take()
    mailbox.put(Note())

    assert full
    assert not mailbox.full


def test_envelope_that_has_waited_too_long_fills_it() -> None:
    mailbox = Mailbox()
    mailbox.put(Note(age_s=STALLED_S + 0.1))

    assert mailbox.full


def test_stop_put_first_counts_its_bytes() -> None:
    mailbox = Mailbox()
    mailbox.put_first(Note(size=MAX_BYTES))

    assert mailbox.full


async def test_waiting_ends_when_a_envelope_comes() -> None:
    mailbox = Mailbox()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mailbox.wait)
        await anyio.lowlevel.checkpoint()
        mailbox.put(Note())

    assert len(mailbox) == 1


async def test_waiting_ends_at_once_when_something_is_there() -> None:
    mailbox = Mailbox()
    mailbox.put(Note())

    with anyio.fail_after(30):
        await mailbox.wait()


async def test_a_envelope_that_was_taken_wakes_nobody_later() -> None:
    mailbox = Mailbox()
    mailbox.put(Note())
    mailbox.take()

    with anyio.move_on_after(0) as scope:
        await mailbox.wait()

    assert scope.cancelled_caught


def test_questions_wait_apart_and_in_order() -> None:
    mailbox, first, second, envelope = Mailbox(), Asked(), Asked(), Note()
    mailbox.put_question(first)
    mailbox.put_question(second)
    mailbox.put(envelope)

    assert [mailbox.take(), mailbox.take()] == [envelope, None]
    assert [mailbox.take_question() for _ in range(3)] == [first, second, None]


def test_question_that_is_not_done_goes_on_before_others() -> None:
    mailbox, first, second = Mailbox(), Asked(), Asked()
    mailbox.put_question(first)
    mailbox.put_question(second)

    mailbox.put_back(first)

    assert mailbox.take_question() is first


def test_no_question_fills_it() -> None:
    mailbox = Mailbox()
    for _ in range(MAX_ENVELOPES):
        mailbox.put_question(Asked(size=MAX_BYTES, age_s=STALLED_S + 0.1))

    assert not mailbox.full


async def test_waiting_for_a_question_ends_when_one_comes() -> None:
    mailbox = Mailbox()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mailbox.wait_for_question)
        await anyio.lowlevel.checkpoint()
        mailbox.put_question(Asked())
