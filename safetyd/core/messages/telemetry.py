"""Telemetry: messages in which agents report outcomes, sessions and metrics, tagged by `type`."""

from datetime import datetime
from typing import Final

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

# A detail of an outcome: the reason why the agent's host itself refused the action.
HOST_DENIED: Final = "host_denied"


class Telemetry(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"
): ...


class Outcome(Telemetry, frozen=True, kw_only=True, omit_defaults=True, tag="outcome"):
    """The outcome of an action. `ok` is false if the action could not be carried out."""

    ok: bool  # False: the action could not be carried out.
    id: Token | None = None  # The id of the proposal, if there was one.
    error: Prose = ""  # What went wrong.
    latency_ms: Amount | None = None  # How long the action took, in milliseconds.
    cost_usd: Cost | None = None  # The cost of the action, in US dollars.
    tokens: Tokens | None = None  # The tokens that a model call used.
    model: Word | None = None  # The model that was called.
    dependency: Word | None = None  # The service that failed, for its circuit breaker.
    task: Word | None = None  # The task that the action belongs to.
    session: Word | None = None  # The session of the action, if there was no proposal.
    files_changed: Count | None = None  # How many files the action changed.
    action_type: Word | None = None  # The type of action, if there was no proposal.
    description: Prose = ""  # A description of the action, for the operator.
    details: Json = None  # Other data, such as `exit_code`.
    at: datetime | None = None  # When the action ended.


class SessionStarted(Telemetry, frozen=True, kw_only=True, tag="session_started"):
    session: Word  # The name of the session.
    provider: Word | None = None  # The provider of its model.
    model: Word | None = None  # Its model.


class SessionEnded(Telemetry, frozen=True, kw_only=True, tag="session_ended"):
    session: Word  # The name of the session.
    scheduled_next: Line | None = None  # When the next session is planned, as text.


class EpisodeEnded(Telemetry, frozen=True, kw_only=True, tag="episode_ended"):
    episode: Word  # The name of the episode.


class Iteration(Telemetry, frozen=True, kw_only=True, tag="iteration"):
    session: Word | None = None  # The session in which a new round starts.


class Metrics(Telemetry, frozen=True, kw_only=True, omit_defaults=True, tag="metrics"):
    iterations_per_hour: Amount | None = None  # The number of rounds in the last hour.
    # The cost of model calls in the last hour, in US dollars.
    api_cost_last_hour: Amount | None = None
    # The number of files that the last commit changed.
    files_changed_per_commit: Amount | None = None
    error_rate: Amount | None = None  # The share of actions that failed, from 0 to 1.


class Heartbeat(Telemetry, frozen=True, kw_only=True, tag="heartbeat"):
    """The agent is alive. With `stop_epoch`, it also acknowledges a stop."""

    stop_epoch: Count | None = None  # The epoch of the stop that the agent obeys.


class Commit(Telemetry, frozen=True, kw_only=True, tag="commit"):
    ref: Line  # The commit.
    files_changed: Count | None = None  # How many files the commit changed.


class Rollback(Telemetry, frozen=True, kw_only=True, tag="rollback"):
    ref: Line  # The commit that was restored.
    files_changed: Count | None = None  # How many files were restored.


class Unreported(Telemetry, frozen=True, kw_only=True, tag="unreported"):
    """The agent will report no outcome: it cannot know the outcome, or abandoned the action."""

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
    """The answer to telemetry. `ok` means that the message is in the journal."""

    ok: bool  # True: the message is in the journal.
    error: str = ""  # The reason for a refusal, as text.
    code: Cause | None = None  # The reason as a code. If it is `malformed`, do not retry.
    note: str = ""  # A warning, for example that the action is unknown.
    retry: bool = False  # True: safetyd cannot record it now, but may soon. Send it again.
