from typing import Any

import pytest

from safetyd.core.guards.mode import ModeGuard, ModesConfig
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from tests.core.guards.guard_rig import look
from tests.story import propose


def asks(mode: str = "development", config: ModesConfig | None = None, **fields: object) -> Verdict:
    fields = {"type": "model_call", "model": "llama3.3:70b"} | fields
    return look(ModeGuard(mode, config or ModesConfig()), propose(0, **fields))  # type: ignore[arg-type]


@pytest.mark.req("S1.3")
@pytest.mark.req("S1.20")
def test_cloud_calls_are_blocked_in_development() -> None:
    verdict = asks(provider="openai", model="gpt-5.2")

    assert verdict.decision is Severity.BLOCK
    assert (verdict.rule, verdict.cause) == ("mode.cloud", "mode_violation")
    assert "openai" in verdict.reason


@pytest.mark.req("S1.3")
@pytest.mark.parametrize("mode", ["production", "hybrid"])
def test_cloud_calls_are_allowed_in_other_modes(mode: str) -> None:
    assert asks(mode, provider="openai", model="gpt-5.2", cloud=True) is ALLOWED
    assert asks(mode, model=None) is ALLOWED


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "claude-opus-4-5"},
        {"type": "web_search", "model": None, "cloud": True},
        {"type": "embed", "provider": "voyageai", "model": None},
        {"provider": "anthropic", "cloud": False},
        {"model": "gpt-4o", "cloud": False},
    ],
)
def test_a_model_a_provider_or_the_agents_word_tells_a_cloud_call(fields: dict[str, Any]) -> None:
    verdict = asks(**fields)

    assert (verdict.decision, verdict.rule) == (Severity.BLOCK, "mode.cloud")


def test_a_model_call_without_a_name_needs_approval() -> None:
    verdict = asks(model=None)

    assert verdict.decision is Severity.ASK
    assert (verdict.rule, verdict.cause) == ("mode.unknown_model", "mode_violation")
    assert asks(model="", provider="", cloud=False) == verdict


def test_other_types_need_no_model() -> None:
    assert asks(type="read_file", model=None) is ALLOWED
    assert asks(provider="ollama", model=None) is ALLOWED


@pytest.mark.parametrize(
    "model",
    """gpt-5.2 GPT-4o o1 o3-mini o4-mini chatgpt-4o-latest claude-sonnet-4 gemini-2.5-pro grok-4
    openai/gpt-5.2 openrouter/meta-llama/llama-3.3-70b groq/llama-3.3-70b models/gemini-2.5-flash
    us.anthropic.claude-sonnet-4 azure/our-deployment qwen3-coder:480b-cloud whisper-1
    text-embedding-3-small sonar-pro""".split(),  # noqa: SIM905
)
def test_cloud_models_are_known_by_their_usual_names(model: str) -> None:
    assert asks(model=model).rule == "mode.cloud"


@pytest.mark.parametrize(
    "model",
    """llama3.3:70b qwen3:8b mistral mistral-small mixtral:8x7b gemma3:27b google/gemma-3-27b-it
    phi4 gpt-oss:20b openai/gpt-oss-120b gpt-neox deepseek-r1:14b nomic-embed-text whisper-large-v3
    text-embedding-nomic-embed-text-v1.5 o1js meta-llama/Llama-3.1-8B""".split(),  # noqa: SIM905
)
def test_local_models_are_allowed(model: str) -> None:
    assert asks(model=model) is ALLOWED
    assert asks(model=model, provider="ollama") is ALLOWED


@pytest.mark.parametrize(
    "provider",
    """openai Anthropic google gemini vertex_ai azure-openai bedrock aws mistral cohere groq
    together fireworks deepseek xai perplexity openrouter replicate huggingface""".split(),  # noqa: SIM905
)
def test_cloud_providers_are_known_by_their_usual_names(provider: str) -> None:
    assert asks(provider=f" {provider}").rule == "mode.cloud"


@pytest.mark.parametrize("provider", ["ollama", "llama.cpp", "vllm", "mistral.rs", "local"])
def test_local_servers_are_allowed(provider: str) -> None:
    assert asks(provider=provider) is ALLOWED


def test_an_operator_says_what_a_cloud_is() -> None:
    own = ModesConfig(cloud_providers=("acme-*",), cloud_models=())

    assert asks(config=own, provider="acme-eu").rule == "mode.cloud"
    assert asks(config=own, provider="openai", model="gpt-5.2") is ALLOWED
