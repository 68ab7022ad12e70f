"""Messages of the Model Context Protocol (MCP) on a stdio connection, one JSON object a line.

The server must receive exactly the call that was judged. JSON decoders differ in what they accept
(repeated keys, keys in another case, line separators inside a text). So each line of the client is
decoded, checked and encoded again before it is forwarded.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeGuard

import msgspec

MAX_NAME: Final = 256  # characters of a tool's name; the protocol recommends at most 128
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602

_CALL: Final = "tools/call"
_CANCELLED: Final = "notifications/cancelled"
_MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")
# The members of a call that decide what it does. Some decoders ignore the case of names.
_DECISIVE: Final = frozenset({"name", "arguments"})
_UNJUDGED: Final = frozenset({"name", "arguments", "_meta"})
# Since 2026-07-28, each request names the protocol version; before, the handshake did.
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"

Id = int | str
Object = dict[str, object]


class CallMessage(NamedTuple):
    """A tool call of the client. `more` has the parameters besides name and arguments."""

    id: Id
    name: str
    arguments: Object
    more: Object
    names_version: bool
    line: bytes


class Cancellation(NamedTuple):
    """The client no longer waits for the answer to a request."""

    request: object
    line: bytes


class OtherMessage(NamedTuple):
    """A message that is forwarded without a decision."""

    line: bytes


class Rejected(NamedTuple):
    """A message that is not forwarded. `reply` is empty if the client waits for no answer."""

    reason: str
    reply: bytes


class ToolOutcome(NamedTuple):
    """The server's answer to a tool call. `error` is empty if the tool reported none."""

    id: Id
    error: str


ClientMessage = CallMessage | Cancellation | OtherMessage | Rejected


class _Content(msgspec.Struct):
    text: str = ""


class _Result(msgspec.Struct, rename="camel"):
    is_error: bool = False
    content: list[_Content] = []


class _Error(msgspec.Struct):
    message: str = ""


class _Response(msgspec.Struct):
    id: Id
    method: msgspec.UnsetType | str = msgspec.UNSET
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_read_response = msgspec.json.Decoder(_Response).decode
_read_result = msgspec.json.Decoder(_Result).decode
_read_error = msgspec.json.Decoder(_Error).decode


def read_client_line(line: bytes) -> ClientMessage:
    """Decode a line of the client, and encode it again for the server."""
    try:
        message = msgspec.json.decode(line)
    except _UNREADABLE as exc:
        return _rejected(None, PARSE_ERROR, f"this line is not valid JSON: {str(exc)[:200]}")
    if not isinstance(message, dict):
        why = "batches are not supported" if isinstance(message, list) else "not a JSON object"
        return _rejected(None, INVALID_REQUEST, why)
    known = {name: message[name] for name in _MEMBERS if name in message}
    try:
        encoded = _encode(known)
    except (RecursionError, ValueError) as exc:
        return _rejected(None, INVALID_REQUEST, str(exc)[:200])
    return _read(known, encoded)


def _read(message: Object, line: bytes) -> ClientMessage:
    method = message.get("method", "")
    if not isinstance(method, str):
        return _rejected(message.get("id"), INVALID_REQUEST, "the method is not a string")
    if method == _CALL:
        return _call(message, line)
    if method.strip().casefold() == _CALL:
        return _rejected(message.get("id"), INVALID_REQUEST, f"unknown method {method!r}")
    params = message.get("params")
    if method == _CANCELLED and isinstance(params, dict):
        return Cancellation(params.get("requestId"), line)
    return OtherMessage(line)


def _call(message: Object, line: bytes) -> CallMessage | Rejected:
    id_, params = message.get("id"), message.get("params")
    if not is_id(id_):
        # A server may run a call without an id, and nobody would get the result.
        return _rejected(None, INVALID_REQUEST, "a tool call needs an id: an integer or a string")
    if not isinstance(params, dict):
        return _rejected(id_, INVALID_PARAMS, "params must be an object")
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        why = f"name must be a string of 1 to {MAX_NAME} characters"
        return _rejected(id_, INVALID_PARAMS, why)
    if not isinstance(arguments, dict | None):
        return _rejected(id_, INVALID_PARAMS, "arguments must be an object")
    more = {key: value for key, value in params.items() if key not in _UNJUDGED}
    if alike := [key for key in more if key.strip().casefold() in _DECISIVE]:
        return _rejected(id_, INVALID_PARAMS, f"unknown parameter {alike[0][:MAX_NAME]!r}")
    meta = params.get("_meta")
    modern = isinstance(meta, dict) and _VERSION in meta
    return CallMessage(id_, name, arguments or {}, more, modern, line)


def is_id(value: object) -> TypeGuard[Id]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def read_server_line(line: bytes) -> ToolOutcome | None:
    """Return the answer in a line of the server, or None if the line is not an answer."""
    try:
        response = _read_response(line)
        if response.method is not msgspec.UNSET:
            return None
    except _UNREADABLE:
        return None
    return ToolOutcome(response.id, _error_in(response))


def _error_in(response: _Response) -> str:
    try:
        if response.error:
            return _read_error(response.error).message or "the server returned an error"
        result = _read_result(response.result)
    except _UNREADABLE:
        return ""
    if not result.is_error:
        return ""
    return " ".join(part.text for part in result.content if part.text) or "the tool failed"


def refused_call(call: CallMessage, words: str, details: Mapping[str, object]) -> bytes:
    """Return the result of a call that does not run. The model reads `words`."""
    result: Object = {"content": [{"type": "text", "text": words}], "isError": True}
    if details:
        result["_meta"] = {f"safetyd/{name}": value for name, value in details.items()}
    if call.names_version:
        result["resultType"] = "complete"
    return _encode({"jsonrpc": "2.0", "id": call.id, "result": result})


def _rejected(id_: object, code: int, reason: str) -> Rejected:
    error = {"code": code, "message": f"safetyd: {reason}"}
    named = id_ if is_id(id_) else None
    return Rejected(reason, _encode({"jsonrpc": "2.0", "id": named, "error": error}))


def _encode(message: Object) -> bytes:
    """Encode a message in ASCII, so that no decoder sees a line break inside a text."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


LONG_LINE: Final = _rejected(None, INVALID_REQUEST, "this line is too long")
