import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Final, NamedTuple, cast

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

from safetyd.adapters.claude_agent_sdk import hooks
from safetyd.client import Safety
from safetyd.console.hosts.rehearsal.anthropic_api import ANTHROPIC
from safetyd.console.hosts.rehearsal.model_stand_in import Body, Talk, ToolCall, model
from tests.adapters.frameworks.agent_tools import Call, Tools

SERVER: Final = "mcp__own__"


class StepReply(NamedTuple):
    """What the model says: the calls of a step. It has no calls at the end."""

    number: int
    step: Sequence[Call]


class Steps(Talk):
    """A conversation in which the model makes the calls of each step at the same time."""

    def __init__(self, steps: Sequence[Sequence[Call]]) -> None:
        super().__init__(_none())
        self._steps = steps
        self.results: list[str] = []

    def reply(self, results: list[str]) -> Any:
        self.results = max(self.results, results, key=len)
        done = 0
        for number, step in enumerate(self._steps):
            if done == len(results):
                return StepReply(number, step)
            done += len(step)
        return StepReply(len(self._steps), ())


def _none() -> Any:
    yield from ()


def _events(reply: Any) -> list[tuple[str, Body]]:
    """Return the events of the Messages API for all calls of a step."""
    one = cast("Any", ANTHROPIC.events)
    if not isinstance(reply, StepReply) or not reply.step:
        return cast("list[tuple[str, Body]]", one(_Single(reply.number)))
    blocks: list[tuple[str, Body]] = []
    start, end = [], []
    for index, call in enumerate(reply.step):
        said = one(_Single(reply.number * 100 + index, ToolCall(call.tool, call.arguments)))
        start, end = said[:1], said[4:]
        blocks += [(name, {**content, "index": index}) for name, content in said[1:4]]
    return [*start, *blocks, *end]


class _Single(NamedTuple):
    number: int
    call: ToolCall | None = None
    text: str = "done"


async def run_claude_sdk(
    safety: Safety, tools: Tools, *steps: Sequence[Call], **settings: Any
) -> list[str]:
    types = {f"{SERVER}{name}": name for name in ("run_shell", "read_file", "order_pizza")}
    types |= {f"{SERVER}break_down": "read_file"}
    given = {f"{SERVER}{name}": type_ for name, type_ in settings.pop("types", {}).items()}
    chosen = hooks(safety, types=types | given, **settings)
    named = [[call._replace(tool=f"{SERVER}{call.tool}") for call in step] for step in steps]
    return await results_of(named, {"own": _server(tools)}, hooks=chosen)


async def results_of(
    steps: Sequence[Sequence[Call]], servers: dict[str, Any], **options: Any
) -> list[str]:
    """Run the agent that the SDK brings; return what its model received for each call."""
    talk = Steps(steps)
    with standing_in(talk) as variables:
        chosen = ClaudeAgentOptions(
            mcp_servers=servers,
            permission_mode="bypassPermissions",
            cwd=options.pop("cwd", gettempdir()),
            env={**variables, "PATH": os.environ["PATH"]},
            **options,
        )
        async for _ in query(prompt="go", options=chosen):
            pass
        return [result.removeprefix("text\n") for result in talk.results]


@contextmanager
def standing_in(talk: Steps) -> Iterator[dict[str, str]]:
    """Serve a model; yield the variables with which Claude Code takes it for its own."""
    with (
        model(ANTHROPIC._replace(events=_events)) as server,
        TemporaryDirectory(ignore_cleanup_errors=True) as home,
    ):
        server.talk = talk
        yield {
            "HOME": home,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",  # root may skip permissions only in a sandbox
        }


def _server(tools: Tools) -> Any:
    def made(function: Any) -> Any:
        (name,) = (name for name in function.__annotations__ if name != "return")

        async def call(arguments: dict[str, Any]) -> dict[str, Any]:
            said = await function(arguments[name])
            return {"content": [{"type": "text", "text": said}]}

        return tool(function.__name__, function.__doc__ or "", {name: str})(call)

    return create_sdk_mcp_server("own", tools=[made(one) for one in tools.functions])


def project_with(folder: Path, settings: str) -> Path:
    (folder / ".claude").mkdir(parents=True)
    (folder / ".claude" / "settings.json").write_text(settings)
    return folder
