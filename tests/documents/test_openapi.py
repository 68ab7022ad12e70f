"""docs/openapi.yaml as a document: complete, true, and each of its examples asked of a daemon."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import pytest
import yaml
from aiohttp import web
from jsonschema import Draft202012Validator, FormatChecker

from docs.generate import DOCS
from docs.openapi import Example, recorded
from safetyd.agents.sender_accounts import SenderAccounts
from safetyd.web.hook_routes import HookRoutes
from safetyd.web.v1.agent_replies import HttpReplies
from safetyd.web.v1.agent_routes import AgentRoutes
from safetyd.web.v1.request_waits import RequestWaits
from tests.agents.test_agent_service import Counter
from tests.conftest import RunningDaemon, StartDaemon
from tests.http_examples import CONFIG, Played, ask, fetch, play
from tests.web.v1.question_site import question_site

# As far as this document goes: what OpenAPI 3.1 says that must be there, and of which kind.
STRUCTURE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["openapi", "info", "servers", "security", "paths", "components"],
    "additionalProperties": False,
    "properties": {
        "openapi": {"const": "3.1.0"},
        "info": {"required": ["title", "version", "description", "license"]},
        "servers": {"type": "array", "items": {"required": ["url"]}},
        "security": {"type": "array", "minItems": 1},
        "paths": {
            "type": "object",
            "patternProperties": {
                "^/(api|hooks)/": {
                    "type": "object",
                    "minProperties": 1,
                    "patternProperties": {"^(get|post)$": {"$ref": "#/$defs/operation"}},
                    "additionalProperties": False,
                },
                # A hook is refused in the words of its host, which would run the call after a 401.
                "^/api/": {
                    "additionalProperties": {"properties": {"responses": {"required": ["401"]}}}
                },
            },
            "additionalProperties": False,
        },
        "components": {
            "required": ["schemas", "responses", "securitySchemes"],
            "properties": {
                "responses": {"additionalProperties": {"$ref": "#/$defs/response"}},
                "securitySchemes": {"additionalProperties": {"required": ["type"]}},
            },
        },
    },
    "$defs": {
        "operation": {
            "required": ["operationId", "summary", "parameters", "responses"],
            "properties": {
                "summary": {"type": "string", "minLength": 10, "pattern": r"\.$"},
                "parameters": {"type": "array", "items": {"$ref": "#/$defs/parameter"}},
                "requestBody": {"required": ["content"]},
                "responses": {
                    "patternProperties": {"^[1-5][0-9]{2}$": {"$ref": "#/$defs/response"}},
                    "additionalProperties": False,
                },
            },
        },
        "parameter": {
            "required": ["name", "in", "required", "schema"],
            "properties": {"in": {"enum": ["path", "query"]}, "required": {"type": "boolean"}},
            "if": {"properties": {"in": {"const": "path"}}},
            "then": {"properties": {"required": {"const": True}}},
        },
        "response": {
            "oneOf": [
                {"required": ["$ref"], "additionalProperties": False, "properties": {"$ref": {}}},
                {"required": ["description"], "properties": {"description": {"type": "string"}}},
            ]
        },
    },
}


class Operation(NamedTuple):
    method: str
    path: str
    content: dict[str, Any]


class Documented(NamedTuple):
    """An example of an operation: its request line, and what is answered to it."""

    path: str
    line: str
    status: int
    schema: dict[str, Any]
    value: Any


def load() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCS / "openapi.yaml").read_text())
    return loaded


DOCUMENT: Final = load()


def operations() -> Iterator[Operation]:
    for path, methods in DOCUMENT["paths"].items():
        for method, content in methods.items():
            yield Operation(method.upper(), path, content)


def documented() -> Iterator[Documented]:
    for _, path, content in operations():
        for status, response in content["responses"].items():
            body = response.get("content", {}).get("application/json", {})
            for example in body.get("examples", {}).values():
                value = example["value"]
                yield Documented(path, example["summary"], int(status), body["schema"], value)


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    """Return what checks an answer, and takes no field that the document does not name."""
    closed = {**schema, "components": {"schemas": closed_schemas()}}
    return Draft202012Validator(closed, format_checker=FormatChecker())


@cache
def closed_schemas() -> dict[str, Any]:
    schemas = load()["components"]["schemas"]
    for part in schemas.values():
        if "properties" in part:
            part["additionalProperties"] = False
    return dict(schemas)


def test_the_document_is_valid_openapi() -> None:
    Draft202012Validator(STRUCTURE).validate(DOCUMENT)


def test_every_schema_is_valid() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere() -> None:
    found = list(references(DOCUMENT))

    for reference in found:
        target: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
    assert len(found) > len(DOCUMENT["paths"])


def references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for inner in part.values():
            yield from references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_operations_have_unique_names() -> None:
    names = [operation.content["operationId"] for operation in operations()]

    assert len(set(names)) == len(names)


def test_every_parameter_of_a_path_is_described() -> None:
    for _, path, content in operations():
        named = {part.strip("{}") for part in path.split("/") if part.startswith("{")}
        assert {p["name"] for p in content["parameters"] if p["in"] == "path"} == named


async def test_the_document_has_exactly_the_served_paths(tmp_path: Path) -> None:
    async with question_site(tmp_path) as site:
        app = web.Application()
        site.api.routes(app)
        agents = agent_routes(tmp_path / "agents")
        agents.routes(app)
        HookRoutes(cast("Any", None), cast("Any", None), agents, SenderAccounts()).routes(app)
        served = {
            (route.method, route.resource.canonical)
            for route in app.router.routes()
            if route.resource is not None and route.method not in {"HEAD", "*"}
        }

    assert {(method, path) for method, path, _ in operations()} == served


def agent_routes(directory: Path) -> AgentRoutes:
    """Return what serves agents, for its paths alone."""
    counter = Counter(directory)
    replies = HttpReplies(counter.captured.publisher)
    waits = RequestWaits(replies, counter.mailbox, counter.service)
    return AgentRoutes(
        counter.service,
        replies,
        waits,
        counter.answers,
        SenderAccounts(),
        agent_of=str,
        shut=frozenset,
        problem=str,
        muted=bool,
    )


def answers_json(operation: dict[str, Any]) -> bool:
    responses = operation["responses"]
    right = responses.get("200") or responses["101"]
    return "application/json" in right["content"]


def test_every_path_has_an_example_of_an_answer() -> None:
    shown = {example.path for example in documented() if example.status < 300}

    assert shown == {path for _, path, content in operations() if answers_json(content)}


@pytest.mark.parametrize("example", list(documented()), ids=lambda example: example.line)
def test_every_documented_answer_matches_its_schema(example: Documented) -> None:
    validator(example.schema).validate(example.value)


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(CONFIG)


@pytest.fixture(scope="module")
def played(daemon: RunningDaemon) -> Played:
    return play(daemon)


@pytest.mark.journey
def test_the_daemon_serves_the_document(daemon: RunningDaemon) -> None:
    heard = fetch(daemon, "/api/openapi.yaml")

    assert heard.content_type == "application/yaml"
    assert heard.body == (DOCS / "openapi.yaml").read_bytes()


@pytest.mark.journey
@pytest.mark.parametrize("example", list(documented()), ids=lambda example: example.line)
def test_every_documented_example_gets_its_answer(
    daemon: RunningDaemon, played: Played, example: Documented
) -> None:
    record = recorded()
    (body,) = {
        json.dumps(e.body)
        for e in record.examples
        if (e.request_line, e.status) == (example.line, example.status)
    }
    line = example.line.replace(record.request, played.request)
    method, target = line.replace(record.commit, played.commit).split(" ")

    heard = ask(daemon, Example(method, example.path, target, json.loads(body), 0, {}))

    assert heard.status == example.status
    validator(example.schema).validate(heard.content)
