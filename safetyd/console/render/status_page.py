"""How a daemon is: what is wrong first, then where everything is, then who is there."""

from collections.abc import Iterator, Sequence
from typing import Final

from safetyd.console.render.agent_tables import brief, limits
from safetyd.console.render.guard_tables import safe_mode, whom
from safetyd.console.render.layout import because, day_end, indented, some, usd, when
from safetyd.console.render.money_tables import spent
from safetyd.console.render.request_tables import telling
from safetyd.console.stop_file import told_of
from safetyd.console.terminal_text import plain, several
from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.events.disk_words import MAKE_ROOM, filling, fullness, percent, size
from safetyd.core.events.history_events import day_words
from safetyd.core.messages.money import nano
from safetyd.core.messages.rollback import rollback_command
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.guard_contract import Budget, Finding
from safetyd.operators.contract.hold_contract import Pausing
from safetyd.operators.contract.status_contract import Standstill, StatusAnswer, Waiting

MAX_FINDINGS: Final = 5
MANY: Final = 5  # requests of one agent
SETTINGS: Final = (
    "`safetyd agents` shows what is left; after a change of settings, `safetyd reload`"
)
WELL = "All is well: nothing is stopped, paused, in safe mode or near a limit."


def status(view: StatusAnswer) -> str:
    title = f"safetyd {plain(view.version)}: {plain(view.problem) or 'healthy'}"
    about = (title, *indented(_facts(view)), *pending(view.next_start))
    wrong = list(_wrong(view)) or [WELL]
    parts = (wrong, about, tuple(_agents(view)))
    return "\n\n".join("\n".join(part) for part in parts if part)


def pending(sections: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each section whose change waits for the next start."""
    for section in sections:
        yield f"[{plain(section)}] has changed and takes effect at the next start"


def _facts(view: StatusAnswer) -> Iterator[tuple[str, str]]:
    decided = ", ".join(f"{count} {name}" for name, count in view.decisions.items())
    keyless = "welcome" if view.open_agents else "refused"
    yield "pid", str(view.pid)
    yield "since", when(view.started)
    yield "bus", f"{plain(view.bus)}{' (embedded)' if view.embedded else ''}"
    yield "web", plain(view.web)
    yield "data", plain(view.data_dir)
    free = f"{size(view.disk.free_bytes)} of {size(view.disk.total_bytes)} is free"
    yield "disk", f"{percent(view.disk)} % full at {plain(view.disk.disk)}: {free}"
    if view.config:
        yield "config", plain(view.config)
    yield "mode", f"{plain(view.mode)}, profile {plain(view.profile)}"
    yield "agents", f"{view.agents} known, {view.keys} with a key; without one: {keyless}"
    yield "decided", f"{decided} since the start"
    yield "today", f"{spent(view.today)}, all agents together"
    if view.found:
        found = several(view.found, "finding")
        yield "unusual", f"{found} in the last hour: `safetyd anomalies`"
    for state in view.outlets:
        yield plain(state.name), f"{several(state.behind, 'event')} behind"
    yield "log", several(view.seq, "event")


def _wrong(view: StatusAnswer) -> Iterator[str]:
    """Yield what somebody should look at, the worst first."""
    if view.problem:
        yield f"NOTHING IS ALLOWED: {plain(view.problem)}"
    yield from _disk(view.disk)
    if view.stop.active:
        yield from _stops(view.stop)
    if view.safe_mode.active:
        yield safe_mode(view.safe_mode)
    yield from _pauses(view)
    yield from _histories(view)
    yield from _requests(view.requests, view.failing)
    if view.wide_grants:
        yield f"WIDE: by {some(view.wide_grants)} whatever an agent says passes"
        yield "  `safetyd grants` shows what it lifts, `safetyd grant revoke ID` ends it"
    yield from _breakers(view)
    yield from _budget(view, view.today, "all agents together")
    if view.keyless_today:
        yield from _budget(view, view.keyless_today, "all agents without a key")
    yield from _near(view)
    yield from _outlets(view)
    yield from _missing(view)
    for each in view.unavailable:
        yield f"UNAVAILABLE: {plain(each.name)}: {plain(each.why)}"
        yield f"  {plain(each.fix)}"
    if view.config_problem:
        yield f"REFUSED: the newest configuration: {plain(view.config_problem, 2000)}"
        yield "  mend it, then `safetyd reload`; until then the last good one holds"
    yield from _findings(view)


def _disk(use: DiskUse) -> Iterator[str]:
    """Yield how full the disk is and what fills it, if that is worth a word."""
    if use.level != "good":
        title = "DISK FILLING" if use.level == "warn" else "DISK NEARLY FULL"
        yield f"{title}: {plain(fullness(use))}"
        if use.parts or use.audit_bytes_per_hour:
            yield f"  {plain(filling(use))}"
        yield f"  {MAKE_ROOM}; once it is full nothing is allowed"


def _stops(view: Standstill) -> Iterator[str]:
    """Yield what is stopped, a cause a line, and who has not acknowledged it."""
    for cause, ending in told_of(view.stops):
        yield f"STOPPED: {cause}"
        yield f"  {ending}"
    heard, silent = (some(who) or "nobody" for who in (view.acknowledged, view.silent))
    yield from indented((("heard it", heard), ("silent", silent)))


def _pauses(view: StatusAnswer) -> Iterator[str]:
    for pause in view.pauses:
        by = f"by {plain(pause.by)} since {when(pause.since)}"
        agent = plain(pause.agent)
        yield f"PAUSED: {agent} {by}{because(pause.reason)}"
        if pause.source == "budget" and pause.request:
            yield f"  approve its request to give it as much again: `safetyd list --agent {agent}`"
        else:
            yield f"  `safetyd unpause {agent}` ends it"
    shown = {pause.agent for pause in view.pauses}
    if more := len(view.paused) - len(shown):
        yield f"  and {more} more: `safetyd agents`"


def _histories(view: StatusAnswer) -> Iterator[str]:
    """Yield the projects whose commits fail, or where a rollback is not finished."""
    for trouble in view.histories:
        project = plain(trouble.project)
        if half := trouble.rollback:
            error = plain(half.error or "it is under way")
            yield f"ROLLBACK NOT FINISHED: project {project}: {error}"
            about = (half.commit, half.kind, half.paths)
            yield f"  to finish it: `{plain(rollback_command(trouble.project, *about))}`"
            if half.agents:
                whom = f"then unpause {some(half.agents)}: `safetyd unpause AGENT`"
                yield f"  or check the files, {whom}"
        if trouble.commit_error:
            yield f"NOT COMMITTED: project {project}: {plain(trouble.commit_error)}"
            yield "  until this is fixed, what changes there cannot be rolled back"


def _requests(view: Waiting, failing: Sequence[str]) -> Iterator[str]:
    if view.pending:
        waiting = "1 request waits" if view.pending == 1 else f"{view.pending} requests wait"
        yield f"WAITING: {waiting} for a person, the oldest for {duration(view.oldest_s)}"
        yield from _insistent(view)
        told = telling(view.channels, view.down, failing)
        yield f"  `safetyd list` shows what waits. {told}"
    if view.unnotified:
        yield f"UNTOLD: nobody knows of {several(view.unnotified, 'request')}"
        yield "  `safetyd notify outbox` shows what was not sent, and why"
    for channel in view.down:
        yield f"DOWN: {plain(channel)} takes no messages; `safetyd notify channels` says why"


def _insistent(view: Waiting) -> Iterator[str]:
    """Yield who asks most, where one agent asks for many of the requests."""
    agent, count = view.most, view.most_pending
    if agent and count >= max(MANY, view.pending / 2):
        denial = f"`safetyd deny --agent {plain(agent)}` denies them"
        yield f"  {count} of {view.pending} are of {plain(agent)}: {denial}"


def _breakers(view: StatusAnswer) -> Iterator[str]:
    for row in view.breakers:
        state = plain(row.state).replace("_", " ")
        why = f"{plain(row.reason)}, {duration(row.open_s or 0.0)} ago"
        yield f"BREAKER: {plain(row.breaker)} is {state} for {whom(row)}: {why}"
        wait_s = row.wait_s
        tried = "it is tried now" if not wait_s else f"it is tried again in {duration(wait_s)}"
        yield f"  {tried}, and closes by itself once that works"
    if more := view.tripped - len(view.breakers):
        yield f"  and {more} more: `safetyd breakers`"


def _outlets(view: StatusAnswer) -> Iterator[str]:
    """Yield the outlets that take nothing; what is only behind catches up by itself."""
    for state in view.outlets:
        if state.problem:
            behind = several(state.behind, "event")
            yield f"OUTLET: {plain(state.name)} is {behind} behind: {plain(state.problem)}"
            yield "  `safetyd outlet status` says more; nothing is lost, and agents do not wait"


def _missing(view: StatusAnswer) -> Iterator[str]:
    if found := view.missing:
        days = day_words(found.since, found.day)
        yield f"MISSING: no snapshot of {plain(days)}: {plain(found.error)}"
        yield f"  that of {plain(found.day)} is made up for as soon as it can be"


def _budget(view: StatusAnswer, budget: Budget, whose: str) -> Iterator[str]:
    """Yield what is used of somebody's money for the day if that is much, and what to do."""
    used = budget.spent + budget.reserved
    if budget.limit is None or used < budget.limit * view.warn_ratio:
        return
    used_up = nano(budget.spent) + nano(budget.reserved) >= nano(budget.limit)
    blocks = ": what needs money is blocked" if used_up else ""
    yield f"BUDGET: {spent(budget)} is used today, {whose}{blocks}"
    if budget.reserved:
        yield f"  {usd(budget.reserved)} of it is only reserved, for actions without an outcome"
    more = f"safetyd budgets raise {budget.scope} AMOUNT --reason WHY"
    yield f"  `{more}` adds to it until {day_end(view.at)}"


def _near(view: StatusAnswer) -> Iterator[str]:
    for title, reached in (("AT A LIMIT", True), ("NEAR A LIMIT", False)):
        met = [said for row in view.foremost for said in limits(row, reached=reached)]
        yield from (f"{title}: {said}" for said in met)
        if met:
            yield f"  {SETTINGS}"


def _findings(view: StatusAnswer) -> Iterator[str]:
    """Yield what was unusual in the last hour and nobody has seen yet, but for what is low."""
    worth = [found for found in view.findings if _is_news(found, view.pauses)]
    for found in worth[:MAX_FINDINGS]:
        who = found.agent or found.breaker or "everybody"
        severity = plain(found.severity)
        yield f"ANOMALY: {when(found.at)} {severity}, {plain(who)}: {plain(found.message)}"
    if worth:
        more = view.found - len(worth[:MAX_FINDINGS])
        others = f"the other {more} of the last hour: `safetyd anomalies`; " if more else ""
        yield f"  {others}`safetyd ack` says that you have seen it"


def _is_news(found: Finding, pauses: Sequence[Pausing]) -> bool:
    """Say whether to show a finding: not one that was seen, or stands in a pause's reason."""
    if found.seen or found.severity == "low":
        return False
    told = (pause for pause in pauses if pause.source == "anomaly")
    return all((pause.agent, pause.reason) != (found.agent, found.message) for pause in told)


def _agents(view: StatusAnswer) -> Iterator[str]:
    if view.foremost:
        yield brief(view.foremost)
    if more := view.agents - len(view.foremost):
        yield f"and {more} more: `safetyd agents`"
