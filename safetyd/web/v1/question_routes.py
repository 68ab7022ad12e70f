"""Operators' queries over HTTP: each has a path and the same answer as on the bus.

Parameters in the query string and in the path are the query's fields. GET changes nothing.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from safetyd.bus.keyring import LOCAL_OPERATOR
from safetyd.bus.question_limits import QuestionLimits
from safetyd.operators.command_runner import CommandRunner
from safetyd.operators.contract.question import Question
from safetyd.operators.declarations import QUESTIONS
from safetyd.operators.handlers import Asker
from safetyd.operators.replies import Done, Refusal, too_often
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.v1.http_refusals import (
    NOT_STORED,
    json_response,
    refusal_response,
    refusals_are_json,
    refuse_other_sites,
)
from safetyd.web.v1.query_parameters import read_parameters

OPENAPI_TYPE: Final = "application/yaml"
PATIENCE_S: Final = 5.0  # long answers are made in slices, and searching audit files takes a while

_PACKAGE: Final = Path(__file__).parents[2]

_encode = msgspec.json.Encoder().encode
_decode_refusal = msgspec.json.Decoder(Refusal).decode


class Route(NamedTuple):
    """A path below /api/v1, its query, and the query's fields that only other paths accept."""

    path: str
    question: type[Question[Done]]
    without: frozenset[str]


def _routes_of(question: type[Question[Done]]) -> Iterator[Route]:
    """Yield the routes of a query, from its declaration."""
    fields = {path: frozenset(re.findall(r"{(\w+)}", path)) for path in question.paths}
    for path, named in fields.items():
        yield Route(path, question, frozenset().union(*fields.values()) - named)


ROUTES: Final = tuple(route for question in QUESTIONS for route in _routes_of(question))


class Outcome(msgspec.Struct):
    ok: bool


_decode_outcome = msgspec.json.Decoder(Outcome).decode


class QuestionRoutes:
    """Everything under /api/v1/. Queries are sent as the local operator, within the same limits."""

    def __init__(
        self, runner: CommandRunner, question_limits: QuestionLimits, gateway: EngineGateway
    ) -> None:
        self._runner = runner
        self._question_limits = question_limits
        self._gateway = gateway

    def routes(self, app: web.Application) -> None:
        inner = web.Application(middlewares=[refusals_are_json])
        for route in ROUTES:
            inner.router.add_get(route.path, partial(self._get, route))
        app.add_subapp("/v1/", inner)
        app.router.add_get("/openapi.yaml", _get_openapi)

    async def _get(self, route: Route, request: web.Request) -> web.Response:
        refuse_other_sites(request)
        question = read_parameters(route.question, request, route.without)
        by, size = LOCAL_OPERATOR, len(request.path_qs)
        wait = self._question_limits.admit(by, size, lambda: question.protecting)
        if wait > 0:
            return refusal_response(too_often(by, wait))
        answer = _encode(
            await self._gateway.hear(
                lambda told: self._runner.run(question, Asker(by, told)),
                PATIENCE_S,
                always=question.always,
            )
        )
        if _decode_outcome(answer).ok:
            return json_response(answer)
        return refusal_response(_decode_refusal(answer))


async def _get_openapi(_request: web.Request) -> web.FileResponse:
    """Serve openapi.yaml. A wheel has it inside the package, a checkout next to the package."""
    installed = _PACKAGE / "share"
    path = (installed if installed.is_dir() else _PACKAGE.parent) / "docs" / "openapi.yaml"
    return web.FileResponse(path, headers={**NOT_STORED, "Content-Type": OPENAPI_TYPE})
