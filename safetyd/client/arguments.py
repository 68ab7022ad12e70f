"""Types of the client's keyword arguments, for editors and type checkers.

Passing `None` is the same as leaving an argument out.
"""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypedDict, TypeVar, Unpack, get_args, get_origin

from safetyd.core.messages.proposal import (
    Observation,
    Reversibility,
    Risk,
    Scores,
    Target,
    Tokens,
    Urgency,
)

Path = str | os.PathLike[str]
Client = TypeVar("Client")


class Options(TypedDict, total=False):
    """Options of `Safety` and `SyncSafety`. See `discovery` for the defaults."""

    url: str | None
    key_file: Path | None
    data_dir: Path | None
    prefix: str
    deadline_s: float
    wait_if_unreachable: bool


class ProposalFields(TypedDict, total=False):
    """Every field of a proposal except its type and its agent."""

    id: str | None
    text: str | None
    description: str | None
    rationale: str | None
    session: str | None
    episode: str | None
    project: str | None
    chain: str | None
    task: str | None
    urgency: Urgency | None
    wait: bool | None
    timeout_s: float | None
    reversibility: Reversibility | None
    risk: Risk | None
    confidence: float | None
    scores: Scores | Mapping[str, float] | None
    target: Target | Mapping[str, str] | None
    observation: Observation | Mapping[str, str] | None
    model: str | None
    provider: str | None
    cloud: bool | None
    dependency: str | None
    cost_usd: float | None
    tokens: Tokens | Mapping[str, int] | None
    paths: Sequence[Path] | None
    remote: str | None
    cwd: str | None
    context: Mapping[str, object] | None
    rollback: str | None
    request_id: str | None
    at: datetime | None
    dry_run: bool | None
    supersedes: str | None


class AskFields(TypedDict, total=False):
    """Every field of a permission request except its action."""

    id: str | None
    description: str | None
    rationale: str | None
    urgency: Urgency | None
    wait: bool | None
    context: Mapping[str, object] | None
    session: str | None
    timeout_minutes: float | None


class OutcomeFields(TypedDict, total=False):
    """Every field of an outcome except the proposal's id and `ok`."""

    error: str | None
    latency_ms: float | None
    cost_usd: float | None
    tokens: Tokens | Mapping[str, int] | None
    model: str | None
    dependency: str | None
    task: str | None
    session: str | None
    files_changed: int | None
    action_type: str | None
    description: str | None
    details: Mapping[str, object] | None
    at: datetime | None


def shows_fields(client: type[Client]) -> type[Client]:
    """List every keyword argument in the signatures of a class, for `help` and shells."""
    for method in vars(client).values():
        if inspect.isfunction(method):
            signature = inspect.signature(method)
            named = [one for given in signature.parameters.values() for one in _named(given)]
            method.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    return client


def _named(given: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the parameter itself or, for `**fields`, one parameter for each field."""
    if get_origin(given.annotation) is not Unpack:
        yield given
        return
    for name, kind in get_args(given.annotation)[0].__annotations__.items():
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
