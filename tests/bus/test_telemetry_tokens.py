"""Tokens for telemetry: derived from a key, valid for one agent."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.bus.keyring import Keyring, KeyUnusable
from safetyd.bus.telemetry_tokens import TelemetryTokens, read_tokens

TOKENS = TelemetryTokens("00" * 32)


def test_a_token_is_valid_for_its_agent_and_no_other() -> None:
    token = TOKENS.token("claude-code")

    assert TOKENS.agent_of(token) == "claude-code"
    assert TOKENS.agent_of(token.replace("claude-code", "codex")) == ""
    assert TelemetryTokens("01" * 32).agent_of(token) == ""


@given(st.text())
def test_no_other_text_is_a_token(text: str) -> None:
    assert TOKENS.agent_of(text) == ""
    assert TOKENS.agent_of(f"otlp.a.{text}") == ""
    assert TOKENS.agent_of(f"otlp.{text}.{'0' * 64}") == ""


def test_the_key_is_created_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    token = read_tokens(keyring.telemetry_key).token("a")
    keyring.make_own()

    assert read_tokens(keyring.telemetry_key).agent_of(token) == "a"
    assert keyring.telemetry_key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "short", "0" * 63, "z" * 64])
def test_a_damaged_key_is_not_used(tmp_path: Path, content: str) -> None:
    path = tmp_path / "telemetry.key"
    path.write_text(content)

    with pytest.raises(KeyUnusable, match=path.name):
        read_tokens(path)
