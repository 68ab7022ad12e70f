"""The settings that make a host send its telemetry to safetyd.

Nothing is written if the user already sends telemetry to another place. Prompts are not sent,
except by Gemini CLI: none of its settings covers all prompts.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from safetyd.hosts import json_text, toml_block
from safetyd.hosts.hook_event import Dialect

INTERVAL_MS: Final = 2000

_OURS: Final = re.compile(r"otlp\.[A-Za-z0-9_-]+\.[0-9a-f]{64}")  # a token for telemetry


class TelemetryTarget(NamedTuple):
    """Where telemetry is sent. `web` is the address of the daemon's web server."""

    web: str
    token: str

    @property
    def logs(self) -> str:
        return f"{self.web}/otlp/v1/logs"

    @property
    def with_token(self) -> str:
        """Return the address with the token, for hosts that cannot be set to send a header."""
        return f"{self.web}/otlp/t/{self.token}"


class _Settings(NamedTuple):
    """How a host is set up. `elsewhere` names the setting that sends telemetry to another place."""

    added: Callable[[str, TelemetryTarget], str]
    removed: Callable[[str], str]
    elsewhere: Callable[[str, Mapping[str, str]], str]


def added(dialect: Dialect, text: str, target: TelemetryTarget) -> str:
    """Return the settings with telemetry; `removed` undoes it."""
    return _SETTINGS[dialect].added(text, target) if dialect in _SETTINGS else text


def removed(dialect: Dialect, text: str) -> str:
    """Return the settings without what `added` wrote."""
    return _SETTINGS[dialect].removed(text) if dialect in _SETTINGS else text


def elsewhere(dialect: Dialect, text: str, environment: Mapping[str, str]) -> str:
    """Return the setting that sends telemetry to another place, or an empty text."""
    if dialect not in _SETTINGS:
        return ""
    return _SETTINGS[dialect].elsewhere(removed(dialect, text), environment)


def is_on(text: str) -> bool:
    """Return whether the settings send telemetry to safetyd."""
    return _OURS.search(text) is not None


def masked(text: str) -> str:
    """Return a text that can be printed: it masks the secret part of tokens."""
    return _OURS.sub(lambda found: found[0].rpartition(".")[0] + ".***", text)


def variable(dialect: Dialect, target: TelemetryTarget) -> str:
    """Return the variable for a host that has no setting for telemetry, or an empty text."""
    return f"OTEL_EXPORTER_OTLP_ENDPOINT={target.with_token}" if dialect == "copilot" else ""


def _claude_variables(target: TelemetryTarget) -> dict[str, str]:
    return {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORT_INTERVAL": str(INTERVAL_MS),
        "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/json",
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": target.logs,
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS": f"Authorization=Bearer {target.token}",
    }


def _claude_added(text: str, target: TelemetryTarget) -> str:
    for name, value in _claude_variables(target).items():
        text = json_text.with_value(text, ("env", name), value)
    return text


def _claude_removed(text: str) -> str:
    if not is_on(text):
        return text
    said = _member(text, "env")
    headers = _OURS.search(str(said.get("OTEL_EXPORTER_OTLP_LOGS_HEADERS")))
    logs = str(said.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")).removesuffix("/otlp/v1/logs")
    if headers is None:
        return text
    for name, value in _claude_variables(TelemetryTarget(logs, headers[0])).items():
        text = json_text.without(text, ("env", name), value.__eq__)
    return text


def _claude_elsewhere(text: str, environment: Mapping[str, str]) -> str:
    return next(filter(_for_claude, (*_member(text, "env"), *environment)), "")


def _for_claude(name: str) -> bool:
    return name == "CLAUDE_CODE_ENABLE_TELEMETRY" or name.startswith(
        ("OTEL_EXPORTER_OTLP", "OTEL_LOGS_EXPORT")
    )


def _gemini_added(text: str, target: TelemetryTarget) -> str:
    settings = {
        "enabled": True,
        "target": "local",
        "useCollector": True,
        "otlpEndpoint": target.with_token,
        "otlpProtocol": "http",
        "logPrompts": False,
    }
    return json_text.with_value(text, ("telemetry",), settings)


def _gemini_removed(text: str) -> str:
    if not is_on(text):
        return text
    return json_text.without(text, ("telemetry",), lambda value: is_on(json.dumps(value)))


def _gemini_elsewhere(text: str, environment: Mapping[str, str]) -> str:
    if text.strip() and "telemetry" in _object(json_text.parse(text)):
        return "telemetry"
    return next((name for name in environment if name.startswith("GEMINI_TELEMETRY_")), "")


_CODEX: Final = re.compile(r"\n*\[otel\]\n(?:[^\n]+\n?)+")
_CODEX_HASHES: Final = "[hooks.state."


def _codex_added(text: str, target: TelemetryTarget) -> str:
    """Return the text with a table in safetyd's block, before the hashes of its hooks."""
    header = f"{{ Authorization = {json.dumps(f'Bearer {target.token}')} }}"
    table = (
        "[otel]\nlog_user_prompt = false\n"
        f"exporter = {{ otlp-http = {{ endpoint = {json.dumps(target.logs)}, "
        f'protocol = "json", headers = {header} }} }}'
    )
    hooks, mark, hashes = toml_block.content(_codex_removed(text)).partition(_CODEX_HASHES)
    return toml_block.added(text, f"{hooks.strip()}\n\n{table}\n\n{mark}{hashes}")


def _codex_removed(text: str) -> str:
    block = toml_block.content(text)
    bare = _CODEX.sub("\n", block)
    return text if bare == block else toml_block.added(text, bare)


def _codex_elsewhere(text: str, _environment: Mapping[str, str]) -> str:
    return "[otel]" if "otel" in tomllib.loads(toml_block.removed(text)) else ""


def _member(text: str, key: str) -> Mapping[str, object]:
    return _object(_object(json_text.parse(text)).get(key)) if text.strip() else {}


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


_SETTINGS: Final[dict[Dialect, _Settings]] = {
    "claude": _Settings(_claude_added, _claude_removed, _claude_elsewhere),
    "codex": _Settings(_codex_added, _codex_removed, _codex_elsewhere),
    "gemini": _Settings(_gemini_added, _gemini_removed, _gemini_elsewhere),
}
