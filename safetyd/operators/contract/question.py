"""The base classes of queries and commands.

The class is the declaration: its tag is the name on the bus, the first line of its docstring is the
help, its type argument is the answer. Subjects, HTTP routes, documents, completion and role checks
are derived from it.
"""

from typing import ClassVar, Final, Generic, Literal, TypeVar, get_args

import msgspec

from safetyd.bus.subjects import OBSERVER_VERBS
from safetyd.operators.replies import Done

Verb = Literal["query", "control", "review"]
Role = Literal["operator", "observer"]  # observers can only send queries
Answer_co = TypeVar("Answer_co", bound=Done, covariant=True)

TAG_FIELD: Final = "command"


class Call(msgspec.Struct, Generic[Answer_co], frozen=True, omit_defaults=True):
    """A message to the daemon. The answer is an `Answer_co` or a refusal."""

    verb: ClassVar[Verb]  # part of the subject; it decides who may send the message
    # Answered without the engine, even while another daemon may be writing the journal.
    always: ClassVar[bool] = False


class Question(Call[Answer_co], frozen=True, tag_field=TAG_FIELD):
    """A call that changes nothing. Without `paths` it has no HTTP route."""

    verb: ClassVar[Verb] = "query"
    paths: ClassVar[tuple[str, ...]] = ()  # below /api/v1; names in braces are fields
    # Needed for `stop` and `deny --agent`, so operators get the answer under any load.
    protecting: ClassVar[bool] = False


class Command(Call[Answer_co], frozen=True, tag_field=TAG_FIELD):
    """A call that changes something."""

    verb: ClassVar[Verb] = "control"


class Review(Command[Answer_co], frozen=True):
    """An answer to requests for approval."""

    verb: ClassVar[Verb] = "review"


def name_of(kind: type[Call[Done]]) -> str:
    """Return the name of a query or command on the bus."""
    return str(kind.__struct_config__.tag)


def needed_role(kind: type[Call[Done]]) -> Role:
    """Return the lowest role that may send a query or command."""
    return "observer" if kind.verb in OBSERVER_VERBS else "operator"


def answer_of(kind: type[Call[Answer_co]]) -> type[Answer_co]:
    """Return the struct of the answer to a query or command."""
    bases = getattr(kind, "__orig_bases__")  # noqa: B009 - mypy knows it for no class
    answer: type[Answer_co] = get_args(bases[0])[0]
    return answer


def summary_of(kind: type[Call[Done]]) -> str:
    """Return the one-line help of a query or command."""
    return (kind.__doc__ or "").partition("\n")[0]
