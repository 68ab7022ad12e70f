"""What an agent tells of itself, tagged by `type`."""

from datetime import datetime

import msgspec

from safetyd.core.messages.proposal import (
    Amount,
    Cost,
    Count,
    Json,
    Line,
    Prose,
    Token,
    Tokens,
    Word,
)
from safetyd.core.messages.verdict import Cause


class Telemetry(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"
): ...


class Outcome(Telemetry, frozen=True, kw_only=True, omit_defaults=True, tag="outcome"):
    """How an allowed action went. `ok` is false when it could not be carried out."""

    ok: bool
    id: Token | None = None
    error: Prose = ""
    latency_ms: Amount | None = None
    cost_usd: Cost | None = None
    tokens: Tokens | None = None
    model: Word | None = None
    dependency: Word | None = None
    task: Word | None = None
    session: Word | None = None
    files_changed: Count | None = None
    action_type: Word | None = None
    description: Prose = ""
    details: Json = None
    at: datetime | None = None


class SessionStarted(Telemetry, frozen=True, kw_only=True, tag="session_started"):
    session: Word
    provider: Word | None = None
    model: Word | None = None


class SessionEnded(Telemetry, frozen=True, kw_only=True, tag="session_ended"):
    session: Word
    scheduled_next: Line | None = None


class EpisodeEnded(Telemetry, frozen=True, kw_only=True, tag="episode_ended"):
    episode: Word


class Iteration(Telemetry, frozen=True, kw_only=True, tag="iteration"):
    session: Word | None = None


class Metrics(Telemetry, frozen=True, kw_only=True, omit_defaults=True, tag="metrics"):
    iterations_per_hour: Amount | None = None
    api_cost_last_hour: Amount | None = None
    files_changed_per_commit: Amount | None = None
    error_rate: Amount | None = None


class Heartbeat(Telemetry, frozen=True, kw_only=True, tag="heartbeat"):
    """I am here; with `stop_epoch`, I know of that stop and hold still."""

    stop_epoch: Count | None = None


class Commit(Telemetry, frozen=True, kw_only=True, tag="commit"):
    ref: Line
    files_changed: Count | None = None


class Rollback(Telemetry, frozen=True, kw_only=True, tag="rollback"):
    ref: Line
    files_changed: Count | None = None


class Unreported(Telemetry, frozen=True, kw_only=True, tag="unreported"):
    """No outcome of this action will come: who asked cannot know how it goes, or leaves it."""

    id: Token


AnyTelemetry = (
    Outcome
    | SessionStarted
    | SessionEnded
    | EpisodeEnded
    | Iteration
    | Metrics
    | Heartbeat
    | Commit
    | Rollback
    | Unreported
)


class Noted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to telemetry: `ok` means that it is in the journal."""

    ok: bool
    error: str = ""
    code: Cause | None = None  # malformed: sending it again is no use
