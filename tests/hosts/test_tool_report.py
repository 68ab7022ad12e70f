"""Which results of tools count as failures of the agent."""

import msgspec
import pytest

from safetyd.hosts.hook_event import HookEvent
from safetyd.hosts.tool_report import telemetry_fields
from tests.conftest import StartDaemon
from tests.hosts.hook_process import PROJECT, hook


def report(tool: str, more: dict[str, object], *, count: bool) -> dict[str, object]:
    event = msgspec.convert({"tool_name": tool, "tool_use_id": "t1", **more}, HookEvent)
    fields = telemetry_fields("after", event, count_errors=count)
    assert fields is not None
    return fields


GEMINI = {"llmContent": "no", "error": {"message": "File not found", "type": "file_not_found"}}


@pytest.mark.parametrize(
    ("tool", "more", "counts"),
    [
        ("Read", {"error": "File does not exist"}, ["count"]),
        ("WebFetch", {"error": "Unable to fetch"}, ["count"]),
        ("replace", {"tool_response": GEMINI}, ["count"]),
        ("Read", {}, []),
        ("Read", {"error": "stopped by the user", "is_interrupt": True}, []),
        ("Bash", {"error": "Exit code 1"}, []),
        ("Bash", {"error": "no such shell"}, []),
        ("Agent", {"error": "ended early"}, []),
        ("mcp__db__query", {"error": "refused"}, []),
    ],
)
def test_only_errors_of_file_and_web_tools_count_and_only_if_configured(
    tool: str, more: dict[str, object], counts: list[str]
) -> None:
    settings = {"count": True, "results": False}
    failed = [name for name, count in settings.items() if not report(tool, more, count=count)["ok"]]

    assert failed == counts


@pytest.mark.journey
def test_counted_errors_lead_to_safe_mode_and_exit_codes_do_not(start_daemon: StartDaemon) -> None:
    daemon = start_daemon('[hosts]\ntool_errors = "count"\n')

    def fail(tool: str, number: int, error: str) -> bool:
        """Return whether a call was allowed, and report that it failed."""
        arguments = {"command": "pytest -q", "file_path": str(PROJECT / f"{number}.py")}
        call = {"tool_name": tool, "tool_input": arguments, "tool_use_id": f"{tool}{number}"}
        call |= {"session_id": "s1", "cwd": str(PROJECT)}
        passes = hook(daemon.endpoint.hook, call).passes
        hook(daemon.endpoint.hook, {**call, "error": error}, "--event", "after")
        return passes

    commands = [fail("Bash", number, "Exit code 1") for number in range(5)]
    edits = [fail("Edit", number, "String not found") for number in range(5)]

    assert all(commands)
    assert not all(edits)
