"""The mode: in development, cloud calls are blocked, so no cloud money is spent.

Agents state providers and models themselves, so the lists catch honest mistakes only.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict

_ELSEWHERE: Final = "in production or hybrid mode"
Glob = Annotated[str, Meta(min_length=1, max_length=128)]


def _listed(globs: str) -> tuple[str, ...]:
    return tuple(globs.split())


CLOUD_PROVIDERS: Final = _listed("""
    openai anthropic* google* gemini* vertex* azure* bedrock* aws* amazon* sagemaker* mistral
    mistralai cohere* groq* together* fireworks* deepseek* xai x.ai perplexity* openrouter*
    replicate* huggingface* ai21* alibaba* dashscope* assemblyai* baseten* cerebras* cloudflare*
    databricks* deepgram* deepinfra* elevenlabs* github* hyperbolic* ibm* watsonx* jina* minimax*
    moonshot* nebius* novita* nvidia* ollama-cloud ollama_cloud oracle* sambanova* scaleway*
    siliconflow* snowflake* stability* voyage* z.ai zai zhipu*
""")

# Models with open weights (llama, qwen, mistral, gemma, gpt-oss) are not listed.
CLOUD_MODELS: Final = (
    *_listed("""
        gpt-[0-9]* chatgpt-* o1 o1-* o3 o3-* o4 o4-* gpt-audio* gpt-image-* gpt-realtime* codex-*
        computer-use-* dall-e-* sora-* tts-1* whisper-1 davinci-002 babbage-002 text-davinci-*
        text-embedding-ada-* text-embedding-3-* text-embedding-00[0-9] claude-* gemini-* imagen-*
        veo-* grok-* sonar sonar-* deepseek-chat deepseek-reasoner voyage-* *anthropic.claude*
        *amazon.nova* *amazon.titan* *:cloud *:*-cloud
    """),
    # Any model that is called through one of these providers.
    *_listed("""
        anthropic/* azure/* azure_ai/* bedrock/* cohere/* deepseek/* fireworks_ai/* gemini/* groq/*
        huggingface/* mistral/* openrouter/* perplexity/* replicate/* together_ai/* vertex_ai/*
        xai/*
    """),
)


class ModesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Providers and models that run in a cloud, as globs that ignore case.

    A model is compared with and without the part before its last slash.
    """

    cloud_providers: tuple[Glob, ...] = CLOUD_PROVIDERS
    cloud_models: tuple[Glob, ...] = CLOUD_MODELS


class ModeGuard(Guard):
    """Block cloud calls in development. Stateless."""

    name = "mode"

    def __init__(self, mode: str, config: ModesConfig) -> None:
        self._mode = mode
        self._development = mode == "development"
        self._is_cloud_provider = _matcher(config.cloud_providers)
        self._is_cloud_model = _matcher(config.cloud_models)

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        if not self._development:
            return ALLOWED
        proposal = proposed.proposal
        if why := self._why_cloud(proposal):
            return _verdict(Severity.BLOCK, "mode.cloud", why)
        if kind.type == "model_call" and not proposal.provider and not proposal.model:
            why = "this model_call names neither a provider nor a model"
            remedy = f"with a model that is not listed in modes.cloud_models, or {_ELSEWHERE}"
            return _verdict(Severity.ASK, "mode.unknown_model", why, remedy)
        return ALLOWED

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        return self._mode

    def _why_cloud(self, proposal: Proposal) -> str:
        """Return why a proposal is a cloud call, or an empty string if it is not."""
        # `cloud: false` is ignored: an agent cannot loosen a rule.
        if proposal.cloud:
            return "the proposal says cloud: true"
        if proposal.provider and self._is_cloud_provider(proposal.provider):
            return f"provider {proposal.provider} is listed in modes.cloud_providers"
        if proposal.model and self._is_cloud_model(proposal.model):
            return f"model {proposal.model} is listed in modes.cloud_models"
        return ""


def _matcher(globs: Iterable[str]) -> Callable[[str], bool]:
    either = "|".join(fnmatch.translate(glob.lower()) for glob in globs)
    match = re.compile(either or r"(?!)").match

    def matches(name: str) -> bool:
        name = name.strip().lower()
        return bool(match(name)) or ("/" in name and bool(match(name.rpartition("/")[2])))

    return matches


def _verdict(decision: Severity, rule: str, why: str, remedy: str = _ELSEWHERE) -> Verdict:
    reason = f"Development mode allows no cloud calls: {why}"
    return Verdict("mode", decision, rule, reason, cause="mode_violation", remedy=remedy)
