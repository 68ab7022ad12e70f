"""Write docs/schemas/*.json, asyncapi.yaml and openapi.yaml from the structs, or check them.

Also what shells complete, from the commands.

python docs/generate.py            write
python docs/generate.py --check    exit 1 and name what is not current
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, get_args

import yaml

from docs.components import Json, schemas_of
from docs.exchanges import EXCHANGES, Exchange
from docs.field_docs import described
from docs.messages import MESSAGES, TELEMETRY
from docs.openapi import openapi
from docs.tables import with_tables
from safetyd import __version__
from safetyd.console import completion
from safetyd.console.cli import commands
from safetyd.core.catalogue.catalogue import AnyEvent
from safetyd.core.messages.notice_header import HEADER, VALUE
from safetyd.core.messages.proposal import MAX_DEPTH, MAX_MESSAGE_BYTES, MAX_TEXT_BYTES
from safetyd.journal.audit import Opened

DOCS: Final = Path(__file__).parent
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

# Fields of a struct that do not travel: intake adds them to a proposal, the journal to an event.
NOT_SENT: Final = {
    "proposal": ("extra",),
    "safety_event": ("event", "seq", "at", "t"),
}
# What agents send; a field of it that need not be there may be null instead.
BY_AGENTS: Final = frozenset({"proposal", "permission_ask", "claim", *TELEMETRY})
# What the daemon publishes of its own accord.
NOTICES: Final = frozenset({"safety_event", "desktop_notice", "state_stop", "state_mode"})
MARKED: Final[Json] = {
    "type": "object",
    "required": [HEADER],
    "properties": {
        HEADER: {"const": VALUE, "description": "No answer has it: ignore what has not."}
    },
}
DESCRIBED: Final = {"safety_event": "What people, logs and dashboards are told."}
PARAMETERS: Final[Mapping[str, Json]] = {
    "agent": {"description": "The agent that speaks, 1 to 64 of A-Z a-z 0-9 _ -"},
    "operator": {"description": "The person that speaks, 1 to 64 of A-Z a-z 0-9 _ -"},
    "id": {"description": "The proposal's id"},
    "event_type": {"description": "The event's type, such as EMERGENCY_STOP"},
    "verb": {"description": "What is asked of the service", "enum": ["PING", "INFO", "STATS"]},
}

DESCRIPTION: Final = f"""\
safetyd decides which of an agent's proposed actions may run. This document is written by
docs/generate.py from the structs that the daemon decodes and encodes with.

Messages are JSON in UTF-8, times RFC 3339. One message has at most {MAX_MESSAGE_BYTES // 1024} KiB,
{MAX_DEPTH} levels and no NUL; a proposal's `text` at most {MAX_TEXT_BYTES // 1024} KiB. Unknown
fields are ignored, but those of a proposal are kept and count in its digest. The prefix
`safety.v1` is `bus.prefix` of the configuration.

Who speaks is the last token of the subject, and the server enforces it. There are four accounts,
joined by service and stream imports only:

- **SAFETY**: the daemon alone. JetStream, and with it the journal, exists only here.
- **AGENTS**: one key for each agent. It may publish `propose`, `permission`, `claim` and
  `telemetry` under its own name, and hear its own `decision`, every `state`, and its inbox
  `_INBOX.agent.<name>.>`.
- **OPEN**: agents without a key, on the embedded server only and only with `bus.open_agents`. They
  have an agent's rights and no secrets from one another. They do not hear keyed agents, and a name
  that has a key is refused here.
- **HUMANS**: one key for each person. An operator may publish `review`, `control` and `query`
  under its own name and hear every `event` and `state`, and its inbox `_INBOX.op.<name>.>`. An
  observer may publish `query` only.

The journal `safety.v1.journal.0` is the daemon's own; its lines are those of the audit files,
schemas/audit_line.json without `hash`.
"""


def main(arguments: list[str]) -> int:
    files = dict(generated())
    stale = sorted(set((DOCS / "schemas").glob("*.json")) - files.keys())
    if arguments == ["--check"]:
        return _report([path for path, text in files.items() if _read(path) != text] + stale)
    (DOCS / "schemas").mkdir(exist_ok=True)
    for path, text in files.items():
        path.write_text(text)
    for path in stale:
        path.unlink()
    return 0


def generated() -> Iterator[tuple[Path, str]]:
    """Yield every file with the text that it should have."""
    schemas = {name: message_schema(name) for name in MESSAGES} | {"audit_line": audit_line()}
    for name, schema in schemas.items():
        yield DOCS / "schemas" / f"{name}.json", json.dumps(schema, indent=2) + "\n"
    protocol = DOCS / "protocol.md"
    yield protocol, with_tables(protocol.read_text(), schemas)
    yield completion.TABLE, completion.table(commands)
    yield (
        DOCS / "asyncapi.yaml",
        _written("Who says what on which subject of the bus, as AsyncAPI.", asyncapi()),
    )
    yield (
        DOCS / "openapi.yaml",
        _written("What programs of the operator can ask over HTTP, as OpenAPI.", openapi()),
    )


def _written(title: str, document: Json) -> str:
    return f"# {title}\n{yaml.dump(document, Dumper=Plain, sort_keys=False, width=100)}"


class Plain(yaml.SafeDumper):
    """Writes long texts as they are and nothing by reference."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def _text(self, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Plain.add_representer(str, Plain._text)  # noqa: SLF001


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _report(wrong: list[Path]) -> int:
    for path in wrong:
        print(f"{path} is not current: run `python docs/generate.py`", file=sys.stderr)
    return 1 if wrong else 0


# -- schemas ---------------------------------------------------------------------------------------


def message_schema(name: str) -> Json:
    """Return the schema of a message as it travels."""
    kind = MESSAGES[name]
    _, parts = schemas_of([kind])
    schema = parts.pop(kind.__name__)
    for field in NOT_SENT.get(name, ()):
        del schema["properties"][field]
        schema["required"] = [key for key in schema["required"] if key != field]
    if name in BY_AGENTS:
        for part in (schema, *parts.values()):
            _allow_nulls(part)
    if name in DESCRIBED:
        schema["description"] = DESCRIBED[name]
    return _headed(name, schema, parts)


def audit_line() -> Json:
    """Return the schema of a line of an audit file: any event of the journal, with its hash."""
    kinds = (Opened, *get_args(AnyEvent))
    _, parts = schemas_of(kinds)
    for kind in kinds:
        event = parts[kind.__name__]
        said = described(kind.__name__, None, "hash")
        hashed = {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": said}
        event["properties"]["hash"] = hashed
        event["required"] = [*event["required"], "hash"]
    lines = [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds]
    return _headed("audit_line", {"title": "AuditLine", "oneOf": lines}, parts)


def _allow_nulls(part: Json) -> None:
    for name in part["properties"].keys() - set(part["required"]):
        field = part["properties"][name]
        if "anyOf" not in field and "null" not in field.get("type", ()):
            said = {key: field.pop(key) for key in ("default", "description") if key in field}
            part["properties"][name] = {"anyOf": [field, {"type": "null"}], **said}


def _headed(name: str, schema: Json, parts: dict[str, Json]) -> Json:
    headed = {"$schema": DRAFT, "$id": f"urn:safetyd:v1:{name}", **schema}
    return {**headed, "$defs": parts} if parts else headed


# -- AsyncAPI --------------------------------------------------------------------------------------


def asyncapi() -> Json:
    """Return the document, from the daemon's side: it receives proposals and sends decisions."""
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "safetyd", "version": __version__, "description": DESCRIPTION},
        "defaultContentType": "application/json",
        "servers": {"bus": _server()},
        "channels": dict(_channels()),
        "operations": {exchange.name: _operation(exchange) for exchange in EXCHANGES},
        "components": {
            "messages": {name: _message(name) for name in _said()},
            "securitySchemes": {
                "nkey": {
                    "type": "asymmetricEncryption",
                    "description": "An nkey: the server's nonce is signed with the seed's key.",
                }
            },
        },
    }


def _server() -> Json:
    return {
        "host": "127.0.0.1:{port}",
        "protocol": "nats",
        "description": "The embedded server; its address is in endpoint.json of the data dir.",
        "variables": {"port": {"description": "Chosen at the first start and kept."}},
        "security": [{"$ref": "#/components/securitySchemes/nkey"}],
    }


def _channels() -> Iterator[tuple[str, Json]]:
    for channel in dict.fromkeys(exchange.channel for exchange in EXCHANGES):
        exchanges = [exchange for exchange in EXCHANGES if exchange.channel == channel]
        address = exchanges[0].address
        parameters = {name: PARAMETERS[name] for name in re.findall(r"{(\w+)}", address)}
        says = _messages(name for exchange in exchanges for name in exchange.says)
        yield channel, {"address": address, "parameters": parameters, "messages": says}
        answers = _messages(name for exchange in exchanges for name in exchange.answers)
        if answers:
            yield f"{channel}_reply", {"address": None, "messages": answers}


def _operation(exchange: Exchange) -> Json:
    operation: Json = {
        "action": "send" if exchange.by == "daemon" else "receive",
        "channel": {"$ref": f"#/channels/{exchange.channel}"},
        "summary": exchange.summary,
        "messages": _in_channel(exchange.channel, exchange.says),
    }
    if exchange.answers:
        channel = f"{exchange.channel}_reply"
        operation["reply"] = {
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": _in_channel(channel, exchange.answers),
        }
    return operation


def _message(name: str) -> Json:
    if name not in MESSAGES:
        return {"name": name, "summary": "The payload is not read."}
    marked = {"headers": MARKED} if name in NOTICES else {}
    return {"name": name, **marked, "payload": {"$ref": f"schemas/{name}.json"}}


def _said() -> Iterable[str]:
    return dict.fromkeys(name for e in EXCHANGES for name in (*e.says, *e.answers))


def _messages(names: Iterable[str]) -> Json:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _in_channel(channel: str, names: Iterable[str]) -> list[Json]:
    return [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
