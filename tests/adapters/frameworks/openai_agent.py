import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from agents import Agent, ModelResponse, RunConfig, Runner, Usage, function_tool
from agents.models.interface import Model
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from safetyd.adapters.openai_agents import guarded
from safetyd.client import Safety
from tests.adapters.frameworks.agent_tools import Call, Tools


class ScriptedModel(Model):
    """Makes these calls, step by step."""

    def __init__(self, *steps: Sequence[Call]) -> None:
        self._steps = steps
        self._done = 0

    async def get_response(self, *_: Any, **_options: Any) -> ModelResponse:
        step = self._steps[self._done] if self._done < len(self._steps) else ()
        self._done += 1
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call",
                name=call.tool,
                arguments=json.dumps(call.arguments),
                call_id=uuid4().hex,
            )
            for call in step
        ]
        return ModelResponse(output or [_said("done")], Usage(), None)

    def stream_response(self, *_: Any, **_options: Any) -> Any:
        raise NotImplementedError


def _said(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[content]
    )


async def results_of(agent: Agent[Any]) -> list[str]:
    """Run an agent; return what its model received for each call."""
    ended = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
    items = (item.to_input_item() for item in ended.new_items)
    return [str(item["output"]) for item in items if item.get("type") == "function_call_output"]


async def run_openai_agents(
    safety: Safety, tools: Tools, *steps: Sequence[Call], **settings: Any
) -> list[str]:
    agent = Agent(
        "code", model=ScriptedModel(*steps), tools=[function_tool(one) for one in tools.functions]
    )
    return await results_of(guarded(agent, safety, **settings))
