"""Who says what where: the subjects that exist now."""

from typing import Final, Literal

from msgspec import Struct

from docs.messages import TELEMETRY
from safetyd.bus.subjects import Subjects


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


def _desk(verb: str, command: str, summary: str) -> Exchange:
    return Exchange(
        name=f"{verb}_{command}",
        channel=verb,
        address=_of(verb, "{operator}"),
        by="operator",
        says=(f"{verb}_{command}",),
        answers=(f"{verb}_{command}_reply", "refusal"),
        summary=summary,
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
    _desk("review", "approve", "Let what was asked happen, once."),
    _desk("review", "deny", "Say no to what was asked."),
    _desk("review", "defer", "Put requests off."),
    _desk("review", "cancel", "Withdraw requests."),
    _desk("control", "stop", "Stop everybody or one agent."),
    _desk("control", "resume", "Clear a stop."),
    _desk("control", "pause", "Pause one agent."),
    _desk("control", "unpause", "Let a paused agent go on."),
    _desk("control", "safe_mode_enter", "Keep one agent or everybody to reading."),
    _desk("control", "safe_mode_exit", "Leave safe mode."),
    _desk("control", "grant_add", "Permit a kind of action for a while."),
    _desk("control", "grant_revoke", "End a grant before its time."),
    _desk("control", "budget_raise", "Permit more money for what is left of the day."),
    _desk("control", "ack", "Show that a person is there."),
    _desk("control", "reset", "Forget an agent's loop visits."),
    _desk("control", "reload", "Take on the configuration and keys as they are now."),
    _desk("control", "checkpoint", "Save everything up to now, for a backup."),
    _desk("control", "backup_made", "Have it recorded that a backup was made."),
    _desk("control", "session_end", "Sign browsers out of the control room."),
    _desk("control", "rollback", "Put files of a project back as they were."),
    _desk("control", "notify_test", "Send a test message."),
    _desk("control", "notify_retry", "Try messages again that wait."),
    _desk("control", "notify_drop", "Give up a message that waits."),
    _desk("control", "notify_shown", "Say that a desktop shows a message."),
    _desk("control", "notify_link", "Ask where the page of a message is."),
    _desk("control", "pair", "Let a browser answer for somebody."),
    _desk("control", "rotate_links", "Sign links with a new key."),
    _desk("query", "status", "Ask how everything is."),
    _desk("query", "health", "Ask how each part of the daemon is."),
    _desk("query", "agents", "Ask who is there."),
    _desk("query", "agent", "Ask all that is known of one agent."),
    _desk("query", "safe_mode", "Ask how safe mode is."),
    _desk("query", "budgets", "Ask what is spent."),
    _desk("query", "breakers", "Ask which dependencies are cut off."),
    _desk("query", "anomalies", "Ask what was unusual of late."),
    _desk("query", "limits", "Ask how often agents may still propose."),
    _desk("query", "money", "Ask whether today's money lasts."),
    _desk("query", "types", "Ask which types of action are known."),
    _desk("query", "pending", "Ask what waits for a person."),
    _desk("query", "request", "Ask all that is known of one request."),
    _desk("query", "history", "Ask how requests ended."),
    _desk("query", "grants", "Ask which grants are in force."),
    _desk("query", "suggestions", "Ask which rules people's answers add up to."),
    _desk("query", "outbox", "Ask which messages were sent, and which were not."),
    _desk("query", "channels", "Ask how every channel is, and who is told."),
    _desk("query", "preview", "Ask what would be sent."),
    _desk("query", "top_bar", "Ask in one word how everything is."),
    _desk("query", "sign_in", "Ask for a link that signs a browser in to the control room."),
    _desk("query", "sessions", "Ask which browsers are signed in to the control room."),
    _desk("query", "decisions", "Ask what was decided, and what happened besides."),
    _desk("query", "report", "Ask for the report of a day, or of all days from one on."),
    _desk("query", "commits", "Ask what agents changed in projects with a history."),
    _desk("query", "commit", "Ask what a commit is about, and what it changed."),
    _desk("query", "explain", "Ask what was decided about a proposal, and why."),
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
