"""Who runs models in a cloud, and which models run nowhere else: globs in lower case."""

from typing import Final


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

# Families whose weights anybody can run (llama, qwen, mistral, gemma, gpt-oss) are not here.
CLOUD_MODELS: Final = (
    *_listed("""
        gpt-[0-9]* chatgpt-* o1 o1-* o3 o3-* o4 o4-* gpt-audio* gpt-image-* gpt-realtime* codex-*
        computer-use-* dall-e-* sora-* tts-1* whisper-1 davinci-002 babbage-002 text-davinci-*
        text-embedding-ada-* text-embedding-3-* text-embedding-00[0-9] claude-* gemini-* imagen-*
        veo-* grok-* sonar sonar-* deepseek-chat deepseek-reasoner voyage-* *anthropic.claude*
        *amazon.nova* *amazon.titan* *:cloud *:*-cloud
    """),
    # Routes through a provider, whatever the model.
    *_listed("""
        anthropic/* azure/* azure_ai/* bedrock/* cohere/* deepseek/* fireworks_ai/* gemini/* groq/*
        huggingface/* mistral/* openrouter/* perplexity/* replicate/* together_ai/* vertex_ai/*
        xai/*
    """),
)
