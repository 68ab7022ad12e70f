"""The content of each page of the control room: a function that sends queries."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, timedelta
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec.structs import asdict

from safetyd.bus.codec import rejected
from safetyd.cards.request_card import RequestCard, coloured_diff, request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.core.approvals.request import KeptChange
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.contract.agent_contract import AgentQuestion, AgentsQuestion
from safetyd.operators.contract.cluster_contract import ClusterQuestion
from safetyd.operators.contract.decision_contract import DecisionsQuestion, ExplainQuestion, Row
from safetyd.operators.contract.guard_contract import (
    AnomaliesQuestion,
    BreakersQuestion,
    LimitsQuestion,
    MoneyQuestion,
)
from safetyd.operators.contract.history_contract import CommitQuestion, CommitsQuestion
from safetyd.operators.contract.hold_contract import SafeModeQuestion
from safetyd.operators.contract.notification_contract import ChannelsQuestion, OutboxQuestion
from safetyd.operators.contract.question import Question
from safetyd.operators.contract.report_contract import ReportQuestion
from safetyd.operators.contract.request_contract import (
    PendingAnswer,
    PendingQuestion,
    RequestQuestion,
)
from safetyd.operators.contract.rota_contract import RotaQuestion
from safetyd.operators.contract.status_contract import HealthQuestion, StatusQuestion
from safetyd.operators.replies import CommandRefused, Done
from safetyd.web.control_room.room_charts import (
    breaker_chart,
    measure_chart,
    money_chart,
    report_charts,
)
from safetyd.web.control_room.room_pages import Ask, Context, FeedGap, News, Page, Params
from safetyd.web.pages.change_view import ChangeView, change_view

ROWS: Final = 50  # rows of a list on one page
LATEST: Final = 8  # events on the overview
FED: Final = 100  # rows of the feed
CROWDED: Final = 30  # new rows shown at a time, while there are too many to read
Asked = TypeVar("Asked", bound=Question[Done])
MOST_AT_ONCE: Final = 200  # requests that can be answered together


async def overview(ask: Ask, _params: Params) -> Context:
    """Return the state of the daemon and the latest events."""
    latest = await ask(DecisionsQuestion(what="events", limit=LATEST))
    status, checks = asdict(await ask(StatusQuestion())), (await ask(HealthQuestion())).checks
    del status["at"], status["disk"]  # they always change, and the page does not show them
    return {
        "status": status,
        "ill": [check for check in checks if check.state != "good"],
        "channels": (await ask(ChannelsQuestion())).channels,
        "rows": latest.rows,
    }


async def requests(ask: Ask, params: Params) -> Context:
    """Return a page of the queue, and the card of the request in the URL."""
    filters = {name: params[name] for name in ("agent", "type") if params.get(name)}
    request = await _request(ask, params["id"]) if "id" in params else None
    waiting = await ask(
        PendingQuestion(
            limit=ROWS,
            grants=False,
            sort="urgency",
            agent=filters.get("agent"),
            type=filters.get("type"),
            around=request.id if request else "",
        )
    )
    content: Context = {"waiting": waiting, "filters": filters, "request": request, "id": ""}
    if request:
        shown = _card(request)
        content |= {"id": request.id, "card": shown, "title": shown.title}
        content["next"] = _next(waiting, request.id)
        content["change"] = await _changed(ask, request.change or None)
    return content


def _next(waiting: PendingAnswer, request_id: str) -> str:
    """Return the request that follows this one in the queue. After the last comes the first."""
    ids = [row.id for row in waiting.requests]
    if request_id in ids:
        following = [*ids[ids.index(request_id) + 1 :], waiting.next]
    else:
        following = ids[(waiting.place or waiting.offset) - waiting.offset :]
    others = [one for one in (*following, waiting.previous, *ids) if one and one != request_id]
    return others[0] if others else ""


async def several(ask: Ask, params: Params) -> Context:
    """Return the selected requests and the digest of this set."""
    ids = list(dict.fromkeys(params.get("id", "").split()))[:MOST_AT_ONCE]
    if not ids:
        raise CommandRefused("not_found", "no request selected: go back and select some")
    chosen = [await _request(ask, id_) for id_ in ids]
    waiting = [request for request in chosen if request.state == "pending"]
    over = [request for request in chosen if request.state != "pending"]
    cards = {request.id: _card(request) for request in waiting}
    here = [request for request in waiting if not request.not_by_web]
    content = {"chosen": waiting, "over": over, "cards": cards, "approvable": len(here)}
    return {**content, "digest": set_digest(waiting)}


async def _request(ask: Ask, id_: str) -> RequestDetails:
    return (await ask(RequestQuestion(id=id_))).request


def _card(request: RequestDetails) -> RequestCard:
    """Return a card that changes only when the request does; a script counts down the deadline."""
    return request_card(request, UTC, request.asked_at)


def set_digest(requests: Sequence[RequestDetails]) -> str:
    """Return a digest of the ids and contents of requests."""
    said = "\n".join(sorted(f"{request.id} {request.digest}" for request in requests))
    return hashlib.sha256(said.encode()).hexdigest()


async def agents(ask: Ask, params: Params) -> Context:
    """Return the agents, sorted and filtered by the parameters in the URL."""
    wanted: dict[str, object] = {"limit": ROWS, "offset": _number(params, "offset")}
    wanted |= _given(params, "sort", "state", "text")
    wanted["descending"] = params.get("descending") == "yes"
    if params.get("key") in {"yes", "no"}:
        wanted["key"] = params["key"] == "yes"
    answer = await ask(_read(AgentsQuestion, wanted))
    return {**asdict(answer), "params": params, "here": _address("/agents", params)}


async def agent(ask: Ask, params: Params) -> Context:
    name = params["name"]
    known = await ask(AgentQuestion(agent=name))
    latest = await ask(DecisionsQuestion(what="all", agent=name, limit=ROWS))
    charts = [measure_chart(measure) for measure in known.measures]
    return {**asdict(known), "charts": charts, "rows": latest.rows, "name": name, "title": name}


async def stopped(ask: Ask, _params: Params) -> Context:
    """Return the agents. The page takes the active stops from the top bar's content."""
    return {"agents": (await ask(AgentsQuestion(limit=ROWS))).agents}


async def safe_mode(ask: Ask, params: Params) -> Context:
    return {"safe_mode": await ask(SafeModeQuestion(agent=params.get("agent")))}


async def feed(ask: Ask, params: Params) -> Context:
    """Return decisions and events, newest first, filtered by the parameters in the URL."""
    wanted = {**_fed(params), "limit": FED}
    if before := _number(params, "before"):
        wanted["before"] = before
    answer = await ask(_read(DecisionsQuestion, wanted))
    return {**asdict(answer), "params": params, "here": _address("/feed", params), "most": FED}


async def feed_news(ask: Ask, params: Params, content: Context, room: int) -> News | None:
    """Return the new rows. If there are too many, return the newest and how many are left out."""
    if _number(params, "before"):
        return News((), content)  # older rows do not change
    wanted = {**_fed(params), "after": content["newest"], "limit": FED, "count": True}
    answer = await ask(_read(DecisionsQuestion, wanted))
    rows: Sequence[Row | FeedGap] = answer.rows
    left_out = answer.left_out or 0
    if (rows and not content["rows"]) or (answer.more and not left_out):
        return None  # there is no list yet, or the number of new rows is unknown
    crowded = len(rows) + left_out > min(max(room, CROWDED), FED)
    if crowded:
        left_out += len(rows[CROWDED:])
        kept = answer.rows[:CROWDED]
        rows = (*kept, FeedGap(count=left_out, before=kept[-1].seq))
    newest = max(content["newest"], answer.newest)
    return News(rows, {**content, **_on_top(rows, content), "newest": newest}, crowded)


def _on_top(rows: Sequence[Row | FeedGap], content: Context) -> Context:
    """Return the feed with the new rows on top. The link "Older" replaces a gap in the last row."""
    kept: list[Row | FeedGap] = [*rows, *content["rows"]]
    if len(kept) <= FED:
        return {"rows": kept}
    del kept[FED:]
    if isinstance(kept[-1], FeedGap):
        kept.pop()
    oldest = next(row.seq for row in reversed(kept) if not isinstance(row, FeedGap))
    return {"rows": kept, "more": True, "before": oldest}


def _fed(params: Params) -> dict[str, object]:
    return {
        "what": params.get("what") or "all",
        **_given(params, "agent", "verdict", "rule", "text"),
    }


async def decision(ask: Ask, params: Params) -> Context:
    """Return a decision and the last commit of its action."""
    told = await ask(ExplainQuestion(id=params["id"]))
    made = [step for step in told.steps if step.what == "committed"]
    kept = KeptChange(project=made[-1].via, commit=made[-1].ref) if made else None
    change = await _changed(ask, kept)
    return {**asdict(told), "title": f"Decision about {told.id}", "change": change}


async def _changed(ask: Ask, kept: KeptChange | None) -> ChangeView | None:
    return await change_view(ask, kept.project, kept.commit, linked=True) if kept else None


async def history(ask: Ask, params: Params) -> Context:
    """Return commits, filtered by the parameters in the URL."""
    wanted = CommitsQuestion(
        project=params.get("project", ""),
        agent=params.get("agent", ""),
        session=params.get("session", ""),
        limit=ROWS,
    )
    return {**asdict(await ask(wanted)), "params": params}


async def commit(ask: Ask, params: Params) -> Context:
    """Return one commit and its diff."""
    name = params["commit"]
    found = await ask(CommitQuestion(commit=name, project=params.get("project", "")))
    return {"change": found, "lines": coloured_diff(found.diff), "title": f"Commit {name[:12]}"}


async def money(ask: Ask, _params: Params) -> Context:
    answer = await ask(MoneyQuestion())
    return {**asdict(answer), "chart": money_chart(answer)}


async def breakers(ask: Ask, _params: Params) -> Context:
    answer = await ask(BreakersQuestion())
    tiles = [(breaker, breaker_chart(breaker)) for breaker in answer.breakers]
    return {**asdict(answer), "tiles": tiles}


async def limits(ask: Ask, _params: Params) -> Context:
    return asdict(await ask(LimitsQuestion()))


async def anomalies(ask: Ask, params: Params) -> Context:
    answer = await ask(_read(AnomaliesQuestion, {"sort": params.get("sort") or "severity"}))
    charts = [measure_chart(measure) for measure in answer.measures]
    return {**asdict(answer), "charts": charts}


class Advice(NamedTuple):
    """The page that helps with a finding of the report, and the text of the link to it."""

    page: str
    words: str


ADVICE: Final = {
    "emergency_stop": Advice("/stopped", "Resume when it is safe"),
    "critical_anomaly": Advice("/anomalies", "Read the anomaly before you resume"),
    "rollback": Advice("/history", "Check the restored files"),
    "budget_gone": Advice("/money", "See what the budget was spent on, or raise it"),
    "nobody_told": Advice("/messages", "Fix the channel that failed, then retry"),
    "audit_broken": Advice("/health", "Compare the audit files with your copy; delete neither"),
    "high_anomaly": Advice("/requests", "Answer the requests of paused agents"),
    "safe_mode": Advice("/safe-mode", "See which agents are in safe mode"),
    "error_rate": Advice("/breakers", "See what failed"),
    "budget_near": Advice("/money", "See what the budget is spent on"),
    "old_requests": Advice("/requests", "Answer the oldest requests"),
    "no_person": Advice("/feed", "Check the decisions since an operator was active"),
    "snapshot_missing": Advice("/health", "Check the disk space"),
    "no_record": Advice("/health", "Check whether safetyd was running"),
}


async def report(ask: Ask, params: Params) -> Context:
    """Return a day's report, or None while it is being made."""
    wanted = ReportQuestion(date=params.get("date", ""), since=params.get("since", ""))
    try:
        made = (await ask(wanted)).report
    except Unanswered:
        return {"report": None}
    last = date.fromisoformat(made.until)
    return {
        "report": made,
        "advice": ADVICE,
        "charts": report_charts(made),
        "before": (date.fromisoformat(made.since) - timedelta(days=1)).isoformat(),
        "after": None if made.so_far else (last + timedelta(days=1)).isoformat(),
    }


async def messages(ask: Ask, _params: Params) -> Context:
    outbox = await ask(OutboxQuestion(limit=ROWS))
    rota = await ask(RotaQuestion())
    return {"outbox": outbox, "rota": rota, **asdict(await ask(ChannelsQuestion()))}


async def health(ask: Ask, _params: Params) -> Context:
    return asdict(await ask(HealthQuestion()))


async def cluster(ask: Ask, _params: Params) -> Context:
    return asdict(await ask(ClusterQuestion()))


def _given(params: Params, *names: str) -> dict[str, object]:
    """Return those of the named parameters that are not empty."""
    return {name: params[name] for name in names if params.get(name)}


def _read(kind: type[Asked], wanted: Mapping[str, object]) -> Asked:
    """Return a query made from the parameters of a URL. Refuse invalid parameters."""
    try:
        return msgspec.convert(wanted, kind)
    except msgspec.ValidationError as exc:
        raise CommandRefused("invalid", rejected(exc)) from None


def _number(params: Params, name: str) -> int:
    said = params.get(name, "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < len(str(2**63)) else 0


def _address(path: str, params: Params) -> str:
    """Return the URL of a list without its offset."""
    kept = {name: said for name, said in params.items() if name not in {"offset", "before"}}
    return f"{path}?{urlencode(kept)}"


PAGES: Final = (
    Page("/", "overview.html", "Overview", overview, heading="Overview"),
    Page("/requests", "requests.html", "Requests", requests, heading="Requests"),
    Page("/requests/{id}", "requests.html", "Request", requests),
    Page("/answers", "several.html", "Answer several", several),
    Page("/agents", "agents.html", "Agents", agents, heading="Agents"),
    Page("/agents/{name}", "agent.html", "Agent", agent),
    Page("/safe-mode", "safe_mode.html", "Safe mode", safe_mode, heading="Safe mode"),
    Page("/feed", "feed.html", "Feed", feed, heading="Feed", news=feed_news),
    Page("/decisions/{id}", "decision.html", "Decision", decision),
    Page("/history", "history.html", "File history", history, heading="File history"),
    Page("/history/{commit}", "commit.html", "Commit", commit),
    Page("/money", "money.html", "Spending", money, heading="Spending"),
    Page("/breakers", "breakers.html", "Breakers", breakers, heading="Breakers"),
    Page("/limits", "limits.html", "Limits", limits, heading="Limits"),
    Page("/anomalies", "anomalies.html", "Anomalies", anomalies, heading="Anomalies"),
    Page("/report", "report.html", "Report", report, heading="Report"),
    Page("/messages", "messages.html", "Notifications", messages, heading="Notifications"),
    Page("/health", "health.html", "Health", health, heading="Health"),
    Page("/cluster", "cluster.html", "Cluster", cluster, heading="Cluster", clustered=True),
    Page("/stopped", "stopped.html", "Stopped", stopped),
)
