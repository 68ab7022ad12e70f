"""A proposal, and its digest."""

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
# The maximum is checked when a message is parsed: old journals may have larger values.
Cost = Annotated[float, Meta(ge=0, extra_json_schema={"maximum": MAX_USD})]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Score = Annotated[float, Meta(ge=1, le=5)]
# Not `Raw | None`: msgspec would accept only null.
Json = Annotated[object, Meta(extra_json_schema={"type": ["object", "null"]})]

Reversibility = Literal["read_only", "reversible", "irreversible", "unknown"]
Risk = Literal["low", "medium", "high", "prohibited"]
Tier = Literal["auto_allowed", "requires_permission", "prohibited"]
Urgency = Literal["low", "normal", "high"]


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A message of the protocol. Unknown fields are ignored, defaults are not written.

    Messages have no cycles, so the garbage collector skips them.
    """


class Target(Wire, frozen=True, kw_only=True, omit_defaults=True):
    label: Line = ""  # The text on the element.
    name: Line = ""  # The element's name.
    role: Line = ""  # What kind of element it is, such as button.
    app: Line = ""  # The application it is in.
    window: Line = ""  # The title of the window it is in.
    url: Prose = ""  # The address it leads to or is on.


class Observation(Wire, frozen=True, kw_only=True, omit_defaults=True):
    window_title: Line = ""  # The title of the active window.
    app_name: Line = ""  # The active application.
    url: Prose = ""  # The address that is open.
    screen_hash: Line = ""  # A hash of the screen, to recognise it.


class Scores(Wire, frozen=True, kw_only=True):
    strategic_alignment: Score  # From 1 to 5: how well it serves the goal.
    autonomy_appropriateness: Score  # From 1 to 5: how suitable it is without a person.
    output_quality: Score  # From 1 to 5: how good the result will be.
    resource_efficiency: Score  # From 1 to 5: how well it uses time and money.
    learning_application: Score  # From 1 to 5: how well it uses what was learned.


class Tokens(Wire, frozen=True, kw_only=True, omit_defaults=True):
    input: Count = 0  # Tokens sent to the model.
    output: Count = 0  # Tokens received from the model.


class Proposal(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """An action that an agent wants to take. Only `type` is required."""

    # The type of action, such as read_file, edit_file, run_shell, push or click.
    type: Annotated[str, Meta(min_length=1, max_length=128)]
    # Your id for this proposal. The same id and content get the same answer. Made if missing.
    id: Token | None = None
    # Your name, if you repeat it; it must be the one in the subject or address.
    agent: Token | None = None
    text: str = ""  # Exactly what will be executed, typed or sent.
    description: Prose = ""  # What the action does, for an operator to read.
    rationale: Prose = ""  # Why the action is needed, for an operator to read.
    session: Word | None = None  # The session that the action belongs to.
    episode: Word | None = None  # The part of a session in which loops are detected.
    # The configured project in which you work. Without it, the default project applies, if any.
    project: Word | None = None
    chain: Word | None = None  # The chain of delegated work whose budget pays for the action.
    task: Word | None = None  # The task that the action belongs to.
    urgency: Urgency = "normal"  # How urgently an operator must answer, if approval is needed.
    wait: bool = False  # True: if approval is needed, the reply comes when the request has ended.
    timeout_s: Amount | None = None  # For how many seconds a request stays open.
    # Whether it can be undone; this can only make the verdict stricter.
    reversibility: Reversibility | None = None
    risk: Risk | None = None  # How risky it is; this can only make the verdict stricter.
    # How confident you are that the action is right, from 0 to 1.
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    scores: Scores | None = None  # A judge's scores of the action.
    target: Target | None = None  # The element that is clicked or typed into.
    observation: Observation | None = None  # What is on the screen now, for loop detection.
    model: Word | None = None  # The model that is called.
    provider: Word | None = None  # The provider of the model.
    cloud: bool | None = None  # True: the model runs in the cloud.
    # The service that the action depends on, for its circuit breaker.
    dependency: Word | None = None
    cost_usd: Cost | None = None  # What the action costs, in US dollars.
    tokens: Tokens | None = None  # The tokens that a model call will use.
    # The files and folders that the action touches.
    paths: Annotated[tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=1000)] = ()
    remote: Line | None = None  # The remote or server that data is sent to.
    cwd: Line | None = None  # The folder in which the command runs; relative paths start there.
    context: Json = None  # Anything else that an operator should see, such as diff.
    rollback: Prose = ""  # How the action can be undone, for an operator to read.
    request_id: Word | None = None  # The approved request that this proposal uses.
    at: datetime | None = None  # When the proposal was made.
    # True: only return the verdict; nothing is consumed, and nobody is notified.
    dry_run: bool = False
    supersedes: Token | None = None  # The id of an earlier proposal that this one replaces.
    extra: Json = None  # Fields that safetyd does not know; operators see them.


# Fields about delivery and time, which do not change the action.
UNDIGESTED: Final = frozenset(
    {"id", "at", "wait", "timeout_s", "urgency", "request_id", "dry_run", "supersedes"}
)

# Fields that contain other fields.
PARTS: Final = frozenset({"target", "observation", "scores", "tokens"})

_is_token = re.compile(r"[A-Za-z0-9_-]{1,64}\Z").match
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def is_token(name: str) -> bool:
    """Return whether `name` is a valid agent, operator or id in a subject."""
    return _is_token(name) is not None


def shortest(literal: str) -> float | int:
    """Parse a JSON number with a fraction or exponent; return an integer if it is one."""
    number = float(literal)
    if not isfinite(number):
        raise ValueError(f"{literal} is out of range")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def canonical(fields: object) -> bytes:
    """Encode with sorted keys, no spaces and unescaped UTF-8."""
    return _encode_sorted(fields)


def without_nulls(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields without nulls, also in fields that contain fields.

    `context`, `details` and unknown fields stay unchanged.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    for name in PARTS & given.keys():
        part = given[name]
        if isinstance(part, Mapping):
            given[name] = {key: value for key, value in part.items() if value is not None}
    return given


def digest(agent: str, fields: Mapping[str, object]) -> str:
    """Return the digest of a proposal. It does not depend on delivery, ids or time.

    `fields` is the proposal without nulls, with numbers parsed by `shortest`.
    """
    said = dict(fields)
    for key in UNDIGESTED:
        said.pop(key, None)
    said["agent"] = agent
    return "sha256:" + hashlib.sha256(canonical(said)).hexdigest()
