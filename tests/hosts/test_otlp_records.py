"""Recorded telemetry of every host: the cost of model calls, and the tools that ran."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.bus.codec import read_telemetry
from safetyd.core.messages.telemetry import Outcome
from safetyd.hosts.otlp_records import (
    Found,
    ModelCall,
    NotOtlp,
    Signal,
    ToolRun,
    found_in,
    outcome_fields,
)
from tests.hosts.recorded_telemetry import CANARY, RECORDED, recorded

NAMES = sorted(path.stem for path in RECORDED.glob("*.jsonl"))


def found(name: str) -> list[Found]:
    return [one for sent in recorded(name) for one in found_in(sent.signal, sent.content)]  # type: ignore[arg-type]


def calls(name: str) -> list[ModelCall]:
    return [one for one in found(name) if isinstance(one, ModelCall)]


def runs(name: str) -> list[ToolRun]:
    return [one for one in found(name) if isinstance(one, ToolRun)]


@pytest.mark.parametrize("name", NAMES)
def test_every_model_call_is_found_once_with_model_session_and_tokens(name: str) -> None:
    seen = calls(name)

    assert len(seen) >= 3
    assert len(set(seen)) == len(seen)
    assert {(call.input, call.output) for call in seen} == {(10, 5)}
    assert all(call.model and call.model != CANARY for call in seen)
    assert len({call.session for call in seen}) == 1
    assert seen[0].session


@pytest.mark.parametrize("time", ["9" * 4000, "9" * 5000, -1, 10**30, "soon"])
def test_a_time_that_is_none_counts_as_zero(time: object) -> None:
    sent = next(one for one in recorded("copilot-1.0.102") if one.signal == "traces")
    body = json.loads(sent.content)
    for resource in body["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                span |= {"startTimeUnixNano": time, "endTimeUnixNano": time}
    try:
        seen = [*found_in("traces", json.dumps(body).encode())]
    except NotOtlp:
        return

    assert seen
    assert all(isinstance(one, ModelCall) and one.at == 0 for one in seen)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_call_is_an_outcome_without_a_proposal(name: str) -> None:
    for call in calls(name):
        outcome = read_telemetry(json.dumps(outcome_fields(call)).encode())
        assert isinstance(outcome, Outcome)
        assert (outcome.id, outcome.action_type, outcome.ok) == (None, "model_call", True)
        assert (outcome.model, outcome.session) == (call.model, call.session)
        assert outcome.cost_usd == call.cost_usd


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_rest_is_read(name: str) -> None:
    assert any(CANARY in json.dumps(sent.body) for sent in recorded(name))
    assert CANARY not in repr(found(name))


def test_claude_code_knows_what_a_call_costs() -> None:
    for name in ("claude-code-2.1.197", "claude-code-2.1.326"):
        assert all(call.cost_usd for call in calls(name))


def test_a_tool_that_ran_is_found_and_one_that_does_not_exist_is_not() -> None:
    for name in ("claude-code-2.1.197", "claude-code-2.1.326"):
        assert [(run.tool, run.call) for run in runs(name)] == [("Bash", "toolu_0000")]
    assert [(run.tool, run.call) for run in runs("gemini-0.61.0")] == [("run_shell_command", "")]


def test_codex_polls_without_characters_and_types_with_them() -> None:
    assert [(run.tool, run.call) for run in runs("codex-0.169.0")] == [
        ("exec_command", "call_0"),
        ("exec_command", "call_2"),
        ("write_stdin", "call_4"),
    ]


def _log(**attributes: object) -> bytes:
    def value(one: object) -> object:
        match one:
            case bool():
                return {"boolValue": one}
            case int():
                return {"intValue": str(one)}  # as OTLP writes it
            case float():
                return {"doubleValue": one}
        return {"stringValue": one} if isinstance(one, str) else one

    listed = [
        {"key": name.replace("__", "."), "value": value(one)} for name, one in attributes.items()
    ]
    record = {"timeUnixNano": "1000000000", "attributes": listed}
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()


def test_input_contains_what_the_provider_had_cached() -> None:
    said: dict[str, Any] = {"cache_read_tokens": 700, "cache_creation_tokens": 20}
    (claude,) = found_in("logs", _log(event__name="api_request", input_tokens=3, **said))
    (codex,) = found_in(
        "logs",
        _log(
            event__name="codex.sse_event",
            event__kind="response.completed",
            input_token_count="900",
            cached_token_count="800",
        ),
    )

    assert isinstance(claude, ModelCall)
    assert isinstance(codex, ModelCall)
    assert (claude.input, claude.cached, claude.cost_usd) == (723, 700, None)
    assert (codex.input, codex.cached) == (900, 800)


@pytest.mark.parametrize("wrong", ["much", "nan", "inf", "-3", {"arrayValue": []}, None, {}, 7.5])
def test_a_number_that_is_none_counts_as_zero(wrong: object) -> None:
    (call,) = found_in("logs", _log(event__name="api_request", output_tokens=wrong))

    assert isinstance(call, ModelCall)
    assert call.output == (7 if wrong == 7.5 else 0)
    read_telemetry(json.dumps(outcome_fields(call)).encode())


@pytest.mark.parametrize("arguments", ["not json", "[]", '{"chars": "rm"}', '{"chars": 5}'])
def test_input_that_cannot_be_read_counts_as_typed(arguments: str) -> None:
    body = _log(
        event__name="codex.tool_result",
        tool_name="write_stdin",
        call_id="c",
        success="true",
        arguments=arguments,
    )
    assert len(found_in("logs", body)) == 1


@pytest.mark.parametrize("signal", ["logs", "metrics", "traces"])
@pytest.mark.parametrize(
    "body", [b"", b"\x80", b"[]", b'{"resourceLogs": 5, "resourceSpans": 5}', b"[" * 10_000]
)
def test_what_is_not_otlp_is_refused(signal: Signal, body: bytes) -> None:
    if signal == "metrics" and body.startswith(b"{"):
        assert found_in(signal, body) == []
        return
    with pytest.raises(NotOtlp):
        found_in(signal, body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["api_request", "tool_result", "codex.tool_result", "gemini_cli.tool_call"]),
    st.dictionaries(st.sampled_from(["model", "session__id", "duration_ms", "at"]), json_values),
    json_values,
)
def test_any_value_is_read_or_refused(
    name: str, attributes: dict[str, object], time: object
) -> None:
    body = json.loads(_log(event__name=name, **attributes))
    body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"] = time
    try:
        found_in("logs", json.dumps(body).encode())
    except NotOtlp:
        return
