from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool

from safetyd.adapters.langchain import SafetydMiddleware
from safetyd.client import Safety
from tests.adapters.frameworks.agent_tools import Call, Tools


class ScriptedModel(BaseChatModel):
    """Makes these calls, step by step."""

    steps: tuple[Sequence[Call], ...]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_options: Any,
    ) -> ChatResult:
        done = sum(isinstance(message, AIMessage) for message in messages)
        step = self.steps[done] if done < len(self.steps) else ()
        calls = [
            {"name": call.tool, "args": call.arguments, "id": f"call-{done}-{number}"}
            for number, call in enumerate(step)
        ]
        message = AIMessage("" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def results_in(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages if isinstance(message, ToolMessage)]


async def run_langchain(
    safety: Safety, tools: Tools, *steps: Sequence[Call], **settings: Any
) -> list[str]:
    agent = create_agent(
        ScriptedModel(steps=steps),
        tools=[StructuredTool.from_function(coroutine=one) for one in tools.functions],
        middleware=[SafetydMiddleware(safety, **settings)],
    )
    try:
        return results_in((await agent.ainvoke({"messages": "go"}))["messages"])
    except OSError:
        return []
