"""Questions over HTTP: each that people can ask on the bus has a path, and is answered the same.

Parameters of the query and of the path are the question's fields. Nothing is changed by any.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from safetyd.bus.codec import Fields
from safetyd.bus.keyring import LOCAL_OPERATOR
from safetyd.bus.question_limits import QuestionLimits
from safetyd.notify.outbox_control import OutboxQuestion
from safetyd.notify.preview import PreviewQuestion
from safetyd.operators.command_runner import (
    CommandRunner,
    SafeModeQuestion,
)
from safetyd.operators.explain_search import ExplainQuestion
from safetyd.operators.history_access import CommitQuestion, CommitsQuestion
from safetyd.operators.replies import Refusal, too_often
from safetyd.operators.report_access import ReportQuestion
from safetyd.operators.views.agent_page_view import AgentQuestion
from safetyd.operators.views.agent_view import AgentsQuestion
from safetyd.operators.views.decision_view import DecisionsQuestion
from safetyd.operators.views.guard_views.anomaly_view import AnomaliesQuestion
from safetyd.operators.views.request_view import HistoryQuestion, PendingQuestion, RequestQuestion
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.v1.http_refusals import (
    json_response,
    refusal_response,
    refusals_are_json,
    refuse_other_sites,
)
from safetyd.web.v1.openapi_file import get_openapi
from safetyd.web.v1.query_parameters import read_parameters, texts_of

PATIENCE_S: Final = 5.0  # a large daemon answers in slices, and audit files take a while to search


class NoParameters(msgspec.Struct):
    """What is asked with a question that has no fields."""


class QuestionPath(NamedTuple):
    """The name of a question on the bus, its fields, and those that it is not asked with here."""

    command: str
    asked: type[msgspec.Struct] = NoParameters
    without: tuple[str, ...] = ()


# Below /api/v1. What stands in braces is a field too.
PATHS: Final[Mapping[str, QuestionPath]] = {
    "/status": QuestionPath("status"),
    "/agents": QuestionPath("agents", AgentsQuestion),
    "/agents/{agent}": QuestionPath("agent", AgentQuestion),
    "/requests": QuestionPath("pending", PendingQuestion),
    "/requests/{id}": QuestionPath("request", RequestQuestion),
    "/history": QuestionPath("history", HistoryQuestion),
    "/commits": QuestionPath("commits", CommitsQuestion),
    "/commits/{commit}": QuestionPath("commit", CommitQuestion),
    "/decisions": QuestionPath("decisions", DecisionsQuestion),
    "/decisions/{id}": QuestionPath("explain", ExplainQuestion, without=("last",)),
    "/agents/{last}/explain": QuestionPath("explain", ExplainQuestion, without=("id",)),
    "/safe-mode": QuestionPath("safe_mode", SafeModeQuestion),
    "/budgets": QuestionPath("budgets"),
    "/breakers": QuestionPath("breakers"),
    "/anomalies": QuestionPath("anomalies", AnomaliesQuestion),
    "/limits": QuestionPath("limits"),
    "/money": QuestionPath("money"),
    "/health": QuestionPath("health"),
    "/report": QuestionPath("report", ReportQuestion),
    "/top-bar": QuestionPath("top_bar"),
    "/sessions": QuestionPath("sessions"),
    "/types": QuestionPath("types"),
    "/grants": QuestionPath("grants"),
    "/suggestions": QuestionPath("suggestions"),
    "/outbox": QuestionPath("outbox", OutboxQuestion),
    "/channels": QuestionPath("channels"),
    "/preview": QuestionPath("preview", PreviewQuestion),
}
WITHOUT_PATH: Final = frozenset({"sign_in"})  # it lets somebody in, and GET only looks

_encode = msgspec.json.Encoder().encode
_decode_refusal = msgspec.json.Decoder(Refusal).decode


class Outcome(msgspec.Struct):
    ok: bool


_decode_outcome = msgspec.json.Decoder(Outcome).decode


class QuestionRoutes:
    """Everything under /api/v1/, asked as the local operator and within the same limits."""

    def __init__(
        self, runner: CommandRunner, question_limits: QuestionLimits, gateway: EngineGateway
    ) -> None:
        self._runner = runner
        self._question_limits = question_limits
        self._gateway = gateway

    def routes(self, app: web.Application) -> None:
        inner = web.Application(middlewares=[refusals_are_json])
        for path, question in PATHS.items():
            inner.router.add_get(path, partial(self._get, question))
        app.add_subapp("/v1/", inner)
        app.router.add_get("/openapi.yaml", get_openapi)

    async def _get(self, question: QuestionPath, request: web.Request) -> web.Response:
        refuse_other_sites(request)
        fields = fields_of(question, request)
        by = LOCAL_OPERATOR
        wait = self._question_limits.admit(by, len(request.path_qs), lambda: question.command)
        if wait > 0:
            return refusal_response(too_often(by, wait))
        put = partial(self._runner.question, by, fields)
        answer = _encode(await self._gateway.hear(put, PATIENCE_S))
        if _decode_outcome(answer).ok:
            return json_response(answer)
        return refusal_response(_decode_refusal(answer))


def fields_of(question: QuestionPath, request: web.Request) -> Fields:
    """Return what would be sent on the bus: what was asked, and no defaults."""
    asked: Fields = msgspec.to_builtins(read_parameters(question.asked, request, question.without))
    return {"command": question.command, **{name: asked[name] for name in texts_of(request)}}
