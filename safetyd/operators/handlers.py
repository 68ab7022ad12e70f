"""Binds queries and commands to the functions that answer them.

Each function returns a declaration and its handler, for a table of handlers.
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
    """The sender of a message, and the function that receives the answer.

    While an answer waits for the journal, it is stored in the form that `pack` returns: as bytes,
    which are small, or unchanged for a caller in the same process. `QuestionLimits` limits how
    many answers wait.
    """

    by: str
    answered: Callable[[Answer], None]
    pack: Callable[[msgspec.Struct], Answer] = encoded


class Runner(Protocol):
    """The ways to answer a message."""

    def inquire(self, asker: Asker, ask: Ask) -> None:
        """Run a query on the engine between batches."""
        ...

    def carry_out(self, asker: Asker, plan: Plan[Reply]) -> None:
        """Run a command on the engine, in its turn."""
        ...

    def work(self, asker: Asker, work: Work) -> None:
        """Do work outside the engine, such as changing files."""
        ...

    def look_up(self, asker: Asker, work: Work) -> None:
        """Do work outside the engine for a query, one at a time and within the sender's limits."""
        ...

    def search(self, asker: Asker, search: Search) -> None:
        """Search the audit files in a thread, one search at a time, and measure the time."""
        ...


# Any, because each handler takes the type that it is bound to
Handler = Callable[[Runner, Asker, Any], None]
Bound = tuple[type[Call[Done]], Handler]
Handlers = Mapping[type[Call[Done]], Handler]


def view(kind: type[Sent], answer: Callable[[EngineState, Moment, Sent], Reply | Slices]) -> Bound:
    """Answer an operator's query with the engine's state."""

    def handle(runner: Runner, asker: Asker, question: Sent) -> None:
        runner.inquire(asker, lambda state, moment: answer(state, moment, question))

    return kind, handle


def overview(kind: type[Sent], answer: Callable[[EngineState, Moment], Reply | Slices]) -> Bound:
    """Answer a query without fields with the engine's state."""
    return view(kind, lambda state, moment, _question: answer(state, moment))


def plan(kind: type[Sent], make: Callable[[str, Sent], Plan[Reply]]) -> Bound:
    """Validate a command immediately, and run it when its turn comes."""

    def handle(runner: Runner, asker: Asker, command: Sent) -> None:
        runner.carry_out(asker, make(asker.by, command))

    return kind, handle


def work(kind: type[Sent], do: Callable[[str, Sent], Awaitable[Reply]]) -> Bound:
    """Answer with the result of work on files or with another program."""

    def handle(runner: Runner, asker: Asker, call: Sent) -> None:
        begin = runner.look_up if issubclass(kind, Question) else runner.work
        begin(asker, partial(do, asker.by, call))

    return kind, handle


def at_once(kind: type[Sent], answer: Callable[[str, Sent], Reply]) -> Bound:
    """Answer immediately, without the engine."""

    def handle(_runner: Runner, asker: Asker, call: Sent) -> None:
        asker.answered(answer(asker.by, call))

    return kind, handle


def found(
    kind: type[Sent],
    find: Callable[[Sent], Reply | None],
    search: Callable[[Sent, Rests], Reply],
) -> Bound:
    """Answer from memory, or else from the audit files."""

    def handle(runner: Runner, asker: Asker, question: Sent) -> None:
        known = find(question)
        if known is None:
            runner.search(asker, partial(search, question))
        else:
            asker.answered(known)

    return kind, handle
