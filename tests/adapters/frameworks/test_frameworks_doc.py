"""The programs and recipes in docs/frameworks.md do what it says.

Each program runs as it is, with a stand-in in place of its model.
"""

import ast
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from safetyd.adapters.langchain import SafetydMiddleware
from safetyd.client import Safety, SyncSafety
from tests.adapters.frameworks import langchain_agent, openai_agent, pydantic_ai_agent
from tests.adapters.frameworks.agent_tools import Call, Tools
from tests.adapters.frameworks.claude_agent import Steps, standing_in
from tests.adapters.frameworks.last_decision import last_outcomes
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon
from tests.documents.document_blocks import noted_block
from tests.locks import FRAMEWORKS

DOCUMENT: Final = ROOT / "docs/frameworks.md"
MODEL: Final = "gpt-5.2"
MAX_LINES: Final = 15
READ: Final = Call("read_file", {"path": "notes.txt"})
KEY: Final = Call("read_file", {"path": "~/.ssh/id_rsa"})
PUSH: Final = Call("run_shell", {"command": "git push origin main"})

MODELS: Final[Mapping[str, Callable[..., Any]]] = {
    "pydantic-ai": pydantic_ai_agent.model_of,
    "langchain": lambda *steps: langchain_agent.ScriptedModel(steps=steps),
    "openai-agents": openai_agent.ScriptedModel,
}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon('profile = "coding"\n')


@pytest.fixture(autouse=True)
def place(daemon: RunningDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFETYD_DATA_DIR", str(daemon.data_dir))
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("buy milk")


class _Model(ast.NodeTransformer):
    """Puts a stand-in where a program names its model."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and node.value.endswith(MODEL):
            return ast.copy_location(ast.Name("stand_in", ast.Load()), node)
        return node


def run_program(framework: str, *steps: list[Call]) -> None:
    program = _Model().visit(ast.parse(noted_block(DOCUMENT, f"program {framework}")))
    names = {"__name__": "__main__", "stand_in": MODELS[framework](*steps)}
    exec(compile(program, framework, "exec"), names)


@pytest.mark.parametrize("framework", MODELS)
def test_the_program_runs_and_its_tool_is_guarded(
    framework: str, daemon: RunningDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(framework, [READ], [KEY])

    assert capsys.readouterr().out == "done\n"
    agent = f"{framework.removesuffix('-ai').removesuffix('-agents')}-demo"
    assert "notes.txt" in daemon.safetyd("decisions", "--agent", agent, "--verdict", "allow").stdout
    assert "id_rsa" in daemon.safetyd("decisions", "--agent", agent, "--verdict", "asked").stdout


def test_the_program_for_the_claude_agent_sdk_runs_and_is_guarded(
    daemon: RunningDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Call("Read", {"file_path": str(Path("notes.txt").absolute())})
    with standing_in(Steps([[read]])) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        exec(noted_block(DOCUMENT, "program claude-agent-sdk"), {"__name__": "__main__"})

    assert capsys.readouterr().out == "done\n"
    (outcome,) = last_outcomes(daemon, "claude-demo")
    assert outcome["ok"] is True


@pytest.mark.parametrize("framework", [*MODELS, "claude-agent-sdk"])
def test_a_program_is_short(framework: str) -> None:
    program = noted_block(DOCUMENT, f"program {framework}")
    statements = [line for line in program.splitlines() if line.strip()]

    assert len(statements) <= MAX_LINES


def test_a_node_of_a_graph_is_guarded(tmp_path: Path) -> None:
    def read_file(path: str) -> str:
        """Read a text file."""
        return Path(path).read_text()

    with SyncSafety("graph-doc") as safety:
        names: dict[str, Any] = {
            "SafetydMiddleware": SafetydMiddleware,
            "safety": safety,
            "read_file": tool(read_file),
        }
        exec(noted_block(DOCUMENT, "graph"), names)
        graph = StateGraph(MessagesState).add_node("tools", names["node"])
        graph.add_edge(START, "tools").add_edge("tools", END)
        calls = [
            {"name": call.tool, "args": call.arguments, "id": call.arguments["path"]}
            for call in (READ, KEY)
        ]
        asked: Any = {"messages": [AIMessage("", tool_calls=calls)]}
        read, refused = langchain_agent.results_in(graph.compile().invoke(asked)["messages"])

    assert read == "buy milk"
    assert refused.startswith("safetyd: ")


@pytest.mark.anyio
async def test_an_interrupted_graph_goes_on_once_the_call_is_approved(
    daemon: RunningDaemon,
) -> None:
    names: dict[str, Any] = {}
    exec(noted_block(DOCUMENT, "interrupt"), names)
    tools = Tools()
    config: Any = {"configurable": {"thread_id": "1"}}
    checkpoints = InMemorySaver()

    async def go_on(command: Any) -> Any:
        """Run the agent as a program that has just started would."""
        async with Safety("interrupt-doc") as safety:
            agent: Any = create_agent(
                langchain_agent.ScriptedModel(steps=([READ, PUSH],)),
                tools=[tool(tools.read_file), tool(tools.run_shell)],
                middleware=[names["WaitForApproval"](), SafetydMiddleware(safety)],
                checkpointer=checkpoints,
            )
            return await agent.ainvoke(command, config)

    first = await go_on({"messages": "go"})
    (request,) = {one.value["request_id"] for one in first["__interrupt__"]}
    assert tools.ran == ["notes.txt"]

    second = await go_on(Command(resume=True))
    assert [one.value["request_id"] for one in second["__interrupt__"]] == [request]

    assert daemon.safetyd("approve", request).returncode == 0
    ended = await go_on(Command(resume=True))
    assert tools.ran == ["notes.txt", "git push origin main"]
    assert langchain_agent.results_in(ended["messages"]) == [
        "content of notes.txt",
        "ran git push origin main",
    ]


@pytest.mark.anyio
async def test_a_program_sees_that_its_request_is_approved(
    daemon: RunningDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = textwrap.indent(noted_block(DOCUMENT, "resume"), "    ")
    names: dict[str, Any] = {}
    exec(f"async def look(safety):\n{recipe}", names)
    async with Safety("resume-doc") as safety:
        pushed = await safety.propose("push", text="git push origin main")
        await names["look"](safety)
        assert capsys.readouterr().out == ""

        assert daemon.safetyd("approve", str(pushed.request_id)).returncode == 0
        await names["look"](safety)
    assert capsys.readouterr().out == "approved: push\n"


def test_the_table_lists_all_adapters_with_their_extras() -> None:
    rows = re.findall(r"^\| \[.*$", DOCUMENT.read_text(), re.MULTILINE)
    installed = [extra for row in rows for extra in re.findall(r"'safetyd\[(.*)\]'", row)]

    assert tuple(installed) == FRAMEWORKS
