from collections.abc import Sequence
from typing import Any

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from safetyd.adapters.pydantic_ai import SafetydCapability
from safetyd.client import Safety
from tests.adapters.frameworks.agent_tools import Call, Tools


def model_of(*steps: Sequence[Call]) -> FunctionModel:
    """Return a model that makes these calls, step by step."""

    def reply(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done == len(steps):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(call.tool, call.arguments) for call in steps[done]])

    return FunctionModel(reply)


def results_in(messages: list[ModelMessage]) -> list[str]:
    parts = (part for message in messages for part in message.parts)
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]


async def run_pydantic_ai(
    safety: Safety, tools: Tools, *steps: Sequence[Call], **settings: Any
) -> list[str]:
    agent = Agent(
        model_of(*steps),
        tools=tools.functions,
        capabilities=[SafetydCapability(safety, **settings)],
    )
    async with agent.iter("go") as run:
        try:
            async for _ in run:
                pass
        except OSError:
            pass
        return results_in(run.all_messages())
