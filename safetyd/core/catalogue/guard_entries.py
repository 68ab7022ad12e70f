"""Stops, pauses, safe mode, circuit breakers, budgets and anomalies.

Do not change the words of alerts: checkpoints contain them, and older journals must replay alike.
"""

from typing import Final

from msgspec.structs import replace

from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.catalogue.entry import (
    CHAT,
    MAIL_AND_CHAT,
    Alert,
    Choice,
    Entry,
    Facts,
    Notice,
    at_once,
    because,
)
from safetyd.core.events import guard_events as events
from safetyd.core.guards.stop import no_reason
from safetyd.core.messages.money import dollars, nano

SMS_AFTER_S: Final = 900.0
OWN: Final = "safetyd"  # the value of `by` if safetyd itself acted

_NO_HUMAN: Final = "anomaly.no_human"
_DAILY: Final = frozenset(
    {"day", "agent", "model", "keyless", "share", "kept"}
)  # reset at 00:00 UTC
_COOLS: Final = (
    "Before its cooldown is over (by default a minute) that also needs --force --reason WHY."
)
_KEY_CHARS: Final = 200  # of a reason


def stop_key(event: events.Stopped) -> str:
    """Return the alert key of a stop. A stop command and its stop file have the same key."""
    reason = " ".join(event.reason.split()) if _says_why(event) else ""
    return f"stop {event.agent or '*'} {reason[:_KEY_CHARS]}".rstrip()


def safe_mode_key(agent: str | None) -> str:
    return f"safe_mode {agent or '*'}"


def budget_key(event: events.BudgetMarked, mark: str) -> str:
    return f"budget.{event.scope} {mark} {event.agent or '*'} {event.id}"


def _stopped(event: events.Stopped) -> Alert | None:
    """Return the alert about a stop, even if agents are already stopped for another reason."""
    # The anomaly that caused the stop has its own alert.
    if event.source == "anomaly":
        return None
    may = f"{event.agent} may do nothing" if event.agent else "No agent may do anything"
    return at_once(
        Alert(
            key=stop_key(event),
            urgency="high",
            title=because(f"STOPPED by {event.by}", event.reason if _says_why(event) else ""),
            text=f"{may} until {_stop_ends(event)}.",
            agent=event.agent,
        )
    )


def _stop_ends(event: events.Stopped) -> str:
    kind, _, path = event.source.partition(":")
    if kind == "file" and not _signed(event):
        return f"{path} is removed"
    if kind == "environment":
        return "safetyd is restarted without the environment variable"
    return f"`safetyd resume --agent {event.agent}`" if event.agent else "you run `safetyd resume`"


def _says_why(event: events.Stopped) -> bool:
    # If a stop file contains no reason, the reason only says that the file exists.
    path = event.source.removeprefix("file:")
    unsaid = {no_reason(path), f"{path} is there"}  # the second is in older journals
    return bool(event.reason) and not (_signed(event) and event.reason in unsaid)


def _signed(event: events.Stopped) -> bool:
    """Return whether the operator is known. A file that `safetyd stop` wrote names the operator."""
    return event.by != "file"


def _safe_mode(event: events.SafeModeEntered) -> Alert:
    agent = None if event.agent == ANONYMOUS else event.agent
    who = "all agents without a key" if event.agent == ANONYMOUS else agent or "everybody"
    by = because(f"By {event.by}", event.reason)
    named = agent or f"'{event.agent or '*'}'"
    return Alert(
        key=safe_mode_key(event.agent),
        urgency="normal" if agent else "high",
        title=f"SAFE MODE: {who} may only read",
        text=f"{by}.\nTo end it: safetyd safe-mode exit --agent {named}\n{_COOLS}",
        agent=agent,
    )


def _moved(event: events.BreakerMoved) -> Facts:
    facts: Facts = {"state": event.state}
    return facts | ({"keyless": True} if event.keyless else {})


def _used(event: events.BudgetMarked) -> str:
    if event.scope == "kept":
        limit = f"{_usd(event.limit)}, and {_usd(event.spent + event.reserved)} is used"
        return f"{event.agent} may use {limit}: the rest of the day is kept for other agents"
    named = f"{event.scope} budget {event.id}".rstrip()  # the implicit session has no name
    whose = f" of {event.agent}" if event.agent and event.scope != "agent" else ""
    used = f"{_usd(event.spent + event.reserved)} of {_usd(event.limit)} used"
    return f"{named}{whose}, {used}"


def _usd(amount: float) -> str:
    return dollars(nano(amount))


def _budget(event: events.BudgetMarked) -> Alert | None:
    exceeded = event.mark == "exceeded"
    if exceeded and event.scope == "session":
        return None  # the request to end the agent's pause notifies operators
    whole_day = exceeded and event.scope == "day"
    return Alert(
        key=budget_key(event, event.mark),
        urgency="high" if whole_day else "normal",
        kinds=() if whole_day else MAIL_AND_CHAT,
        title=f"{event.mark.upper()}: {_used(event)}",
        text=_budget_text(event, exceeded=exceeded),
        agent=event.agent,
    )


def _budget_text(event: events.BudgetMarked, *, exceeded: bool) -> str:
    if not event.renewed:  # in an older journal
        unfit = "What does not fit any more will be refused."
        return _consequence(event) if exceeded else unfit
    who = f"Every action of {event.agent}" if event.agent else "Every action of every agent"
    if event.scope == "model":
        who = f"Every call of {event.id}"
    end = "needs approval" if event.scope == "session" else "is blocked"
    left = event.limit - event.spent - event.reserved
    if exceeded:
        said = f"{who} that costs more than the {_usd(max(left, 0.0))} left {end}"
    else:
        said = f"{_usd(max(left, 0.0))} is left. {who} that costs more {end}"
    refused = f" About {_usd(event.estimate)} more was refused." if exceeded else ""
    fresh = f"The budget is full again {event.renewed}."
    return f"{said}.{refused if event.estimate else ''} {fresh}{_raise(event)}"


def _raise(event: events.BudgetMarked) -> str:
    """Return how to raise a budget for the day, if that is possible."""
    name = {
        "day": "day",
        "kept": "day",
        "keyless": "keyless",
        "agent": f"agent:{event.agent}",
        "share": f"agent:{event.agent}",
        "model": f"model:{event.id}",
    }.get(event.scope)
    return (
        f"\nTo allow more until then: safetyd budgets raise {name} AMOUNT --reason WHY"
        if name
        else ""
    )


def _consequence(event: events.BudgetMarked) -> str:
    who = " for all agents" if event.scope == "day" else ""
    until = " until 00:00Z" if event.scope in _DAILY else ""
    blocked = f"What does not fit is blocked{who}{until}."
    if not event.estimate:
        return blocked
    total = _usd(event.spent + event.reserved + event.estimate)
    return f"About {_usd(event.estimate)} more was refused: that makes {total}. {blocked}"


def report_key(agent: str, id_: str) -> str:
    return f"large_report {agent} {id_}"


def _large_report(event: events.LargeReport) -> Alert:
    left = f"more than the {_usd(event.share_usd)} left of its share"
    if event.why == "price":
        left = f"more than its tokens explain, which cost {_usd(event.tokens_usd or 0.0)}"
    counts = f"For other agents, {_usd(event.counted_usd)} of it counts in the daily budget."
    return Alert(
        key=report_key(event.agent, event.id),
        urgency="high",
        kinds=MAIL_AND_CHAT,
        title=f"LARGE REPORT: {event.agent} reported {_usd(event.usd)}",
        text=f"That is {left}. {event.agent} is paused. {counts}\n"
        f"If it is wrong: safetyd budgets strike {event.id} --reason WHY\n"
        f"To let the agent continue: safetyd unpause {event.agent}",
        agent=event.agent,
    )


def _anomaly(event: events.AnomalyFound) -> Alert | None:
    """Return an alert that is as urgent as the anomaly is severe. Low severity has no alert."""
    finding = _finding(event)
    match event.severity:
        case "critical":
            # All agents are stopped, so recipients for other agents get the alert, too.
            stopped = "All agents are stopped until you run `safetyd resume`."
            text = f"{stopped} {finding.text}" if event.usual else f"{finding.text} {stopped}"
            return at_once(replace(finding, agent=None, text=text))
        case "high":
            return _by_mail_first(finding, _pausing(event, finding.text))
        case "medium" if event.rule == _NO_HUMAN:
            seen = "`safetyd ack` says that somebody is there."
            kinds = "email", "desktop"
            return replace(finding, urgency="normal", kinds=kinds, title=event.message, text=seen)
        case "medium":
            return replace(finding, kinds=CHAT, batched=True)
    return None


def _finding(event: events.AnomalyFound) -> Alert:
    # An anomaly that becomes more severe within ten minutes causes another alert.
    key = f"{event.rule} {event.severity} {event.agent or '*'} {event.breaker or ''}".rstrip()
    title, agent = f"{event.severity.upper()}: {event.message}", ""
    if event.usual:  # not in older journals
        who = f"{event.agent}: " if event.agent else ""
        title = f"{event.severity.upper()}: {who}{event.message}"
        text = f"Usual is {event.usual} ({event.rule}).\nTo look: {_to_look(event)}"
    else:
        agent = f" in what {event.agent} does" if event.agent else ""
        breaker = f", at {event.breaker}" if event.breaker else ""
        text = f"{event.rule} found it{agent}{breaker}."
    return Alert(key=key, urgency="low", title=title, text=text, agent=event.agent)


def _to_look(event: events.AnomalyFound) -> str:
    """Return the command that shows what an anomaly is about."""
    if event.breaker:
        return "safetyd breakers"
    return (
        f"safetyd decisions --agent {event.agent} --since 1h" if event.agent else "safetyd status"
    )


def _unasked(event: events.HostUnasked) -> Alert:
    """Return the alert about tools that ran unasked. `hosts.unasked` does not change it."""
    tools = ", ".join(event.tools)
    session = f" in session {event.session}" if event.session else ""
    if event.refused:
        title = f"NOT ALLOWED: {event.agent} ran {tools} although safetyd refused it"
        why = "The agent ignored the answer, or its hook was killed."
    else:
        title = f"NOT ASKED: {event.agent} ran {tools} without asking safetyd"
        why = (
            "Its hooks are switched off, broken or killed: by a file of the project, by a flag, by "
            "an update, or by a program that it runs."
        )
    return at_once(
        Alert(
            key=f"host_unasked {event.agent}",
            urgency="high",
            title=title,
            text=f"{event.agent} reported it{session}. {why} A pause does not reach a session that "
            "skips its hooks, so end the session itself: close its terminal, or find its process "
            f"with `pgrep -a {event.host}` and end it with `kill`. Then check the project and run "
            "`safetyd verify`.",
            agent=event.agent,
        )
    )


def _by_mail_first(finding: Alert, text: str) -> Alert:
    return replace(
        finding, urgency="high", kinds=("email",), later=("sms",), after_s=SMS_AFTER_S, text=text
    )


def _pausing(event: events.AnomalyFound, found: str) -> str:
    """Return the text about an anomaly that pauses its agent, if it has one."""
    if not event.agent:
        return found
    if event.usual:
        return f"{event.agent} is paused until `safetyd unpause {event.agent}`. {found}"
    return f"{found} The agent is paused until an operator resumes it."


ENTRIES: Final = (
    Entry(
        events.Stopped,
        notice=Notice("EMERGENCY_STOP", "critical", "{by} stopped {agent}"),
        facts="source by epoch",
        alert=_stopped,
        follows=lambda event: event.source == "anomaly",
    ),
    Entry(
        events.Resumed,
        notice=Notice("EMERGENCY_RESUME", "medium", "{by} resumed {agent}"),
        facts="sources by epoch",
    ),
    Entry(
        events.Paused,  # no alert: the request to end the pause notifies operators
        notice=Notice("AGENT_PAUSED", "high", "{by} paused {agent}"),
        facts="source by",
        follows=lambda event: event.source != "operator",
    ),
    Entry(
        events.Unpaused,
        notice=Notice("AGENT_RESUMED", "low", "{by} resumed {agent}"),
        facts="sources by",
        follows=lambda event: event.approved,
    ),
    Entry(
        events.SafeModeEntered,
        notice=Notice("SAFE_MODE_ENTERED", "high", "{by} put {agent} into safe mode"),
        facts="by errors",
        alert=_safe_mode,
        follows=lambda event: event.by == OWN,
    ),
    Entry(
        events.SafeModeExited,
        notice=Notice("SAFE_MODE_EXITED", "low", "{by} ended safe mode for {agent}"),
        facts="by forced",
        ends=lambda event: (safe_mode_key(event.agent),),
    ),
    Entry(
        events.BreakerMoved,
        says="circuit breaker {breaker} is {state}: {reason}",
        notice=Choice(
            "state",
            {
                "open": Notice("CIRCUIT_TRIPPED", "medium", "circuit breaker {breaker} is open"),
                "closed": Notice("CIRCUIT_RESET", "low", "circuit breaker {breaker} is closed"),
            },
        ),
        facts=_moved,
        follows=True,
    ),
    Entry(
        events.BudgetMarked,
        notice=Choice(
            "mark",
            {
                "warning": Notice("COST_WARNING", "medium"),
                "exceeded": Notice("COST_BUDGET_EXCEEDED", "high"),
            },
        ),
        reason=_used,
        facts="scope id",
        alert=_budget,
        ends=lambda event: (budget_key(event, "warning"),) if event.mark == "exceeded" else (),
        follows=True,
    ),
    Entry(
        events.BudgetRaised,
        notice=Notice("BUDGET_RAISED", "low", "{by} raised the {scope} budget {id} by ${usd:.2f}"),
        facts="scope id usd by",
    ),
    Entry(
        events.LargeReport,
        notice=Notice("LARGE_REPORT", "high", "{agent} reported ${usd:.2f}, and is paused"),
        reason="",
        facts="id usd counted_usd why",
        alert=_large_report,
        follows=True,
    ),
    Entry(
        events.CostStruck,
        notice=Notice("COST_STRUCK", "low", "{by} struck ${usd:.2f} that {agent} reported"),
        facts="id usd by",
        ends=lambda event: (report_key(event.agent, event.id),),
    ),
    Entry(
        events.AnomalyFound,
        notice=Notice("ANOMALY_DETECTED", "low"),  # the event states its severity
        reason="{message}",
        facts="rule severity",
        alert=_anomaly,
        follows=True,
        compared=True,
    ),
    Entry(
        events.HostUnasked,
        notice=Notice("HOST_UNASKED", "high", "{agent} ran {tools}, which safetyd had not allowed"),
        reason="",
        facts="host session tools calls refused",
        alert=_unasked,
    ),
    Entry(
        events.HostFilesAccepted,
        says="{by} accepted the files that {host} loads",
        facts="host by",
        follows=lambda event: bool(event.request_id),
    ),
    Entry(
        events.PersonSeen,
        says="{by} was active: {how}",
        follows=lambda event: event.by == OWN,
        by_time=True,
        routine=True,
    ),
    Entry(events.Forgotten, says="{by} reset the loop counters of {agent}"),
)
