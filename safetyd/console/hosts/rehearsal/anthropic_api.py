"""The Messages API of Anthropic, as far as hosts use it."""

import json
from typing import Final

from safetyd.console.hosts.rehearsal.model_stand_in import FAREWELL, Body, ModelApi, Reply, text_of


def _results(body: Body) -> list[str]:
    blocks = (
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    )
    return [text_of(one.get("content")) for one in blocks if one.get("type") == "tool_result"]


def _message(content: list[Body], stop: str | None) -> Body:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _events(reply: Reply) -> list[tuple[str, Body]]:
    block: Body
    if reply.call is None:
        stop, block = "end_turn", {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply.text}
    else:
        named = {"id": f"toolu_{reply.number:04d}", "name": reply.call.tool}
        stop, block = "tool_use", {"type": "tool_use", "input": {}, **named}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.call.arguments)}
    contents: list[Body] = [
        {"type": "message_start", "message": _message([], None)},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    return [(content["type"], content) for content in contents]


def _streams(path: str, body: Body) -> bool:
    return path.partition("?")[0].endswith("/messages") and bool(body.get("stream"))


def _unstreamed(_body: Body) -> Body:
    return {"input_tokens": 10, **_message([{"type": "text", "text": FAREWELL}], "end_turn")}


ANTHROPIC: Final = ModelApi(_results, _events, _streams, _unstreamed)
