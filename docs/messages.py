"""Every message of the protocol: those of operators from their declarations, and the others.

tests/documents/test_contract_spoken.py checks a running daemon against them.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, Literal, get_args

from msgspec import Struct

from safetyd.agents.claims import Claim, ClaimResult
from safetyd.agents.permissions import PermissionAsk, PermissionResult
from safetyd.core.action_types import Mode, Profile
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal, Urgency
from safetyd.core.messages.rollback import Rollback
from safetyd.core.messages.telemetry import AnyTelemetry, Noted
from safetyd.notify.desktop.desktop_content import Action
from safetyd.notify.webhook.channel import Body
from safetyd.operators.contract.question import Call, answer_of, name_of
from safetyd.operators.declarations import COMMANDS, QUESTIONS
from safetyd.operators.replies import Done, Refusal


class DesktopMessage(Struct):
    """A desktop notification; without a `request_id` there is nothing to answer."""

    delivery: str
    request_id: str
    digest: str
    summary: str
    body: str
    actions: tuple[Action, ...]
    urgency: Urgency
    recipient: str


class DesktopTold(Struct):
    """A message for desktop helpers, which reply with `notify_shown`. Not a SafetyEvent."""

    event_type: Literal["DESKTOP_NOTICE"]
    notice: DesktopMessage


class WebhookPosted(Body, frozen=True, kw_only=True):
    """The body posted to a webhook; its headers have the signature.

    The type is the first that applies: requests, reminders, expired requests, alerts, summaries.
    """


class StateStop(Struct):
    """The current stop, repeated every 10 s: for everybody, and for each stopped agent."""

    active: bool
    epoch: int
    reason: str
    by: str
    since: datetime | None
    agent: str | None


class StateMode(Struct):
    """The current mode and profile, repeated every 10 s."""

    mode: Mode
    profile: Profile


class ServiceAnswer(Struct):
    """The reply of a NATS micro service; INFO and STATS have more fields."""

    type: str
    name: str
    id: str
    version: str
    metadata: dict[str, str]


TELEMETRY: Final = {
    f"telemetry_{kind.__struct_config__.tag}": kind for kind in get_args(AnyTelemetry)
}


def schema_name(kind: type[Call[Done]]) -> str:
    """Return the name of the schema of a question or command."""
    return f"{kind.verb}_{name_of(kind)}"


def _of_operators() -> Iterator[tuple[str, type[Struct]]]:
    for kind in (*COMMANDS, *QUESTIONS):
        yield schema_name(kind), kind
        yield f"{schema_name(kind)}_reply", answer_of(kind)


MESSAGES: Final[Mapping[str, type[Struct]]] = {
    "proposal": Proposal,
    "decision": Decision,
    "permission_ask": PermissionAsk,
    "permission_result": PermissionResult,
    "claim": Claim,
    "claim_result": ClaimResult,
    **TELEMETRY,
    "noted": Noted,
    **dict(_of_operators()),
    "refusal": Refusal,
    "desktop_notice": DesktopTold,
    "webhook": WebhookPosted,
    "safety_event": SafetyEvent,
    "state_stop": StateStop,
    "state_mode": StateMode,
    "state_rollback": Rollback,
    "service_reply": ServiceAnswer,
}
