"""What is served under /api/, as OpenAPI: paths from the table of the daemon, schemas of structs.

Examples are what a daemon answered: `python -m tests.http_examples` asks one anew.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from docs.components import Json, schemas_of
from safetyd import __version__
from safetyd.agents.claims import Claim, ClaimResult
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.guards.safe_mode import SafeModeStatus
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import Noted, Outcome
from safetyd.operators.contract.hold_contract import ExitCommand
from safetyd.operators.contract.question import TAG_FIELD, answer_of, summary_of
from safetyd.operators.replies import Refusal
from safetyd.web.v1.agent_routes import CLAIM, HELD_S, OUTCOME, PROPOSE, WAIT, WaitQuestion
from safetyd.web.v1.event_socket import SEQ_HEADER, FeedQuestion
from safetyd.web.v1.openapi_file import CONTENT_TYPE
from safetyd.web.v1.question_routes import ROUTES

EXAMPLES: Final = Path(__file__).parent / "http_examples.json"
IN_DOCUMENT: Final = "#/components/schemas/{name}"
PREFIX: Final = "/api/v1"
SAFE_MODE: Final = "/api/agent/safe-mode"
FEED: Final = "/api/feed"

DESCRIPTION: Final = """\
JSON for agents, which propose actions, and for programs of the local operator: all that can be
asked on the bus, and safe mode. This document is written by docs/generate.py from the structs that
the daemon answers with.

Agents need their own token, which `safetyd agent add NAME --token` prints once. Everything else
needs the bearer of the local operator, which is in keys/operator.token of the data directory.
Browsers are refused what they ask for pages of other sites. Times are RFC 3339. Answers
have at most 240 KiB; where `more` follow, ask again `after` the last one. Fields may be added.
"""
FOLLOWING: Final = f"""\
Each frame is one SafetyEvent as JSON, told after it was written down, with its number `seq`. With
`after` come first those after that number, then what happens, each once and in order; without it
what happens from now on. The header {SEQ_HEADER} of the answer says after which number that is. Who
reads too slowly is hung up on with code 1013, a daemon that stops hangs up with 1001, and the
reason says with which `after` to resume. Nothing is heard: who sends a message is hung up on.
"""

RESPONSES: Final[Mapping[int, str]] = {
    400: "A parameter is wrong; the error says which, and how.",
    401: "The bearer is missing or wrong.",
    403: "A browser asks for a page of another site.",
    404: "There is no such thing.",
    409: "Safe mode is not left now.",
    410: "Not all that came after it is in the audit files; the error says from where it is.",
    426: "This is a WebSocket.",
    429: "Too much is asked, by this operator or by all; try again later.",
    503: "The daemon cannot answer now; the error says why.",
}
AGENTS: Final[Mapping[int, str]] = {
    400: "The message is malformed; the answer says how. Do not act.",
    401: "The token is missing or wrong.",
    403: "The token is for another agent, or a browser asks for a page of another site.",
    404: "The agent has no such request.",
    410: "The request has ended and its answer is not remembered; propose again.",
    429: "The agent sends more than is taken in; the header says when to try again. Do not act.",
    503: "Nothing can be decided or recorded now. Do not act.",
}
RETRIED: Final = frozenset({429, 503})


RETRY_HEADER: Final[Json] = {
    "Retry-After": {"description": "In so many seconds.", "schema": {"type": "integer"}}
}
OF_AGENT: Final[Mapping[str, Json]] = {
    "agent": {"description": "The agent that the token belongs to."},
    "id": {"description": "The id of the proposal."},
}


class Problem(msgspec.Struct):
    """Why a request was not heard at all."""

    error: str


class SafeModeHeld(msgspec.Struct):
    """Why safe mode was not left: it is `cooling_down`, or `several` are in it."""

    error: str
    cooldown_remaining_ms: int | msgspec.UnsetType = msgspec.UNSET
    agents: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


OF_STATUS: Final[Mapping[int, type[msgspec.Struct]]] = {401: Problem, 409: SafeModeHeld}


class Example(msgspec.Struct):
    """What was asked, below which path of the document, and what a daemon answered."""

    method: str
    path: str
    target: str
    body: Json | None
    status: int
    answer: Json

    @property
    def request_line(self) -> str:
        return f"{self.method} {self.target}"


class ExampleRecord(msgspec.Struct):
    """`request` and `commit` are the ids in them: another daemon has other ones."""

    request: str
    commit: str
    examples: tuple[Example, ...]


def recorded() -> ExampleRecord:
    return msgspec.json.decode(EXAMPLES.read_bytes(), type=ExampleRecord)


def openapi() -> Json:
    examples = recorded().examples
    answers = [answer_of(route.question) for route in ROUTES]
    others = (Refusal, Problem, SafeModeStatus, SafeModeHeld, ExitCommand, SafetyEvent)
    of_agents = (Proposal, Decision, Claim, ClaimResult, Outcome, Noted)
    kinds: dict[type[msgspec.Struct], None] = dict.fromkeys([*answers, *others, *of_agents])
    references, schemas = schemas_of(kinds, IN_DOCUMENT)
    named = dict(zip(kinds, references, strict=True))
    # Who asks of one agent is not told of others.
    of_one = schemas[SafeModeStatus.__name__]
    of_one["required"] = [name for name in of_one["required"] if name != "agents"]
    _number(schemas[SafetyEvent.__name__])
    del schemas[Proposal.__name__]["properties"]["extra"]
    _of_address(schemas[Outcome.__name__])
    _without_name(schemas[ExitCommand.__name__])
    pages = Pages(named, examples)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "safetyd",
            "version": __version__,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8787", "description": "As it is unless configured."}],
        "security": [{"bearer": []}],
        "paths": {
            **pages.agents(),
            **dict(pages.questions()),
            **pages.safe_mode(),
            **pages.others(),
        },
        "components": {
            "schemas": schemas,
            "responses": {f"Status{status}": pages.response(status) for status in RESPONSES},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "agent_token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


class Pages:
    """The paths of the document."""

    def __init__(
        self, named: Mapping[type[msgspec.Struct], Json], examples: Iterable[Example]
    ) -> None:
        self._named = named
        self._examples = tuple(examples)

    def questions(self) -> Iterator[tuple[str, Json]]:
        for below, question, without in ROUTES:
            path = f"{PREFIX}{below}"
            wrong = [400, 401, 403, *([404] if "{" in path else []), 429, 503]
            yield (
                path,
                {
                    "get": {
                        "operationId": "_".join(re.findall(r"\w+", below)),
                        "summary": summary_of(question),
                        "description": _words(question),
                        "parameters": list(_parameters(question, path, without)),
                        "responses": self._responses(path, answer_of(question), wrong),
                    }
                },
            )

    def agents(self) -> Json:
        """Return what agents reach with their token."""
        either = (400, 401, 403, 429, 503)
        held = f"A `pending` decision is answered after at most {HELD_S:g} s of waiting."
        return {
            PROPOSE: {
                "post": {
                    **self._sent(PROPOSE, Proposal, Decision, either),
                    "operationId": "propose",
                    "summary": "Ask whether an action may be taken.",
                    "description": "Every decision is answered with 200, also a block. Act only "
                    f"if `decision` is `allow`. With `wait`, a person's answer is awaited. {held}",
                }
            },
            WAIT: {
                "get": {
                    "operationId": "wait",
                    "summary": "Wait for the answer to a request of the agent.",
                    "description": "The decision is still `pending` if nobody answers within "
                    "`timeout_s`; then wait again. An approval is used up by the first answer.",
                    "security": [{"agent_token": []}],
                    "parameters": list(_parameters(WaitQuestion, WAIT)),
                    "responses": self._to_agents(WAIT, Decision, (*either, 404, 410)),
                }
            },
            CLAIM: {
                "post": {
                    **self._sent(CLAIM, Claim, ClaimResult, either),
                    "operationId": "claim",
                    "summary": "Claim an approved action whose decision has `claim_required`.",
                    "description": "Begin the action only if `granted` is true.",
                }
            },
            OUTCOME: {
                "post": {
                    **self._sent(OUTCOME, Outcome, Noted, either),
                    "operationId": "outcome",
                    "summary": "Report how an allowed action went.",
                    "description": "`ok` is false only if the action could not be carried out.",
                }
            },
        }

    def _sent(
        self,
        path: str,
        says: type[msgspec.Struct],
        answer: type[msgspec.Struct],
        wrong: Iterable[int],
    ) -> Json:
        """Return the security, parameters, body and responses of what an agent sends."""
        (name,) = re.findall(r"{(\w+)}", path)
        text = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
        bodies = [e.body for e in self._examples if e.path == path and e.status == HTTPStatus.OK]
        said = {f"example{number}": {"value": body} for number, body in enumerate(bodies, 1)}
        return {
            "security": [{"agent_token": []}],
            "parameters": [{**_parameter(name, text, "path", required=True), **OF_AGENT[name]}],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": self._named[says], "examples": said}},
            },
            "responses": self._to_agents(path, answer, wrong),
        }

    def _to_agents(self, path: str, answer: type[msgspec.Struct], wrong: Iterable[int]) -> Json:
        """Return the responses; what is refused is a refusal, or the answer's own shape."""
        responses = self._responses(path, answer, ())
        for status in wrong:
            shapes = [self._named[Refusal], self._named[answer]]
            response: Json = {"description": AGENTS[status]}
            if status in RETRIED:
                response["headers"] = RETRY_HEADER
            examples = self._of(path, status)
            shown = {"examples": examples} if examples else {}
            response["content"] = {"application/json": {"schema": {"anyOf": shapes}, **shown}}
            responses[str(status)] = response
        return responses

    def safe_mode(self) -> Json:
        agent = _parameter(
            "agent",
            {"type": "string", "description": "Only of this agent."},
            "query",
            required=False,
        )
        left = f"{SAFE_MODE}/exit"
        bodies = [example.body for example in self._examples if example.path == left]
        said = {f"example{number}": {"value": body} for number, body in enumerate(bodies, 1)}
        body = {"application/json": {"schema": self._named[ExitCommand], "examples": said}}
        return {
            SAFE_MODE: {
                "get": {
                    "operationId": "safe_mode_state",
                    "summary": "Ask how safe mode is, of one agent or of all.",
                    "parameters": [agent],
                    "responses": self._responses(SAFE_MODE, SafeModeStatus, [400, 401, 503]),
                }
            },
            left: {
                "post": {
                    "operationId": "safe_mode_exit",
                    "summary": "Leave safe mode.",
                    "description": "Before the cooldown is over that takes `force` and a reason.",
                    "parameters": [agent],
                    "requestBody": {"required": False, "content": body},
                    "responses": self._responses(left, SafeModeStatus, [400, 401, 409, 503]),
                }
            },
        }

    def others(self) -> Json:
        """Return the feed, and where this document is."""
        begins = {"description": "Where the feed begins.", "schema": {"type": "integer"}}
        followed = {
            "description": "The frames that follow.",
            "headers": {SEQ_HEADER: begins},
            "content": self._content(SafetyEvent, self._of(FEED, 101)),
        }
        wrong = (400, 401, 403, 410, 426, 429, 503)
        feed = {
            "operationId": "feed",
            "summary": "Follow what people are told, over a WebSocket.",
            "description": FOLLOWING,
            "parameters": list(_parameters(FeedQuestion, FEED)),
            "responses": {"101": followed}
            | {str(status): self._wrong(FEED, status) for status in wrong},
        }
        yaml = {"description": "This document.", "content": {CONTENT_TYPE: {}}}
        document = {
            "operationId": "openapi",
            "summary": "Ask for this document.",
            "parameters": [],
            "responses": {"200": yaml, "401": self._wrong("", 401)},
        }
        return {FEED: {"get": feed}, "/api/openapi.yaml": {"get": document}}

    def response(
        self, status: int, kind: type[msgspec.Struct] = Refusal, examples: Json | None = None
    ) -> Json:
        """Return how a status is described, with examples if there are some."""
        kind = OF_STATUS.get(status, kind)
        response: Json = {"description": RESPONSES[status]}
        if status in RETRIED:
            response["headers"] = RETRY_HEADER
        response["content"] = self._content(kind, examples or {})
        return response

    def _responses(self, path: str, answer: type[msgspec.Struct], wrong: Iterable[int]) -> Json:
        right = {
            "description": "The answer.",
            "content": self._content(answer, self._of(path, 200)),
        }
        return {"200": right} | {str(status): self._wrong(path, status) for status in wrong}

    def _wrong(self, path: str, status: int) -> Json:
        examples = self._of(path, status)
        if path.startswith(SAFE_MODE):  # it is older, and its errors have no code
            return self.response(status, Problem, examples)
        if examples:
            return self.response(status, Refusal, examples)
        return {"$ref": f"#/components/responses/Status{status}"}

    def _content(self, kind: type[msgspec.Struct], examples: Json) -> Json:
        shown = {"examples": examples} if examples else {}
        return {"application/json": {"schema": self._named[kind], **shown}}

    def _of(self, path: str, status: int) -> Json:
        found = [e for e in self._examples if (e.path, e.status) == (path, status)]
        return {
            f"example{number}": {"summary": example.request_line, "value": example.answer}
            for number, example in enumerate(found, 1)
        }


def _of_address(outcome: Json) -> None:
    """Leave out what the address says already."""
    for name in ("type", "id"):
        del outcome["properties"][name]
    outcome["required"] = ["ok"]


def _without_name(command: Json) -> None:
    """Leave out the name of a command that the address says already."""
    del command["properties"][TAG_FIELD]
    command["required"].remove(TAG_FIELD)


def _number(event: Json) -> None:
    """Make of a SafetyEvent what a frame has: the number of the journal, and no more of that."""
    for name in ("event", "at", "t"):
        del event["properties"][name]
    event["required"] = [
        "seq",
        *(name for name in event["required"] if name in event["properties"]),
    ]
    event["properties"]["seq"] = {"type": "integer", "minimum": 1}
    event["description"] = "What people, logs and dashboards are told."


def _parameters(
    asked: type[msgspec.Struct], path: str, without: Container[str] = ()
) -> Iterator[Json]:
    _, schemas = schemas_of([asked], IN_DOCUMENT)
    schema = schemas[asked.__name__]
    in_path = re.findall(r"{(\w+)}", path)
    for name, field in schema["properties"].items():
        if name == TAG_FIELD:
            continue
        if name in in_path:
            given = {key: field[key] for key in field if key != "default"}
            yield _parameter(name, given, "path", required=True)
        elif name not in without:
            required = name in schema.get("required", ())
            yield _parameter(name, _of_text(field), "query", required=required)


def _parameter(name: str, schema: Json, where: str, *, required: bool) -> Json:
    described = {key: schema[key] for key in ("description",) if key in schema}
    bare = {key: value for key, value in schema.items() if key not in described}
    return {"name": name, "in": where, **described, "required": required, "schema": bare}


def _of_text(field: Json) -> Json:
    """Return the schema of a field as a parameter, which cannot be null."""
    kept = {key: value for key, value in field.items() if key != "default" or value is not None}
    if "anyOf" not in kept:
        return kept
    others = [schema for schema in kept.pop("anyOf") if schema != {"type": "null"}]
    return {**kept, **(others[0] if len(others) == 1 else {"anyOf": others})}


def _words(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())
