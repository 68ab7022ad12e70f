"""docs/asyncapi.yaml as a document: complete, and without a reference that leads nowhere."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from docs.generate import DOCS
from docs.messages import MESSAGES


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCS / "asyncapi.yaml").read_text())
    return loaded


def test_the_asyncapi_document_has_what_version_3_requires(document: dict[str, Any]):
    assert document["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= document["info"].keys()
    assert all({"host", "protocol"} <= server.keys() for server in document["servers"].values())
    for channel in document["channels"].values():
        assert {"address", "messages"} <= channel.keys()
    for operation in document["operations"].values():
        assert operation["action"] in {"send", "receive"}
        assert set(operation["channel"]) == {"$ref"}


def test_every_parameter_of_an_address_is_described(document: dict[str, Any]):
    for channel in document["channels"].values():
        tokens = (channel["address"] or "").split(".")
        named = {token.strip("{}") for token in tokens if token.startswith("{")}
        assert named == set(channel.get("parameters", {}))


def test_every_reference_leads_somewhere(document: dict[str, Any]):
    references = list(_references(document))

    for reference in references:
        file, _, pointer = reference.partition("#")
        target = json.loads((DOCS / file).read_text()) if file else document
        for step in filter(None, pointer.split("/")):
            target = target[step]
    assert len(references) > len(MESSAGES)


def _references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for inner in part.values():
            yield from _references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _references(inner)


def test_an_operation_uses_only_messages_of_its_channel(document: dict[str, Any]):
    for operation in document["operations"].values():
        for side in filter(None, (operation, operation.get("reply"))):
            channel = side["channel"]["$ref"]
            assert all(m["$ref"].startswith(f"{channel}/messages/") for m in side["messages"])


def test_every_schema_belongs_to_an_operation(
    document: dict[str, Any],
):
    used = {
        m["payload"]["$ref"] for m in document["components"]["messages"].values() if "payload" in m
    }
    there = {f"schemas/{path.name}" for path in (DOCS / "schemas").iterdir()}

    assert there - used == {"schemas/audit_line.json", "schemas/webhook.json"}


def test_the_four_accounts_are_explained(document: dict[str, Any]):
    for account in ("SAFETY", "AGENTS", "OPEN", "HUMANS"):
        assert f"**{account}**" in document["info"]["description"]
