"""Proposals and their digests."""

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
MAX_LINE: Final = 1024
MAX_DEPTH: Final = 32

# An id becomes part of a subject. The pattern does not end with `$`, which would also match before
# a final newline.
Token = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}(?![\s\S])")]
MAX_WORD: Final = 128
Word = Annotated[str, Meta(max_length=MAX_WORD)]
Line = Annotated[str, Meta(max_length=MAX_LINE)]
Prose = Annotated[str, Meta(max_length=8192)]
Amount = Annotated[float, Meta(ge=0)]
# The maximum is checked only when a message is parsed, because old journals may have larger values.
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
    """A message of the protocol. Unknown fields are ignored, and defaults are not written.

    Messages have no cycles, so the garbage collector skips them.
    """


class Target(Wire, frozen=True, kw_only=True, omit_defaults=True):
    label: Line = ""  # The text on the element.
    name: Line = ""  # The element's name.
    role: Line = ""  # The kind of element, such as button.
    app: Line = ""  # The application that contains the element.
    window: Line = ""  # The title of the window that contains the element.
    url: Prose = ""  # The URL that the element links to, or the URL of its page.


class Observation(Wire, frozen=True, kw_only=True, omit_defaults=True):
    window_title: Line = ""  # The title of the active window.
    app_name: Line = ""  # The active application.
    url: Prose = ""  # The URL of the open page.
    screen_hash: Line = ""  # A hash of the screen, to recognise the same screen again.


class Scores(Wire, frozen=True, kw_only=True):
    strategic_alignment: Score  # How well the action serves the goal, from 1 to 5.
    # How appropriate it is to act without approval, from 1 to 5.
    autonomy_appropriateness: Score
    output_quality: Score  # How good the result will be, from 1 to 5.
    resource_efficiency: Score  # How well the action uses time and money, from 1 to 5.
    learning_application: Score  # How well the action applies earlier lessons, from 1 to 5.


class Tokens(Wire, frozen=True, kw_only=True, omit_defaults=True):
    input: Count = 0  # Tokens sent to the model.
    output: Count = 0  # Tokens received from the model.
    cached: Count = 0  # Input tokens that the provider had in its cache.


class Proposal(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """An action that an agent wants to take. Only `type` is required."""

    # The type of action, such as read_file, edit_file, run_shell, push or click.
    type: Annotated[str, Meta(min_length=1, max_length=128)]
    # Your id for this proposal. If you send none, safetyd creates one. If you repeat an id with the
    # same content, you get the same answer.
    id: Token | None = None
    # Your agent name (optional). If set, it must equal the name in the subject or URL.
    agent: Token | None = None
    text: str = ""  # The exact text that will be executed, typed or sent.
    description: Prose = ""  # A description of the action, for the operator.
    rationale: Prose = ""  # The reason for the action, for the operator.
    session: Word | None = None  # The session that the action belongs to.
    episode: Word | None = None  # The part of a session in which loops are detected.
    # The name of the configured project that you work in. Without it, the default project applies.
    project: Word | None = None
    # The chain of delegated work that the action belongs to. The chain may have a budget.
    chain: Word | None = None
    task: Word | None = None  # The task that the action belongs to.
    urgency: Urgency = "normal"  # How urgently you need an answer, if the action needs approval.
    # True: if the action needs approval, safetyd replies only when the request has ended.
    wait: bool = False
    timeout_s: Amount | None = None  # How many seconds an approval request stays open.
    # Whether the action can be undone. Your value can only make the verdict stricter.
    reversibility: Reversibility | None = None
    # How risky the action is. Your value can only make the verdict stricter.
    risk: Risk | None = None
    # How confident you are that the action is right, from 0 to 1.
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    scores: Scores | None = None  # Scores that your own judge gave the action.
    target: Target | None = None  # The element that the action clicks or types into.
    observation: Observation | None = None  # The current screen, for loop detection.
    model: Word | None = None  # The model that is called.
    provider: Word | None = None  # The provider of the model.
    cloud: bool | None = None  # True: the model runs in the cloud.
    # The service that the action depends on, for its circuit breaker.
    dependency: Word | None = None
    cost_usd: Cost | None = None  # The expected cost of the action, in US dollars.
    tokens: Tokens | None = None  # The tokens that a model call will use.
    # The files and folders that the action touches.
    paths: Annotated[tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=1000)] = ()
    remote: Line | None = None  # The remote or server that data is sent to.
    cwd: Line | None = None  # The folder in which the command runs. Relative paths start there.
    context: Json = None  # Other data for the operator, such as `diff`.
    rollback: Prose = ""  # How the action can be undone, for the operator.
    request_id: Word | None = None  # The approved request that this proposal uses.
    at: datetime | None = None  # When the proposal was made.
    # True: safetyd only returns the verdict. The proposal uses no limit or budget, and nobody is
    # notified.
    dry_run: bool = False
    supersedes: Token | None = None  # The id of an earlier proposal that this one replaces.
    extra: Json = None  # Fields that safetyd does not know. Operators see them.


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
    """Return the fields without nulls. Also remove nulls from fields that contain fields.

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
