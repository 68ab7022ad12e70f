"""Telemetry: what an agent reports about itself, tagged by `type`."""

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

    ok: bool  # False: the action could not be carried out.
    id: Token | None = None  # The id of the proposal; missing if there was none.
    error: Prose = ""  # What went wrong.
    latency_ms: Amount | None = None  # How long the action took, in milliseconds.
    cost_usd: Cost | None = None  # What it cost, in US dollars.
    tokens: Tokens | None = None  # The tokens that a model call used.
    model: Word | None = None  # The model that was called.
    dependency: Word | None = None  # The service that failed, for its circuit breaker.
    task: Word | None = None  # The task that the action belongs to.
    session: Word | None = None  # The session that it belongs to, if it has no proposal.
    files_changed: Count | None = None  # How many files it changed.
    action_type: Word | None = None  # The type of action, if it has no proposal.
    description: Prose = ""  # What was done, for an operator to read.
    details: Json = None  # Anything else, such as exit_code.
    at: datetime | None = None  # When the action ended.


class SessionStarted(Telemetry, frozen=True, kw_only=True, tag="session_started"):
    session: Word  # The name of the session.
    provider: Word | None = None  # The provider of its model.
    model: Word | None = None  # Its model.


class SessionEnded(Telemetry, frozen=True, kw_only=True, tag="session_ended"):
    session: Word  # The name of the session.
    scheduled_next: Line | None = None  # When the next session is planned, in words.


class EpisodeEnded(Telemetry, frozen=True, kw_only=True, tag="episode_ended"):
    episode: Word  # The name of the episode.


class Iteration(Telemetry, frozen=True, kw_only=True, tag="iteration"):
    session: Word | None = None  # The session that starts another round.


class Metrics(Telemetry, frozen=True, kw_only=True, omit_defaults=True, tag="metrics"):
    iterations_per_hour: Amount | None = None  # Rounds in the last hour.
    # Spent on model calls in the last hour, in US dollars.
    api_cost_last_hour: Amount | None = None
    files_changed_per_commit: Amount | None = None  # Files changed in the last commit.
    error_rate: Amount | None = None  # Share of actions that failed.


class Heartbeat(Telemetry, frozen=True, kw_only=True, tag="heartbeat"):
    """The agent is alive; with `stop_epoch`, it also acknowledges that stop."""

    stop_epoch: Count | None = None  # The epoch of the stop that the agent obeys.


class Commit(Telemetry, frozen=True, kw_only=True, tag="commit"):
    ref: Line  # The commit.
    files_changed: Count | None = None  # How many files it changed.


class Rollback(Telemetry, frozen=True, kw_only=True, tag="rollback"):
    ref: Line  # The commit that was restored.
    files_changed: Count | None = None  # How many files were restored.


class Unreported(Telemetry, frozen=True, kw_only=True, tag="unreported"):
    """No outcome of this action will follow: the agent cannot know it, or abandons the action."""

    id: Token  # The id of the proposal.


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

    ok: bool  # True: the message is in the journal.
    error: str = ""  # Why it was refused.
    code: Cause | None = None  # The kind of reason; after malformed, do not send it again.
    note: str = ""  # What is odd about it, such as the outcome of an unknown action.
