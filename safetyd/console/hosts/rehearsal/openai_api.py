"""The Responses API of OpenAI, as far as hosts use it."""

import json
from typing import Final

from safetyd.console.hosts.rehearsal.model_stand_in import Body, ModelApi, Reply, text_of

_OUTPUTS: Final = {"function_call_output", "custom_tool_call_output"}


def _results(body: Body) -> list[str]:
    return [text_of(one.get("output")) for one in body["input"] if one.get("type") in _OUTPUTS]


def _events(reply: Reply) -> list[tuple[str, Body]]:
    item: Body = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": reply.text}],
    }
    if reply.call is not None:
        item = {
            "type": "function_call",
            "id": f"fc_{reply.number}",
            "call_id": f"call_{reply.number}",
            "name": reply.call.tool,
            "arguments": json.dumps(reply.call.arguments),
        }
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    named = {"id": f"resp_{reply.number}"}
    contents: list[Body] = [
        {"type": "response.created", "response": named},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**named, "usage": usage}},
    ]
    return [(content["type"], content) for content in contents]


def _streams(path: str, _body: Body) -> bool:
    return path.endswith("/responses")


OPENAI: Final = ModelApi(_results, _events, _streams, lambda _body: {})
