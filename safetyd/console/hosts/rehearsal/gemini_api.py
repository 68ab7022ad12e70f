"""The API of Gemini, as far as its CLI uses it."""

from typing import Final

from safetyd.console.hosts.rehearsal.model_stand_in import FAREWELL, Body, ModelApi, Reply, text_of


def _results(body: Body) -> list[str]:
    parts = (part for content in body.get("contents", []) for part in content.get("parts", []))
    return [
        text_of(part["functionResponse"].get("response"))
        for part in parts
        if "functionResponse" in part
    ]


def _answer(part: Body) -> Body:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": 10,
            "candidatesTokenCount": 5,
            "totalTokenCount": 15,
        },
        "modelVersion": "gemini-2.5-pro",
    }


def _events(reply: Reply) -> list[tuple[str, Body]]:
    part: Body = {"text": reply.text}
    if reply.call is not None:
        part = {"functionCall": {"name": reply.call.tool, "args": reply.call.arguments}}
    return [("", _answer(part))]


def _streams(path: str, _body: Body) -> bool:
    return ":streamGenerateContent" in path


def _unstreamed(_body: Body) -> Body:
    # The CLI asks which model fits the task, and wants JSON.
    return _answer({"text": f'{{"model_choice": "pro", "reasoning": "{FAREWELL}"}}'})


GEMINI: Final = ModelApi(_results, _events, _streams, _unstreamed)
