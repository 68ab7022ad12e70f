"""A line of the client is forwarded only if no server can find another tool call in it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.hosts.mcp_message import (
    CallMessage,
    Cancellation,
    OtherMessage,
    Rejected,
    read_client_line,
    read_server_line,
    refused_call,
)

CALL = '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": %s}'


def written(pairs: list[tuple[str, str]]) -> str:
    """Return a JSON object, in which keys can be repeated."""
    return "{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}"


# Spellings that some decoders take for the same key or method.
_METHODS = ("tools/call", "tools\\/call", "Tools/Call", "tools/call ", "tool\\u0073/call", "ping")
_KEYS = ("method", "Method", "METHOD", "m\\u0065thod", "params", "Params", "id", "name", "x")
_texts = st.text(max_size=8) | st.sampled_from(["\u2028", "\x85", "tools/call", '"', "\\", "\r\n"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
).map(json.dumps)
_params = st.lists(
    st.tuples(st.sampled_from(["name", "Name", "arguments", "argument\u017f", "_meta"]), _values),
    max_size=4,
).map(written)
_members = st.tuples(
    st.sampled_from(_KEYS),
    st.sampled_from([f'"{method}"' for method in _METHODS]) | _params | _values,
)
_objects = st.lists(_members, max_size=6).map(written)
_lines = _objects | _objects.map(lambda one: f"[{one}]") | _values


def understandings(line: bytes) -> list[dict[str, Any]]:
    """Decode a line as decoders do that use the first or last of equal keys, and ignore case."""

    def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    def folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key.strip().casefold(): value for key, value in pairs}

    return [json.loads(line, object_pairs_hook=hook) for hook in (dict, first, folded)]


@given(_lines | st.text().map(str))
def test_what_is_forwarded_without_a_question_is_no_tool_call_for_any_decoder(line: str) -> None:
    message = read_client_line(line.encode("utf-8", "surrogatepass"))

    if isinstance(message, OtherMessage | Cancellation):
        for understood in understandings(message.line):
            assert str(understood.get("method", "")).strip().casefold() != "tools/call"


@given(_lines)
def test_every_forwarded_line_is_one_line_for_any_reader(line: str) -> None:
    message = read_client_line(line.encode())

    data = message.reply if isinstance(message, Rejected) else message.line
    assert data.isascii()
    assert len(data.decode().splitlines()) == 1
    assert data.endswith(b"\n")


@given(st.lists(_members, max_size=3), _params)
def test_the_server_receives_the_call_that_is_judged(
    members: list[tuple[str, str]], params: str
) -> None:
    around = "".join(f', "{key}": {value}' for key, value in members)
    message = read_client_line((CALL % params)[:-1].encode() + around.encode() + b"}")

    if isinstance(message, CallMessage):
        for understood in understandings(message.line):
            called = understood["params"]
            assert called["name"] == message.name
            assert (called.get("arguments") or {}) == message.arguments
            assert understood["id"] == message.id


@given(st.binary())
def test_no_bytes_raise(data: bytes) -> None:
    read_client_line(data)
    read_server_line(data)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "null",
        f"[{CALL % '{}'}]",
        '{"method": "tools/call", "params": {"name": "a"}}',
        '{"id": null, "method": "tools/call", "params": {"name": "a"}}',
        '{"id": true, "method": "tools/call", "params": {"name": "a"}}',
        '{"id": 1.5, "method": "tools/call", "params": {"name": "a"}}',
        '{"id": {}, "method": "tools/call", "params": {"name": "a"}}',
        '{"id": 1, "method": ["tools/call"]}',
        '{"id": 1, "method": " TOOLS/CALL", "params": {"name": "a"}}',
        CALL % "null",
        CALL % '["a", {}]',
        CALL % '{"arguments": {}}',
        CALL % '{"name": ""}',
        CALL % json.dumps({"name": "a" * 257}),
        CALL % '{"name": "a", "arguments": []}',
        CALL % '{"name": "a", "Name": "b"}',
        CALL % '{"name": "a", "argument\u017f": {}}',
        CALL % '{"name": "a", "arguments": {"x": NaN}}',
        CALL % '{"name": "a", "arguments": {"x": 1e999}}',
        CALL % ('{"name": "a", "arguments": {"x": %s}}' % ("[" * 5000 + "]" * 5000)),
        CALL % '{"name": "a", "arguments": {"x": "\\ud800"}}',
    ],
)
def test_a_message_that_could_be_read_in_two_ways_is_answered_with_an_error(line: str) -> None:
    message = read_client_line(line.encode())

    assert isinstance(message, Rejected)
    assert json.loads(message.reply)["error"]["code"] < 0


def test_parameters_besides_name_and_arguments_are_judged_too() -> None:
    line = CALL % '{"name": "a", "_meta": {"progressToken": 1}, "requestState": "s"}'

    message = read_client_line(line.encode())

    assert isinstance(message, CallMessage)
    assert message.more == {"requestState": "s"}


@pytest.mark.parametrize("version", [None, "2026-07-28"])
def test_a_refusal_has_the_form_of_the_protocol_version(version: str | None) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": version} if version else {}
    message = read_client_line((CALL % json.dumps({"name": "a", "_meta": meta})).encode())
    assert isinstance(message, CallMessage)

    result = json.loads(refused_call(message, "no", {"cause": "policy"}))["result"]

    assert result["isError"]
    assert result.get("resultType") == ("complete" if version else None)
