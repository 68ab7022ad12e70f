"""The messages on each subject."""

from typing import Final, Literal

from msgspec import Struct

from docs.messages import TELEMETRY, schema_name
from safetyd.bus.subjects import Subjects
from safetyd.operators.contract.question import Call, summary_of
from safetyd.operators.declarations import COMMANDS, QUESTIONS
from safetyd.operators.replies import Done


class Exchange(Struct, frozen=True, kw_only=True):
    """The messages sent on a subject, and the replies if they are requests."""

    name: str
    channel: str
    address: str
    by: Literal["agent", "operator", "daemon"]
    says: tuple[str, ...]
    answers: tuple[str, ...] = ()
    summary: str


_of = Subjects().of


def _of_operators(kind: type[Call[Done]]) -> Exchange:
    name = schema_name(kind)
    return Exchange(
        name=name,
        channel=kind.verb,
        address=_of(kind.verb, "{operator}"),
        by="operator",
        says=(name,),
        answers=(f"{name}_reply", "refusal"),
        summary=summary_of(kind),
    )


EXCHANGES: Final = (
    Exchange(
        name="propose",
        channel="propose",
        address=_of("propose", "{agent}"),
        by="agent",
        says=("proposal",),
        answers=("decision",),
        summary="An agent proposes an action. No answer means no.",
    ),
    Exchange(
        name="ask_permission",
        channel="permission",
        address=_of("permission", "{agent}"),
        by="agent",
        says=("permission_ask",),
        answers=("permission_result",),
        summary="An agent asks for approval, or for the state of its requests.",
    ),
    Exchange(
        name="claim",
        channel="claim",
        address=_of("claim", "{agent}"),
        by="agent",
        says=("claim",),
        answers=("claim_result",),
        summary="An executor claims an approved action; only one claim is granted.",
    ),
    Exchange(
        name="tell",
        channel="telemetry",
        address=_of("telemetry", "{agent}"),
        by="agent",
        says=tuple(TELEMETRY),
        answers=("noted",),
        summary="An agent reports the outcome of an action, or its own state.",
    ),
    *map(_of_operators, (*COMMANDS, *QUESTIONS)),
    Exchange(
        name="find_service",
        channel="service",
        address="$SRV.{verb}",
        by="operator",
        says=("service_request",),
        answers=("service_reply",),
        summary="Find and measure the daemon as a NATS micro service, also at $SRV.{verb}.safetyd.",
    ),
    Exchange(
        name="publish_decision",
        channel="decision",
        address=_of("decision", "{agent}", "{id}"),
        by="daemon",
        says=("decision",),
        summary="Every decision, also for agents that did not wait for the reply.",
    ),
    Exchange(
        name="publish_event",
        channel="event",
        address=_of("event", "{event_type}"),
        by="daemon",
        says=("safety_event",),
        summary="An event for operators, logs and dashboards.",
    ),
    Exchange(
        name="publish_desktop_notice",
        channel="desktop",
        address=_of("event", "DESKTOP_NOTICE"),
        by="daemon",
        says=("desktop_notice",),
        summary="A message for desktop helpers, with `notifications.desktop.helper`.",
    ),
    Exchange(
        name="publish_stop",
        channel="state_stop",
        address=_of("state", "stop"),
        by="daemon",
        says=("state_stop",),
        summary="The current stops, on every change and every 10 s.",
    ),
    Exchange(
        name="publish_mode",
        channel="state_mode",
        address=_of("state", "mode"),
        by="daemon",
        says=("state_mode",),
        summary="The current mode and profile, every 10 s.",
    ),
    Exchange(
        name="publish_rollback",
        channel="state_rollback",
        address=_of("state", "rollback"),
        by="daemon",
        says=("state_rollback",),
        summary="A finished rollback of a project's files.",
    ),
)
