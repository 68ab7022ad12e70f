"""The state of a daemon as text: first its problems, then facts, then the most important agents."""

from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.console.render.agent_tables import brief, limits
from safetyd.console.render.guard_tables import safe_mode, whom
from safetyd.console.render.layout import because, day_end, indented, some, usd, when
from safetyd.console.render.money_tables import spent
from safetyd.console.render.request_tables import not_sent, notified_by
from safetyd.console.render.rota_table import on_call
from safetyd.console.stop_file import told_of
from safetyd.console.terminal_text import plain, several
from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.events.disk_words import MAKE_ROOM, filling, fullness, percent, size
from safetyd.core.events.history_events import day_words
from safetyd.core.messages.money import nano
from safetyd.core.messages.rollback import rollback_command
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.cluster_contract import ClusterSummary
from safetyd.operators.contract.guard_contract import Budget, Finding
from safetyd.operators.contract.hold_contract import Pausing
from safetyd.operators.contract.status_contract import Standstill, StatusAnswer, Waiting

MAX_FINDINGS: Final = 5
MANY: Final = 5  # an agent with fewer pending requests is not mentioned
SETTINGS: Final = (
    "`safetyd agents` shows all limits. To raise one, change its setting and run `safetyd reload`."
)
WELL = "All is well: nothing is stopped, paused, in safe mode or near a limit."


def status(view: StatusAnswer) -> str:
    title = f"safetyd {plain(view.version)}: {plain(view.problem) or 'healthy'}"
    about = (title, *indented(_facts(view)), *pending(view.next_start))
    wrong = list(_wrong(view)) or [WELL]
    parts = (wrong, about, tuple(_agents(view)))
    return "\n\n".join("\n".join(part) for part in parts if part)


def pending(sections: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each configuration section that takes effect at the next start."""
    for section in sections:
        yield f"[{plain(section)}] has changed and takes effect at the next start"


def _facts(view: StatusAnswer) -> Iterator[tuple[str, str]]:
    decided = ", ".join(f"{count} {name}" for name, count in view.decisions.items())
    anonymous = "allowed" if view.open_agents else "refused"
    yield "pid", str(view.pid)
    yield "started", when(view.started)
    yield "bus", f"{plain(view.bus)}{' (embedded)' if view.embedded else ''}"
    if view.cluster:
        yield "cluster", _place(view.cluster)
    yield "web", plain(view.web)
    yield "data", plain(view.data_dir)
    free = f"{size(view.disk.free_bytes)} of {size(view.disk.total_bytes)} is free"
    yield "disk", f"{percent(view.disk)} % full at {plain(view.disk.disk)}: {free}"
    if view.config:
        yield "config", plain(view.config)
    yield "mode", f"{plain(view.mode)}, profile {plain(view.profile)}"
    yield "agents", f"{view.agents} known, {view.keys} with a key; anonymous agents: {anonymous}"
    yield "decisions", f"{decided} since the start"
    yield "spent today", f"{spent(view.today)} by all agents"
    if view.on_call:
        yield "on call", f"{on_call(view.on_call)}: `safetyd rota`"
    if view.found:
        yield "anomalies", f"{view.found} in the last hour: `safetyd anomalies`"
    for state in view.outlets:
        yield plain(state.name), f"{several(state.behind, 'event')} behind"
    yield "journal", several(view.seq, "event")


def _place(place: ClusterSummary) -> str:
    """Return who decides and who can take over, in one line."""
    if place.role == "standby":
        writer = f"{plain(place.writer)} decides" if place.deciding else "no daemon decides now"
        return f"{plain(place.name)} is a standby; {writer}"
    standbys = f"{some(place.standbys)} can take over" if place.standbys else "no standby"
    return f"{plain(place.name)} decides; {standbys} (`safetyd cluster`)"


def _wrong(view: StatusAnswer) -> Iterator[str]:
    """Yield every problem and what to do about it, the worst first."""
    if view.problem:
        yield f"EVERYTHING BLOCKED: {plain(view.problem)}"
    yield from _disk(view.disk)
    if view.stop.active:
        yield from _stops(view.stop)
    yield from _attempts(view)
    if view.safe_mode.active:
        yield safe_mode(view.safe_mode)
    yield from _pauses(view)
    yield from _histories(view)
    yield from _over_limits(view)
    yield from _requests(view.requests, view.failing)
    if view.wide_grants:
        yield f"WIDE GRANT: any text is allowed by {some(view.wide_grants)}"
        yield "  `safetyd grants` shows details. To revoke a grant: `safetyd grant revoke ID`"
    yield from _breakers(view)
    yield from _budget(view, view.today, "all agents")
    if view.keyless_today:
        yield from _budget(view, view.keyless_today, "all anonymous agents")
    yield from _near(view)
    yield from _exporters(view)
    yield from _missing(view)
    for each in view.unavailable:
        yield f"UNAVAILABLE: {plain(each.name)}: {plain(each.why)}"
        yield f"  {plain(each.fix)}"
    if view.config_problem:
        yield f"CONFIGURATION REFUSED: {plain(view.config_problem, 2000)}"
        yield "  Fix it, then run `safetyd reload`. Until then the previous configuration applies."
    yield from _findings(view)
    yield from _folderless(view)


def _disk(use: DiskUse) -> Iterator[str]:
    """Yield how full the disk is and what fills it, if there is too little space."""
    if use.level != "good":
        title = "DISK FILLING" if use.level == "warn" else "DISK NEARLY FULL"
        yield f"{title}: {plain(fullness(use))}"
        if use.parts or use.audit_bytes_per_hour:
            yield f"  {plain(filling(use))}"
        yield f"  {MAKE_ROOM}. When it is full, every action is blocked."


def _stops(view: Standstill) -> Iterator[str]:
    """Yield each stop, how to end it, and which agents have acknowledged the stops."""
    for cause, ending in told_of(view.stops):
        yield f"STOPPED: {cause}"
        yield f"  {ending}"
    heard, silent = (some(who) or "none" for who in (view.acknowledged, view.silent))
    yield from indented((("acknowledged", heard), ("not acknowledged", silent)))


def _attempts(view: StatusAnswer) -> Iterator[str]:
    """Yield unacknowledged attempts to access safetyd's own resources, and dangerous commands."""
    for one in view.own_attempts:
        agent, times = plain(one.agent), several(one.count, "attempt")
        tried = f"{agent} tried to access safetyd's own resources: {times} since {when(one.since)}"
        yield f"PROTECTED: {tried}, all blocked"
        yield f"  The last one: `safetyd explain {plain(one.id)}`"
        yield f"  To stop it: `safetyd stop --agent {agent}`. To mark this as seen: `safetyd ack`"
    for each in view.dangerous:
        agent, count = plain(each.agent), several(each.count, "dangerous command")
        yield f"DANGEROUS: {count} of {agent} blocked in the last hour"
        yield f"  `safetyd decisions --agent {agent} --verdict block` shows them."


def _folderless(view: StatusAnswer) -> Iterator[str]:
    """Yield the agents whose relative paths nobody can resolve."""
    for one in view.folderless:
        unclear = f"{several(one.count, 'proposal')} of {plain(one.agent)}"
        yield f"NO FOLDER: {unclear} had a relative path but no folder (cwd)"
        yield "  Each needs approval. Update its client, or let it send `cwd`."


def _pauses(view: StatusAnswer) -> Iterator[str]:
    for pause in view.pauses:
        by = f"by {plain(pause.by)} since {when(pause.since)}"
        agent = plain(pause.agent)
        yield f"PAUSED: {agent} {by}{because(pause.reason)}"
        if pause.source == "budget" and pause.request:
            yield f"  To double its budget: `safetyd approve {plain(pause.request)}`"
        else:
            yield f"  To end it: `safetyd unpause {agent}`"
    shown = {pause.agent for pause in view.pauses}
    if more := len(view.paused) - len(shown):
        yield f"  and {more} more: `safetyd agents`"


def _over_limits(view: StatusAnswer) -> Iterator[str]:
    """Yield the senders that were over a limit in the last minute."""
    for over in view.over_limits:
        times = several(over.count, "time")
        yield f"OVER LIMIT: {plain(over.sender)}: {plain(over.words)}, {times} in the last minute"
    if view.over_limits:
        yield "  Other senders are not affected. The log has a line for each minute and sender."


def _histories(view: StatusAnswer) -> Iterator[str]:
    """Yield the projects whose commits fail or whose rollback is unfinished."""
    for trouble in view.histories:
        project = plain(trouble.project)
        if half := trouble.rollback:
            error = plain(half.error or "in progress")
            yield f"ROLLBACK NOT FINISHED: project {project}: {error}"
            about = (half.commit, half.kind, half.paths)
            yield f"  To finish it: `{plain(rollback_command(trouble.project, *about))}`"
            if half.agents:
                whom = f"then unpause {some(half.agents)}: `safetyd unpause AGENT`"
                yield f"  Or check the files, {whom}"
        if trouble.commit_error:
            yield f"NOT COMMITTED: project {project}: {plain(trouble.commit_error)}"
            yield "  Until this is fixed, changes in this project cannot be rolled back."


def _requests(view: Waiting, failing: Sequence[str]) -> Iterator[str]:
    if view.pending:
        waiting = several(view.pending, "request")
        yield f"PENDING: {waiting} for approval, the oldest for {duration(view.oldest_s)}"
        yield from _insistent(view)
        yield f"  `safetyd list` shows them. {notified_by(view.channels, view.down, failing)}"
        if view.unsent:
            yield f"  {not_sent(view.unsent)}"
    if view.unnotified:
        yield f"NOT NOTIFIED: nobody was notified of {several(view.unnotified, 'request')}"
        yield "  `safetyd notify outbox` shows what was not delivered, and why."
    for channel in view.down:
        yield f"CHANNEL DOWN: {plain(channel)}: `safetyd notify channels` shows why."


def _insistent(view: Waiting) -> Iterator[str]:
    """Yield the agent that made at least half of the pending requests, if it made many."""
    agent, count = view.most, view.most_pending
    if agent and count >= max(MANY, view.pending / 2):
        denial = f"To deny them: `safetyd deny --agent {plain(agent)}`"
        yield f"  {count} of {view.pending} are from {plain(agent)}. {denial}"


def _breakers(view: StatusAnswer) -> Iterator[str]:
    for row in view.breakers:
        state = plain(row.state).replace("_", " ")
        why = f"{plain(row.reason)}, {duration(row.open_s or 0.0)} ago"
        yield f"BREAKER: {plain(row.breaker)} is {state} for {whom(row)}: {why}"
        probe = f"in {duration(row.wait_s)}" if row.wait_s else "now"
        closes = "The breaker closes when enough probes succeed (breaker.probe_count)."
        yield f"  Next probe: {probe}. {closes}"
    if more := view.tripped - len(view.breakers):
        yield f"  and {more} more: `safetyd breakers`"


def _exporters(view: StatusAnswer) -> Iterator[str]:
    """Yield the exporters that fail. One that is only behind catches up by itself."""
    for state in view.outlets:
        if state.problem:
            behind = several(state.behind, "event")
            yield f"EXPORTER: {plain(state.name)} is {behind} behind: {plain(state.problem)}"
            yield "  `safetyd outlet status` shows details. No event is lost, no agent is delayed."


def _missing(view: StatusAnswer) -> Iterator[str]:
    if found := view.missing:
        days = day_words(found.since, found.day)
        yield f"SNAPSHOT MISSING: {plain(days)}: {plain(found.error)}"
        yield f"  The snapshot of {plain(found.day)} is retried automatically."


def _budget(view: StatusAnswer, budget: Budget, whose: str) -> Iterator[str]:
    """Yield a daily budget if it is (nearly) used up, and how to raise it."""
    used = budget.spent + budget.reserved
    if budget.limit is None or used < budget.limit * view.warn_ratio:
        return
    used_up = nano(budget.spent) + nano(budget.reserved) >= nano(budget.limit)
    blocks = "; actions that cost money are blocked" if used_up else ""
    yield f"BUDGET: {spent(budget)} used today by {whose}{blocks}"
    if budget.reserved:
        yield f"  {usd(budget.reserved)} of it is reserved for actions without an outcome"
    more = f"safetyd budgets raise {budget.scope} AMOUNT --reason WHY"
    yield f"  To raise it until {day_end(view.at)}: `{more}`"


def _near(view: StatusAnswer) -> Iterator[str]:
    for title, reached in (("AT A LIMIT", True), ("NEAR A LIMIT", False)):
        met = [said for row in view.foremost for said in limits(row, reached=reached)]
        yield from (f"{title}: {said}" for said in met)
        if met:
            yield f"  {SETTINGS}"


def _findings(view: StatusAnswer) -> Iterator[str]:
    """Yield the unseen anomalies of the last hour, except those of low severity."""
    worth = [found for found in view.findings if _is_news(found, view.pauses)]
    for found in worth[:MAX_FINDINGS]:
        who = found.agent or found.breaker or "all agents"
        severity = plain(found.severity)
        yield f"ANOMALY: {when(found.at)} {severity}, {plain(who)}: {plain(found.message)}"
    if worth:
        more = view.found - len(worth[:MAX_FINDINGS])
        others = f"{more} more in the last hour: `safetyd anomalies`. " if more else ""
        yield f"  {others}To mark them as seen: `safetyd ack`"


def _is_news(found: Finding, pauses: Sequence[Pausing]) -> bool:
    """Return True if no operator has seen the anomaly, and no pause in the list is due to it."""
    if found.seen or found.severity == "low":
        return False
    told = (pause for pause in pauses if pause.source == "anomaly")
    return all((pause.agent, pause.reason) != (found.agent, found.message) for pause in told)


def _agents(view: StatusAnswer) -> Iterator[str]:
    if view.foremost:
        yield brief(view.foremost)
    if more := view.agents - len(view.foremost):
        yield f"and {more} more: `safetyd agents`"
