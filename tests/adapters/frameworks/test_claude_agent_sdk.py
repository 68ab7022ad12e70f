"""With the Claude Agent SDK and the Claude Code that it brings: nothing runs without a decision."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import HookMatcher

from safetyd.adapters.claude_agent_sdk import hooks
from safetyd.client import Safety
from tests.adapters.frameworks.agent_tools import Call, Tools
from tests.adapters.frameworks.claude_agent import project_with, results_of, run_claude_sdk
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import review, waiting

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon('profile = "coding"\n')


@pytest.fixture
async def safety(daemon: RunningDaemon) -> AsyncIterator[Safety]:
    async with Safety("claude", data_dir=daemon.data_dir) as safety:
        yield safety


def touch(path: Path) -> Call:
    return Call("Bash", {"command": f"touch {path}", "description": "Create a file"})


def destroy(mark: Path) -> Call:
    # Should it run, it ends there and not in anybody's home.
    return Call("Bash", {"command": f'touch {mark}; test "$HOME" = x && rm -rf ~'})


async def test_the_tools_of_claude_code_are_guarded(safety: Safety, tmp_path: Path) -> None:
    harmless, other = tmp_path / "harmless", tmp_path / "other"

    _, refusal = await results_of(
        [[touch(harmless)], [destroy(other)]], {}, hooks=hooks(safety), cwd=tmp_path
    )

    assert harmless.exists()
    assert not other.exists()
    assert "home folder" in refusal


async def test_a_hook_that_fails_runs_nothing(safety: Safety) -> None:
    def fail(_arguments: Mapping[str, Any]) -> str:
        raise OSError("the author's function fails")

    tools = Tools()

    await run_claude_sdk(safety, tools, [Call("run_shell", {"command": "ls"})], text=fail)

    assert tools.ran == []


async def test_without_blocking_on_failure_the_tool_would_run(tmp_path: Path) -> None:
    async def fail(*_: Any) -> Any:
        raise OSError("the hook fails")

    created = tmp_path / "created"
    careless: dict[Any, Any] = {"PreToolUse": [HookMatcher(hooks=[fail])]}
    await results_of([[touch(created)]], {}, hooks=careless, cwd=tmp_path)

    assert created.exists()


async def test_a_call_waits_for_the_operator(safety: Safety, daemon: RunningDaemon) -> None:
    tools = Tools()
    push = Call("run_shell", {"command": "git push origin waiting"})

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(run_claude_sdk(safety, tools, [push], wait=True))
        await asyncio.to_thread(until, lambda: waiting(daemon) or running.done())
        assert tools.ran == []
        (request,) = waiting(daemon)
        assert review(daemon, "approve", request["id"], digest=request["digest"])["ok"]

    assert tools.ran == ["git push origin waiting"]
    assert running.result() == ["ran git push origin waiting"]


async def test_a_project_cannot_switch_the_guard_off(safety: Safety, tmp_path: Path) -> None:
    project = project_with(tmp_path / "project", '{"disableAllHooks": true}')
    mark = project / "ran"
    options = {"cwd": project, "setting_sources": ["project"]}

    (refusal,) = await results_of([[destroy(mark)]], {}, hooks=hooks(safety), **options)

    assert not mark.exists()
    assert "home folder" in refusal
