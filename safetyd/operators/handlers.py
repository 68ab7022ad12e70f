"""How questions and commands are bound to what answers them, by their types.

Each function returns a pair for the table of a room: the declaration, and what the runner does
with a message of it.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.journal.audit_reading import Rests
from safetyd.journal.mailbox import Ask, Plan, Slices
from safetyd.operators.contract.question import Call, Question
from safetyd.operators.replies import Done, Reply

Answer = msgspec.Struct | msgspec.Raw
Work = Callable[[], Awaitable[Reply]]
Search = Callable[[Rests], Reply]
Sent = TypeVar("Sent", bound=Call[Done])

_encode = msgspec.json.Encoder().encode


def encoded(answer: msgspec.Struct) -> msgspec.Raw:
    return msgspec.Raw(_encode(answer))


class Asker(NamedTuple):
    """Who sent a message, and what gets the answer.

    An answer that waits for the journal is kept as `pack` makes it: as bytes, which are small, or
    as it is for somebody in the same process. How many wait is bounded by `QuestionLimits`.
    """

    by: str
    answered: Callable[[Answer], None]
    pack: Callable[[msgspec.Struct], Answer] = encoded


class Runner(Protocol):
    """The ways in which a message can be answered."""

    def inquire(self, asker: Asker, ask: Ask) -> None:
        """Ask the engine, when it has time."""
        ...

    def carry_out(self, asker: Asker, plan: Plan[Reply]) -> None:
        """Put a command to the engine, in its turn."""
        ...

    def work(self, asker: Asker, work: Work) -> None:
        """Do something aside of the engine, such as changing files."""
        ...

    def look_up(self, asker: Asker, work: Work) -> None:
        """Do the same for a question: one at a time, within the limits of who asks."""
        ...

    def search(self, asker: Asker, search: Search) -> None:
        """Look through the audit files in a thread: one at a time, and timed."""
        ...


Handler = Callable[[Runner, Asker, Any], None]  # Any: each takes the type that it is bound to
Bound = tuple[type[Call[Done]], Handler]
Handlers = Mapping[type[Call[Done]], Handler]


def view(kind: type[Sent], answer: Callable[[EngineState, Moment, Sent], Reply | Slices]) -> Bound:
    """Answer a question with the engine's state."""

    def handle(runner: Runner, asker: Asker, question: Sent) -> None:
        runner.inquire(asker, lambda state, moment: answer(state, moment, question))

    return kind, handle


def overview(kind: type[Sent], answer: Callable[[EngineState, Moment], Reply | Slices]) -> Bound:
    """Do the same for a question that has no fields."""
    return view(kind, lambda state, moment, _question: answer(state, moment))


def plan(kind: type[Sent], make: Callable[[str, Sent], Plan[Reply]]) -> Bound:
    """Check a command at once, and carry it out when its turn comes."""

    def handle(runner: Runner, asker: Asker, command: Sent) -> None:
        runner.carry_out(asker, make(asker.by, command))

    return kind, handle


def work(kind: type[Sent], do: Callable[[str, Sent], Awaitable[Reply]]) -> Bound:
    """Do something that takes files or another program."""

    def handle(runner: Runner, asker: Asker, call: Sent) -> None:
        begin = runner.look_up if issubclass(kind, Question) else runner.work
        begin(asker, partial(do, asker.by, call))

    return kind, handle


def at_once(kind: type[Sent], answer: Callable[[str, Sent], Reply]) -> Bound:
    """Answer without the engine."""

    def handle(_runner: Runner, asker: Asker, call: Sent) -> None:
        asker.answered(answer(asker.by, call))

    return kind, handle


def found(
    kind: type[Sent],
    find: Callable[[Sent], Reply | None],
    search: Callable[[Sent, Rests], Reply],
) -> Bound:
    """Answer from memory or, if that does not have it, from the audit files."""

    def handle(runner: Runner, asker: Asker, question: Sent) -> None:
        known = find(question)
        if known is None:
            runner.search(asker, partial(search, question))
        else:
            asker.answered(known)

    return kind, handle
