"""Telemetry is switched on in a host's settings, and off again, without another change."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.hosts import telemetry_settings
from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.hook_event import Dialect
from safetyd.hosts.host_catalog import HOSTS, Place, SettingsFile, trusted_by_codex
from safetyd.hosts.json_text import parse
from safetyd.hosts.telemetry_settings import TelemetryTarget
from tests.hosts.recorded_telemetry import CANARY

TARGET = TelemetryTarget("http://127.0.0.1:8787", f"otlp.claude-code.{'0a' * 32}")
MOVED = TelemetryTarget("http://127.0.0.1:9999", f"otlp.claude-code.{'0b' * 32}")
LINE = HookCommand("/usr/bin/python3", "/x/safetyd/hook.py", "/run/hook.sock", "agent")
JSON_HOSTS: tuple[Dialect, ...] = ("claude", "gemini")
HASHES = {"config.toml:pre_tool_use:0:0": "sha256:00"}
CODEX = '# mine\nmodel = "gpt-5"\n[mcp_servers.mine]\ncommand = "x"\n'


def file_of(name: str) -> SettingsFile:
    file, *_ = HOSTS[name].files("user", Place(Path("/home/me"), {}, Path("/home/me/project")))
    return file


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
settings = st.dictionaries(st.sampled_from(["a", "model", "é", "hooks "]), json_values, max_size=4)
variables = st.dictionaries(
    st.sampled_from(["PATH", "OTEL_METRICS_EXPORTER"]), st.text(), min_size=1, max_size=2
)


@pytest.mark.parametrize("dialect", JSON_HOSTS)
@given(settings, st.none() | variables, st.sampled_from([None, 2, "\t"]))
def test_what_was_added_is_removed_to_the_byte(
    dialect: Dialect, value: dict[str, object], env: dict[str, str] | None, indent: int | str | None
) -> None:
    text = json.dumps(value | ({} if env is None else {"env": env}), indent=indent)

    added = telemetry_settings.added(dialect, text, TARGET)

    assert telemetry_settings.is_on(added)
    assert telemetry_settings.removed(dialect, added) == text
    assert telemetry_settings.removed(dialect, text) == text
    said: Any = parse(added)
    assert {key: said[key] for key in value} == value
    assert (env or {}).items() <= said.get("env", {}).items()


@pytest.mark.parametrize("name", ["claude-code", "gemini"])
def test_with_the_hooks_it_is_undone_to_the_byte_and_done_twice_is_done_once(name: str) -> None:
    file, dialect = file_of(name), HOSTS[name].dialect
    text = '{\r\n  // mine\r\n  "a": [1, 2],\r\n}\r\n'

    def protected(text: str, target: TelemetryTarget) -> str:
        bare = telemetry_settings.removed(dialect, text)
        return telemetry_settings.added(dialect, file.protected(bare, LINE), target)

    once = protected(text, TARGET)

    assert protected(once, TARGET) == once
    assert protected(once, MOVED) == protected(text, MOVED)
    assert file.unprotected(telemetry_settings.removed(dialect, once)) == text


def test_codex_gets_a_table_in_our_block_and_its_trust_stays() -> None:
    file = file_of("codex")
    hooks = trusted_by_codex(file.protected(CODEX, LINE), HASHES)
    added = telemetry_settings.added("codex", hooks, TARGET)
    trusted = trusted_by_codex(added, HASHES)
    said = tomllib.loads(trusted)

    assert trusted == added
    assert file.protected(added, LINE) == added
    assert telemetry_settings.added("codex", added, TARGET) == added
    assert telemetry_settings.removed("codex", added) == hooks
    assert telemetry_settings.added("codex", added, MOVED) == telemetry_settings.added(
        "codex", hooks, MOVED
    )
    assert file.unprotected(added) == CODEX
    exporter = said["otel"]["exporter"]["otlp-http"]
    assert (exporter["endpoint"], exporter["protocol"]) == (TARGET.logs, "json")
    assert exporter["headers"] == {"Authorization": f"Bearer {TARGET.token}"}
    assert said["hooks"]["state"][next(iter(HASHES))]["trusted_hash"] == "sha256:00"


@pytest.mark.parametrize(
    ("dialect", "text", "environment", "found"),
    [
        ("claude", "", {}, ""),
        ("claude", '{"env": {"PATH": "x"}}', {"OTEL_SERVICE_NAME": "x"}, ""),
        ("claude", '{"env": {"OTEL_LOGS_EXPORTER": "otlp"}}', {}, "OTEL_LOGS_EXPORTER"),
        (
            "claude",
            "{}",
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://mine"},
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
        (
            "claude",
            '{"env": {"CLAUDE_CODE_ENABLE_TELEMETRY": "0"}}',
            {},
            "CLAUDE_CODE_ENABLE_TELEMETRY",
        ),
        ("codex", CODEX, {}, ""),
        ("codex", 'otel.environment = "dev"\n', {}, "[otel]"),
        ("gemini", "", {}, ""),
        ("gemini", '{"telemetry": {"enabled": false}}', {}, "telemetry"),
        ("gemini", "{}", {"GEMINI_TELEMETRY_ENABLED": "true"}, "GEMINI_TELEMETRY_ENABLED"),
        ("opencode", "{}", {}, ""),
    ],
)
def test_telemetry_that_goes_elsewhere_is_found(
    dialect: Dialect, text: str, environment: dict[str, str], found: str
) -> None:
    assert telemetry_settings.elsewhere(dialect, text, environment) == found
    if not found and dialect in JSON_HOSTS:
        ours = telemetry_settings.added(dialect, text or "{}", TARGET)
        assert telemetry_settings.elsewhere(dialect, ours, environment) == ""


def test_settings_of_the_user_are_never_ours() -> None:
    mine = '{"env": {"OTEL_EXPORTER_OTLP_LOGS_HEADERS": "Authorization=Bearer mine"}}'

    assert telemetry_settings.removed("claude", mine) == mine
    assert telemetry_settings.removed("gemini", '{"telemetry": {}}') == '{"telemetry": {}}'
    assert telemetry_settings.removed("codex", "[otel]\n") == "[otel]\n"


def test_a_token_is_not_printed() -> None:
    shown = telemetry_settings.masked(f"{CANARY} {TARGET.with_token}/v1/logs")

    assert TARGET.token not in shown
    assert "otlp.claude-code.***" in shown
