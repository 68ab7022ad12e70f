"""What an agent sends when it wants to act, and the digest that names it."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from safetyd.core.messages.money import MAX_USD

MAX_MESSAGE_BYTES: Final = 64 * 1024
MAX_TEXT_BYTES: Final = 8 * 1024
MAX_DEPTH: Final = 32

# Not `$`, which also matches before a last newline: an id becomes part of a subject.
Token = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}(?![\s\S])")]
Word = Annotated[str, Meta(max_length=128)]
Line = Annotated[str, Meta(max_length=1024)]
Prose = Annotated[str, Meta(max_length=8192)]
Amount = Annotated[float, Meta(ge=0)]
# The largest is refused where it is read, not here: journals are kept, and may hold larger ones.
Cost = Annotated[float, Meta(ge=0, extra_json_schema={"maximum": MAX_USD})]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Score = Annotated[float, Meta(ge=1, le=5)]
# Not `Raw | None`: msgspec reads that as null alone and refuses every value.
Json = Annotated[object, Meta(extra_json_schema={"type": ["object", "null"]})]

Reversibility = Literal["read_only", "reversible", "irreversible", "unknown"]
Risk = Literal["low", "medium", "high", "prohibited"]
Tier = Literal["auto_allowed", "requires_permission", "prohibited"]
Urgency = Literal["low", "normal", "high"]


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A message of the contract: unknown fields are ignored, defaults are not written.

    No message can hold itself, so the garbage collector need not look at any.
    """


class Target(Wire, frozen=True, kw_only=True, omit_defaults=True):
    label: Line = ""
    name: Line = ""
    role: Line = ""
    app: Line = ""
    window: Line = ""
    url: Prose = ""


class Observation(Wire, frozen=True, kw_only=True, omit_defaults=True):
    window_title: Line = ""
    app_name: Line = ""
    url: Prose = ""
    screen_hash: Line = ""


class Scores(Wire, frozen=True, kw_only=True):
    strategic_alignment: Score
    autonomy_appropriateness: Score
    output_quality: Score
    resource_efficiency: Score
    learning_application: Score


class Tokens(Wire, frozen=True, kw_only=True, omit_defaults=True):
    input: Count = 0
    output: Count = 0


class Proposal(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """An action that an agent would like to take. Only `type` is required."""

    type: Annotated[str, Meta(min_length=1, max_length=128)]
    id: Token | None = None
    agent: Token | None = None
    text: str = ""
    description: Prose = ""
    rationale: Prose = ""
    session: Word | None = None
    episode: Word | None = None
    project: Word | None = None
    chain: Word | None = None
    task: Word | None = None
    urgency: Urgency = "normal"
    wait: bool = False
    timeout_s: Amount | None = None
    reversibility: Reversibility | None = None
    risk: Risk | None = None
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    scores: Scores | None = None
    target: Target | None = None
    observation: Observation | None = None
    model: Word | None = None
    provider: Word | None = None
    cloud: bool | None = None
    dependency: Word | None = None
    cost_usd: Cost | None = None
    tokens: Tokens | None = None
    paths: Annotated[tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=1000)] = ()
    remote: Line | None = None
    cwd: Line | None = None  # where the relative paths of a command begin
    context: Json = None
    rollback: Prose = ""
    request_id: Word | None = None
    at: datetime | None = None
    dry_run: bool = False
    supersedes: Token | None = None
    extra: Json = None  # the fields that safetyd does not know, shown on every card


# How a proposal travels and when is not part of what would be done.
UNDIGESTED: Final = frozenset(
    {"id", "at", "wait", "timeout_s", "urgency", "request_id", "dry_run", "supersedes"}
)

# The fields of a message that have fields of their own.
PARTS: Final = frozenset({"target", "observation", "scores", "tokens"})

_is_token = re.compile(r"[A-Za-z0-9_-]{1,64}\Z").match
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def is_token(name: str) -> bool:
    """Say whether `name` may stand for an agent, an operator or an id in a subject."""
    return _is_token(name) is not None


def shortest(literal: str) -> float | int:
    """Read a JSON number with a fraction or exponent, as an integer where it is one."""
    number = float(literal)
    if not isfinite(number):
        raise ValueError(f"{literal} is out of range")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def canonical(fields: object) -> bytes:
    """Encode with sorted keys, no spaces and unescaped UTF-8."""
    return _encode_sorted(fields)


def without_nulls(fields: Mapping[str, object]) -> dict[str, object]:
    """Leave out what is null, which says the same as nothing; also in a field that has fields.

    What an agent puts into `context`, `details` or a field that nobody knows stays as it is.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    for name in PARTS & given.keys():
        part = given[name]
        if isinstance(part, Mapping):
            given[name] = {key: value for key, value in part.items() if value is not None}
    return given


def digest(agent: str, fields: Mapping[str, object]) -> str:
    """Name what would be done: the same for every retelling of one proposal.

    `fields` is the proposal as an object without nulls, its numbers read with `shortest`.
    """
    said = dict(fields)
    for key in UNDIGESTED:
        said.pop(key, None)
    said["agent"] = agent
    return "sha256:" + hashlib.sha256(canonical(said)).hexdigest()
