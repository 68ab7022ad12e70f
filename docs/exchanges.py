"""Who says what where: the subjects that exist now."""

from typing import Final, Literal

from msgspec import Struct

from docs.messages import TELEMETRY, schema_name
from safetyd.bus.subjects import Subjects
from safetyd.operators.contract.question import Call, summary_of
from safetyd.operators.declarations import COMMANDS, QUESTIONS
from safetyd.operators.replies import Done


class Exchange(Struct, frozen=True, kw_only=True):
    """What is said on a subject and, if it is a request, what is answered."""

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
        summary="An agent asks whether it may act. No answer means no.",
    ),
    Exchange(
        name="ask_permission",
        channel="permission",
        address=_of("permission", "{agent}"),
        by="agent",
        says=("permission_ask",),
        answers=("permission_result",),
        summary="An agent asks a person, or how its own requests stand.",
    ),
    Exchange(
        name="claim",
        channel="claim",
        address=_of("claim", "{agent}"),
        by="agent",
        says=("claim",),
        answers=("claim_result",),
        summary="Whoever is about to do what a person approved claims it; one wins.",
    ),
    Exchange(
        name="tell",
        channel="telemetry",
        address=_of("telemetry", "{agent}"),
        by="agent",
        says=tuple(TELEMETRY),
        answers=("noted",),
        summary="An agent tells how an action went, and of itself.",
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
        summary="Every answer to a proposal, for who did not wait for the reply.",
    ),
    Exchange(
        name="publish_event",
        channel="event",
        address=_of("event", "{event_type}"),
        by="daemon",
        says=("safety_event",),
        summary="What people, logs and dashboards are told.",
    ),
    Exchange(
        name="publish_desktop_notice",
        channel="desktop",
        address=_of("event", "DESKTOP_NOTICE"),
        by="daemon",
        says=("desktop_notice",),
        summary="What helpers show on people's desktops, with `notifications.desktop.helper`.",
    ),
    Exchange(
        name="publish_stop",
        channel="state_stop",
        address=_of("state", "stop"),
        by="daemon",
        says=("state_stop",),
        summary="What is stopped, at every change and every 10 s.",
    ),
    Exchange(
        name="publish_mode",
        channel="state_mode",
        address=_of("state", "mode"),
        by="daemon",
        says=("state_mode",),
        summary="Which mode and profile apply, every 10 s.",
    ),
    Exchange(
        name="publish_rollback",
        channel="state_rollback",
        address=_of("state", "rollback"),
        by="daemon",
        says=("state_rollback",),
        summary="Which files of a project were put back, once it is done.",
    ),
)
