"""Alerts: which events people are told of though nobody asks them anything, how urgently and where.

What is told again under the same key within ten minutes is the same alert. A pause is none: the
request that it makes is the message.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from safetyd.core.events.daemon_events import DiskLevel, DiskMoved
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, BudgetMarked, SafeModeEntered, Stopped
from safetyd.core.events.history_events import (
    ArchiveFailed,
    CommitFailed,
    RollbackFailed,
    RollbackOffered,
    SnapshotMissed,
)
from safetyd.core.events.notification_events import ChannelMoved, NotTold
from safetyd.core.messages.money import dollars, nano
from safetyd.core.messages.proposal import Urgency
from safetyd.core.messages.rollback import rollback_command
from safetyd.core.messages.verdict import BLOCK
from safetyd.core.party import KEYLESS, party
from safetyd.core.recipients import ChannelKind, TellingConfig
from safetyd.core.reporting.disk_words import MAKE_ROOM, filling, fullness

SMS_AFTER_S: Final = 900.0

HEARD: Final[tuple[type[Event], ...]] = (
    AnomalyFound,
    ArchiveFailed,
    BudgetMarked,
    ChannelMoved,
    CommitFailed,
    Decided,
    DiskMoved,
    NotTold,
    RollbackFailed,
    RollbackOffered,
    SafeModeEntered,
    SnapshotMissed,
    Stopped,
)

_ALERT_BATCH_S: Final = TellingConfig().alert_batch_s

_SMS_FIRST: Final[tuple[ChannelKind, ...]] = ("sms", "desktop", "email", "chat", "webhook")
_CHAT: Final[tuple[ChannelKind, ...]] = ("chat", "webhook")
_MAIL_AND_CHAT: Final[tuple[ChannelKind, ...]] = ("email", *_CHAT)

_NO_HUMAN: Final = "anomaly.no_human"
_DAILY: Final = frozenset({"day", "agent", "model", "keyless", "share"})  # until 00:00Z
_LOST: Final = {
    "dead": "It was given up. To see more: safetyd notify outbox --state dead",
    "undelivered": "It was taken and did not arrive: safetyd notify outbox --state undelivered",
}
_COOLS: Final = (
    "Before its cooldown is over (by default a minute) that also needs --force --reason WHY."
)
_KEY_CHARS: Final = 200  # of a reason


class Alert(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What people should know of. `title` is the whole of it in a line, `text` what follows."""

    key: str
    urgency: Urgency
    title: str
    text: str
    agent: str | None = None
    kinds: tuple[ChannelKind, ...] = ()  # in the order of preference; none named: all
    later: tuple[ChannelKind, ...] = ()  # where it is told as well
    after_s: float = 0.0  # and how much later that is
    batch_s: float | None = None  # it waits so long for others; None: as long as a request
    not_on: tuple[str, ...] = ()  # channels that cannot tell of it, by name
    always: bool = False  # at once and by itself, whatever holds back what is urgent


def alert_of(event: Event, alert_batch_s: float = _ALERT_BATCH_S) -> Alert | None:
    """Return what people are to be told of an event, or None if it is no alert."""
    alert: Alert | None = None
    match event:
        case Decided():
            alert = _of_decision(event)
        case AnomalyFound():
            alert = _of_anomaly(event, alert_batch_s)
        case Stopped():
            alert = _of_stop(event)
        case BudgetMarked():
            alert = _of_budget(event)
        case SafeModeEntered():
            alert = _of_safe_mode(event)
        case NotTold():
            alert = _of_message(event)
        case ChannelMoved(up=False):
            alert = _of_outage(event.channel, event.why)
        case DiskMoved():
            alert = _of_disk(event)
        case _:
            alert = _of_files(event)
    return alert


def _of_files(event: Event) -> Alert | None:
    match event:
        case CommitFailed() | RollbackOffered() | RollbackFailed():
            return _of_history(event)
        case SnapshotMissed() | ArchiveFailed():
            return _of_keeping(event)
    return None


def stop_key(event: Stopped) -> str:
    """Return the key of a stop: one, though a command and the file that it writes both make it."""
    reason = " ".join(event.reason.split()) if _says_why(event) else ""
    return f"stop {event.agent or '*'} {reason[:_KEY_CHARS]}".rstrip()


def budget_key(event: BudgetMarked, mark: str) -> str:
    return f"budget.{event.scope} {mark} {event.agent or '*'} {event.id}"


def outage_key(channel: str) -> str:
    return f"channel {channel}"


def loss_key(channel: str) -> str:
    return f"message {channel}"


def disk_key(level: DiskLevel) -> str:
    return f"disk {level}"


def everywhere(alert: Alert) -> Alert:
    """Tell it on every channel, the telephone first."""
    return replace(alert, kinds=_SMS_FIRST)


def _of_decision(event: Decided) -> Alert | None:
    """Tell of a prohibited proposal, whatever else blocked it."""
    # Names that are one too many can be made up, as many as somebody likes.
    if event.decision is not BLOCK or event.stranger:
        return None
    for verdict in event.verdicts:
        if verdict.cause == "prohibited" and verdict.decision is BLOCK:
            return Alert(
                key=f"prohibited {party(event)} {event.type}",
                urgency="normal",
                kinds=_MAIL_AND_CHAT,
                title=f"PROHIBITED: {event.agent} proposed {event.type}",
                # Not its reason: that has a command to permit it, made of the agent's words.
                text=f"{verdict.rule} blocked it. To see more: safetyd explain {event.id}",
                agent=event.agent,
            )
    return None


def _of_anomaly(event: AnomalyFound, alert_batch_s: float) -> Alert | None:
    """Tell of a finding as severely as it is meant; of slight ones the log is enough."""
    finding = _finding(event)
    match event.severity:
        case "critical":
            # All agents stand still, so it is not only for those who hear of this one.
            stopped = f"{finding.text} Everything is stopped until `safetyd resume`."
            return _at_once(replace(finding, agent=None, text=stopped))
        case "high":
            return _by_mail_first(finding)
        case "medium" if event.rule == _NO_HUMAN:
            return _of_absence(finding, event.message)
        case "medium":
            return replace(finding, kinds=_CHAT, batch_s=alert_batch_s)
    return None


def _finding(event: AnomalyFound) -> Alert:
    # What grows more severe within ten minutes is not the same alert.
    key = f"{event.rule} {event.severity} {event.agent or '*'} {event.breaker or ''}".rstrip()
    agent = f" in what {event.agent} does" if event.agent else ""
    breaker = f", at {event.breaker}" if event.breaker else ""
    return Alert(
        key=key,
        urgency="low",
        title=f"{event.severity.upper()}: {event.message}",
        text=f"{event.rule} found it{agent}{breaker}.",
        agent=event.agent,
    )


def _by_mail_first(finding: Alert) -> Alert:
    paused = " The agent is paused until a person lets it go on." if finding.agent else ""
    return replace(
        finding,
        urgency="high",
        kinds=("email",),
        later=("sms",),
        after_s=SMS_AFTER_S,
        text=finding.text + paused,
    )


def _of_absence(finding: Alert, message: str) -> Alert:
    seen = "`safetyd ack` says that somebody is there."
    kinds = "email", "desktop"
    return replace(finding, urgency="normal", kinds=kinds, title=message, text=seen)


def _at_once(alert: Alert) -> Alert:
    return everywhere(replace(alert, urgency="high", always=True))


def _of_stop(event: Stopped) -> Alert | None:
    """Tell of every stop, also of one that follows upon another for another reason."""
    # The critical finding behind it is told, with the words of the detector; this adds nothing.
    if event.source == "anomaly":
        return None
    reason = f": {event.reason}" if _says_why(event) else ""
    may = f"{event.agent} may do nothing" if event.agent else "Nobody may do anything"
    return _at_once(
        Alert(
            key=stop_key(event),
            urgency="high",
            title=f"STOPPED by {event.by}{reason}",
            text=f"{may} until {_stop_ends(event)}.",
            agent=event.agent,
        )
    )


def _stop_ends(event: Stopped) -> str:
    kind, _, path = event.source.partition(":")
    if kind == "file" and not _signed(event):
        return f"{path} is removed"
    if kind == "environment":
        return "safetyd is started without it"
    return f"`safetyd resume --agent {event.agent}`" if event.agent else "`safetyd resume`"


def _says_why(event: Stopped) -> bool:
    # Of a file that says who stopped and not why, it is only said that it is there.
    there = f"{event.source.removeprefix('file:')} is there"
    return bool(event.reason) and not (_signed(event) and event.reason == there)


def _signed(event: Stopped) -> bool:
    """Say whether somebody's name is known, as that of who wrote a file with `safetyd stop`."""
    return event.by != "file"


def _of_budget(event: BudgetMarked) -> Alert | None:
    exceeded = event.mark == "exceeded"
    if exceeded and event.scope == "session":
        return None  # people are asked whether the agent may go on
    whole_day = exceeded and event.scope == "day"
    used = f"{_usd(event.spent + event.reserved)} of {_usd(event.limit)} used"
    return Alert(
        key=budget_key(event, event.mark),
        urgency="high" if whole_day else "normal",
        kinds=() if whole_day else _MAIL_AND_CHAT,
        title=f"{event.mark.upper()}: {_budget(event)}, {used}",
        text=_consequence(event) if exceeded else "What does not fit any more will be refused.",
        agent=event.agent,
    )


def _usd(amount: float) -> str:
    return dollars(nano(amount))


def _budget(event: BudgetMarked) -> str:
    named = f"{event.scope} budget {event.id}".rstrip()  # the implicit session has no name
    return f"{named} of {event.agent}" if event.agent and event.scope != "agent" else named


def _consequence(event: BudgetMarked) -> str:
    who = " for all agents" if event.scope == "day" else ""
    until = " until 00:00Z" if event.scope in _DAILY else ""
    blocked = f"What does not fit is blocked{who}{until}."
    if not event.estimate:
        return blocked
    total = _usd(event.spent + event.reserved + event.estimate)
    return f"About {_usd(event.estimate)} more was refused: that makes {total}. {blocked}"


def _of_safe_mode(event: SafeModeEntered) -> Alert:
    agent = None if event.agent == KEYLESS else event.agent
    who = "all agents without a key" if event.agent == KEYLESS else agent or "everybody"
    reason = f": {event.reason}" if event.reason else ""
    named = agent or f"'{event.agent or '*'}'"
    return Alert(
        key=f"safe_mode {event.agent or '*'}",
        urgency="normal" if agent else "high",
        title=f"SAFE MODE: {who} may only read",
        text=f"By {event.by}{reason}.\nTo end it: safetyd safe-mode exit --agent {named}\n{_COOLS}",
        agent=agent,
    )


def _of_disk(event: DiskMoved) -> Alert | None:
    """Tell of a disk that fills while there is time left, and at night if there is little."""
    use = event.use
    if use.level == "good":
        return None
    critical = use.level == "critical"
    filled = f"{filling(use)}. " if use.parts else ""
    return Alert(
        key=disk_key(use.level),
        urgency="high" if critical else "normal",
        kinds=() if critical else _MAIL_AND_CHAT,
        title=f"{'DISK NEARLY FULL' if critical else 'DISK FILLING'}: {fullness(use)}",
        text=f"{filled}Once it is full nothing is allowed. What to do: {MAKE_ROOM}.",
    )


def _of_history(event: CommitFailed | RollbackOffered | RollbackFailed) -> Alert:
    """Tell what cannot be gone back to, and offer to go back."""
    match event:
        case CommitFailed():
            return Alert(
                key=f"commit {event.project}",
                urgency="normal",
                kinds=_MAIL_AND_CHAT,
                title=f"NO HISTORY: project {event.project} was not committed",
                text=f"{event.error}.\nWhat changes there cannot be rolled back until it is.",
                agent=event.agent,
            )
        case RollbackOffered():
            command = rollback_command(event.project, event.commit)
            return Alert(
                key=f"rollback {event.project} {event.agent}",
                urgency="normal",
                title=f"ERRORS: {event.errors} in a row in project {event.project}",
                text=f"To put its files back as they were before: {command}",
                agent=event.agent,
            )
    still = f"Still paused: {', '.join(event.agents)}.\n" if event.agents else ""
    again = rollback_command(event.project, event.commit, event.kind, event.paths)
    left = f"NOT ROLLED BACK: project {event.project} is as errors left it"
    return Alert(
        key=f"no rollback {event.project}",
        urgency="high",
        title=f"ROLLBACK NOT FINISHED: project {event.project}" if event.half else left,
        text=f"{event.error}.\n{still}Look, then try again: {again}",
    )


def _of_keeping(event: SnapshotMissed | ArchiveFailed) -> Alert:
    """Tell of which day or week nothing is kept yet."""
    if isinstance(event, ArchiveFailed):
        return Alert(
            key=f"archive {event.week}",
            urgency="normal",
            kinds=_MAIL_AND_CHAT,
            title=f"NOT ARCHIVED: the week {event.week}",
            text=f"{event.error}.\nIts last snapshot stays, and it is tried again.",
        )
    return Alert(
        key="snapshot",
        urgency="normal",
        kinds=_MAIL_AND_CHAT,
        title=f"SNAPSHOT MISSING: {event.days}",
        text=f"{event.error}.\nThe last day is tried until it has one; others stay without.",
    )


def _of_message(event: NotTold) -> Alert | None:
    """Tell of a message that nobody got; one that an operator dropped was not wanted."""
    if event.by:
        return None
    if event.state == "parked":
        return _of_outage(event.channel, event.error)
    lost = _LOST.get(event.state)
    if lost is None:
        return None
    title = f"NOT TOLD: {event.channel} did not deliver a message"
    return _of_channel(event.channel, loss_key(event.channel), _because(title, event.error), lost)


def _of_outage(channel: str, why: str) -> Alert:
    title = f"CHANNEL DOWN: {channel} takes no messages"
    text = f"They wait. Once it is mended: safetyd notify retry --channel {channel}"
    return _of_channel(channel, outage_key(channel), _because(title, why), text)


def _because(title: str, why: str) -> str:
    return f"{title}: {why}" if why else title


def _of_channel(channel: str, key: str, title: str, text: str) -> Alert:
    """Tell of a channel that fails, on all others."""
    return Alert(key=key, urgency="high", title=title, text=text, not_on=(channel,))
