"""Telemetry of hosts (OTLP as JSON): the cost of model calls, and which tools ran.

Only the attributes that are named here are decoded. Others can hold prompts and output, which
safetyd never stores.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.hosts.hook_event import Dialect
from safetyd.hosts.tool_call import MAX_WORD, Fields

Signal = Literal["logs", "metrics", "traces"]

NANO: Final = 10**9
MILLI: Final = 1000
MAX_DIGITS: Final = 19  # of nanoseconds since 1970
MAX_COUNT: Final = 2**53


class ModelCall(NamedTuple):
    """An answered request to a model. Two equal ones are the same request, sent twice."""

    host: Dialect
    session: str
    model: str
    input: int
    cached: int  # of the input
    output: int
    cost_usd: float | None  # None: the host does not know it
    latency_ms: float | None
    at: int
    mark: str


class ToolRun(NamedTuple):
    """A tool that ran, successfully or not."""

    host: Dialect
    session: str
    tool: str
    call: str  # empty: this host gives its calls no id
    began: float  # Unix time; NaN: unknown


Found = ModelCall | ToolRun


class NotOtlp(Exception):
    """The body is not OTLP as JSON; the text says why."""


class _Attribute(msgspec.Struct):
    key: str
    value: msgspec.Raw = msgspec.Raw(b"{}")


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    int_value: int | str | None = None
    double_value: float | None = None
    bool_value: bool | None = None


class _Typed(msgspec.Struct):
    """The arguments of Codex's `write_stdin`."""

    chars: str = ""


class _Record(msgspec.Struct, rename="camel"):
    """A log record. OTLP writes large numbers as strings."""

    attributes: list[_Attribute] = []
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0


class _Span(msgspec.Struct, rename="camel"):
    span_id: str = ""
    attributes: list[_Attribute] = []
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0


class _Scope(msgspec.Struct):
    name: str = ""


class _ScopeLogs(msgspec.Struct, rename="camel"):
    log_records: list[_Record] = []


class _ScopeSpans(msgspec.Struct):
    scope: _Scope = msgspec.field(default_factory=_Scope)
    spans: list[_Span] = []


class _ResourceLogs(msgspec.Struct, rename="camel"):
    scope_logs: list[_ScopeLogs] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    scope_spans: list[_ScopeSpans] = []


class _Logs(msgspec.Struct, rename="camel"):
    resource_logs: list[_ResourceLogs] = []


class _Spans(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] = []


_read_logs: Final = msgspec.json.Decoder(_Logs).decode
_read_spans: Final = msgspec.json.Decoder(_Spans).decode
_read_object: Final = msgspec.json.Decoder(dict[str, object]).decode
_read_value: Final = msgspec.json.Decoder(_Value).decode
_read_typed: Final = msgspec.json.Decoder(_Typed).decode


# Gemini CLI's errors of calls that its hook, its policy or its user refused.
_REFUSED: Final = frozenset({"policy_violation", "stop_execution"})


class _Attributes:
    """The attributes of a record, decoded one by one."""

    def __init__(self, attributes: list[_Attribute], at: int) -> None:
        self._raw: Mapping[str, msgspec.Raw] = {one.key: one.value for one in attributes}
        self.at = at  # nanoseconds of Unix time

    def value(self, key: str) -> str | int | float | bool | None:
        raw = self._raw.get(key)
        if raw is None:
            return None
        try:
            found = _read_value(raw)
        except msgspec.DecodeError:
            return None
        values = found.string_value, found.int_value, found.double_value, found.bool_value
        return next((value for value in values if value is not None), None)

    def word(self, key: str) -> str:
        return str(self.value(key) or "")[:MAX_WORD]

    def number(self, key: str) -> float | None:
        """Return a number of at least 0, which some hosts write as text."""
        try:
            number = float(self.value(key) or 0)
        except (ValueError, OverflowError):
            return None
        return max(0.0, number) if math.isfinite(number) else None

    def count(self, key: str) -> int:
        return min(int(self.number(key) or 0), MAX_COUNT)

    def has(self, key: str) -> bool:
        return key in self._raw

    @property
    def did_not_run(self) -> bool:
        """Return True if the call was refused, or failed at once, such as an unknown tool."""
        failed = self.value("success") in {False, "false"}
        return failed and (not self.number("duration_ms") or self.word("error_type") in _REFUSED)

    @property
    def began(self) -> float:
        return self.at / NANO - (self.number("duration_ms") or 0.0) / MILLI


def found_in(signal: Signal, body: bytes) -> list[Found]:
    """Return the model calls and tools in a body. Metrics have none: they only sum up the logs."""
    try:
        if signal == "metrics":
            _read_object(body)
            return []
        return [*(_in_logs(body) if signal == "logs" else _in_spans(body))]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as exc:
        raise NotOtlp(f"the body is not OTLP as JSON: {exc}") from exc


def outcome_fields(call: ModelCall) -> Fields:
    """Return the telemetry for a model call: an outcome without a proposal."""
    tokens = {"input": call.input, "output": call.output, "cached": call.cached}
    fields: Fields = {
        "type": "outcome",
        "ok": True,
        "action_type": "model_call",
        "tokens": tokens,
        "cost_usd": call.cost_usd,
        "latency_ms": call.latency_ms,
        "model": call.model or None,
        "session": call.session or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _nano(value: int | str) -> int:
    """Return a time in nanoseconds, or 0 if it is no possible time."""
    if isinstance(value, str) and not (value.isdecimal() and len(value) <= MAX_DIGITS):
        return 0
    number = int(value)
    return number if 0 <= number < 10**MAX_DIGITS else 0


def _in_logs(body: bytes) -> Iterator[Found]:
    for resource in _read_logs(body).resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                at = _nano(record.time_unix_nano) or _nano(record.observed_time_unix_nano)
                attributes = _Attributes(record.attributes, at)
                read = _LOGS.get(attributes.word("event.name"))
                if read is not None and (found := read(attributes)) is not None:
                    yield found


def _in_spans(body: bytes) -> Iterator[Found]:
    for resource in _read_spans(body).resource_spans:
        for scope in resource.scope_spans:
            if scope.scope.name == "github.copilot":
                yield from filter(None, map(_copilot_chat, scope.spans))


def _claude_request(said: _Attributes) -> ModelCall | None:
    read = said.count("cache_read_tokens")
    written = said.count("cache_creation_tokens")
    return ModelCall(
        "claude",
        said.word("session.id"),
        said.word("model"),
        said.count("input_tokens") + read + written,
        read,
        said.count("output_tokens"),
        said.number("cost_usd") if said.has("cost_usd") else None,
        said.number("duration_ms"),
        said.at,
        said.word("event.sequence"),
    )


def _claude_result(said: _Attributes) -> ToolRun | None:
    call = said.word("tool_use_id")
    return _run("claude", said, "session.id", "tool_name", call) if call else None


def _codex_request(said: _Attributes) -> ModelCall | None:
    # Codex sends another record of this kind, without the tokens.
    if said.word("event.kind") != "response.completed" or not said.has("input_token_count"):
        return None
    return ModelCall(
        "codex",
        said.word("conversation.id"),
        said.word("model"),
        said.count("input_token_count"),
        said.count("cached_token_count"),
        said.count("output_token_count"),
        None,
        None,
        said.at,
        "",
    )


def _codex_result(said: _Attributes) -> ToolRun | None:
    call = said.word("call_id")
    polls = said.word("tool_name") == "write_stdin" and not _types(said.value("arguments"))
    if not call or polls or said.did_not_run:
        return None
    return _run("codex", said, "conversation.id", "tool_name", call)


def _types(arguments: object) -> bool:
    """Return whether a call of `write_stdin` types anything; without text it waits for output."""
    try:
        return bool(_read_typed(str(arguments)).chars)
    except msgspec.DecodeError:
        return True


def _gemini_response(said: _Attributes) -> ModelCall | None:
    return ModelCall(
        "gemini",
        said.word("session.id"),
        said.word("model"),
        said.count("input_token_count") + said.count("tool_token_count"),
        said.count("cached_content_token_count"),
        said.count("output_token_count") + said.count("thoughts_token_count"),
        None,
        said.number("duration_ms"),
        said.at,
        said.word("event.timestamp"),
    )


def _gemini_call(said: _Attributes) -> ToolRun | None:
    return None if said.did_not_run else _run("gemini", said, "session.id", "function_name", "")


def _copilot_chat(span: _Span) -> ModelCall | None:
    ended = _nano(span.end_time_unix_nano)
    said = _Attributes(span.attributes, ended)
    if said.word("gen_ai.operation.name") != "chat":
        return None
    return ModelCall(
        "copilot",
        said.word("gen_ai.conversation.id"),
        said.word("gen_ai.response.model") or said.word("gen_ai.request.model"),
        said.count("gen_ai.usage.input_tokens"),
        said.count("gen_ai.usage.cache_read.input_tokens"),
        said.count("gen_ai.usage.output_tokens"),
        None,
        (ended - _nano(span.start_time_unix_nano)) / (NANO / MILLI),
        ended,
        span.span_id[:MAX_WORD],
    )


def _run(host: Dialect, said: _Attributes, session: str, tool: str, call: str) -> ToolRun:
    return ToolRun(host, said.word(session), said.word(tool), call, said.began)


_LOGS: Final[dict[str, Callable[[_Attributes], Found | None]]] = {
    "api_request": _claude_request,
    "tool_result": _claude_result,
    "codex.sse_event": _codex_request,
    "codex.tool_result": _codex_result,
    "gemini_cli.api_response": _gemini_response,
    "gemini_cli.tool_call": _gemini_call,
}
