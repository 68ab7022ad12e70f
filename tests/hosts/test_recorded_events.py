"""Events of real hosts become the proposals and reports that they should.

The files in `recorded/` are what each version sent, with other paths. A new version is recorded
with `make hosts`.
"""

import codecs
import json
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path
from typing import Any, Final, cast, get_args

import pytest

from safetyd.bus.codec import read_proposal, read_telemetry
from safetyd.core.messages.proposal import Proposal
from safetyd.hosts.hook_event import Dialect, HookKind, read_event
from safetyd.hosts.tool_call import proposal_fields
from safetyd.hosts.tool_report import telemetry_fields

RECORDED: Final = sorted((Path(__file__).parent / "recorded").glob("*.jsonl"))
PROJECT: Final = "/home/me/project"

# The type of each tool's proposals, and its paths below the project.
EXPECTED: Final = {
    ("claude", "Bash"): ("run_shell", ()),
    ("claude", "Write"): ("create_file", ("a.txt",)),
    ("claude", "Read"): ("read_file", ("a.txt",)),
    ("claude", "Edit"): ("edit_file", ("a.txt",)),
    ("claude", "WebFetch"): ("web_fetch", ()),
    ("claude", "Agent"): ("delegate", ()),
    ("codex", "Bash"): ("run_shell", ()),
    ("codex", "view_image"): ("read_file", ("a.png",)),
    ("copilot", "bash"): ("run_shell", ()),
    ("copilot", "create"): ("create_file", ("a.txt",)),
    ("copilot", "view"): ("read_file", ("a.txt",)),
    ("copilot", "edit"): ("edit_file", ("a.txt",)),
    ("copilot", "glob"): ("search", (".",)),
    ("copilot", "grep"): ("search", (".",)),
    ("copilot", "list_bash"): ("plan", ()),
    ("copilot", "task"): ("delegate", ()),
    ("gemini", "run_shell_command"): ("run_shell", ()),
    ("gemini", "write_file"): ("create_file", ("c.txt",)),
    ("gemini", "read_file"): ("read_file", ("c.txt",)),
    ("gemini", "replace"): ("edit_file", ("c.txt",)),
    ("gemini", "glob"): ("search", ()),
    ("gemini", "google_web_search"): ("web_search", ()),
    ("opencode", "bash"): ("run_shell", ()),
    ("opencode", "write"): ("create_file", ("a.txt",)),
    ("opencode", "read"): ("read_file", ("a.txt",)),
    ("opencode", "edit"): ("edit_file", ("a.txt",)),
    ("opencode", "glob"): ("search", (".",)),
    ("opencode", "grep"): ("search", (".",)),
    ("opencode", "todowrite"): ("plan", ()),
    ("opencode", "invalid"): ("plan", ()),
    ("opencode", "task"): ("delegate", ()),
}


def recorded() -> Iterator[Any]:
    for path in RECORDED:
        for line in path.read_text().splitlines():
            said = json.loads(line)
            dialect = path.name.partition("-")[0]
            event = said["event"]
            tool = event.get("tool_name", event.get("toolName", ""))
            name = f"{path.stem}-{said['kind']}-{tool}"
            yield pytest.param(dialect, said["kind"], event, id=name)


def proposed(dialect: Dialect, event: dict[str, object]) -> Proposal:
    fields = proposal_fields(dialect, read_event(dialect, "before", _bytes(event)), 1000)
    given = {name: value for name, value in fields.items() if value is not None}
    return read_proposal("claude-code", _bytes(given), "spare")[0]


def _bytes(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(("dialect", "kind", "event"), [*recorded()])
def test_every_recorded_event_is_understood(
    dialect: Dialect, kind: HookKind, event: dict[str, object]
) -> None:
    assert dialect in get_args(Dialect)
    read = read_event(dialect, kind, _bytes(event))
    if kind != "before":
        fields = telemetry_fields(kind, read)
        if fields is not None:
            read_telemetry(_bytes(fields))
        return
    proposal = proposed(dialect, event)
    type_, paths = EXPECTED[dialect, read.tool_name]
    assert proposal.type == type_
    assert proposal.paths == tuple(normpath(f"{PROJECT}/{path}") for path in paths)
    assert (proposal.session, proposal.cwd) == (read.session_id, PROJECT)
    assert read.session_id
    if type_ == "run_shell":
        assert proposal.text == read.tool_input["command"]


@pytest.mark.parametrize(
    ("file", "key"),
    [("claude-2.1.326", "agent_id"), ("copilot-", "agentId"), ("opencode-", "agent_id")],
)
def test_calls_of_subagents_name_the_subagent(file: str, key: str) -> None:
    (path,) = (path for path in RECORDED if path.name.startswith(file))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    calls = [one["event"] for one in events if one["kind"] == "before" and one["event"].get(key)]
    assert calls
    dialect = cast("Dialect", path.name.partition("-")[0])
    assert [proposed(dialect, call).task for call in calls] == [call[key] for call in calls]


def test_a_call_and_its_report_have_the_same_id() -> None:
    events = [json.loads(line) for line in RECORDED[0].read_text().splitlines()]
    before, after = (
        next(one["event"] for one in events if (one["kind"], one["event"].get("tool_name")) == of)
        for of in (("before", "Bash"), ("after", "Bash"))
    )

    reported = telemetry_fields("after", read_event("claude", "after", _bytes(after)))

    assert reported is not None
    assert reported["id"] == proposed("claude", before).id
    assert (reported["ok"], reported["details"]) == (True, {"exit_code": 3})


def test_cursor_runs_the_hooks_of_claude_code_with_its_own_payload() -> None:
    """As Cursor's documents describe it; Cursor was not run."""
    event = {
        "conversation_id": "c1",
        "hook_event_name": "preToolUse",
        "workspace_roots": [PROJECT],
        "cwd": "",
        "session_id": "s1",
        "tool_name": "Shell",
        "tool_use_id": "t1",
        "tool_input": {"command": "make", "working_directory": "src"},
    }
    body = codecs.BOM_UTF8 + json.dumps(event).encode()

    found = proposal_fields("claude", read_event("claude", "before", body), 1000)

    assert (found["type"], found["text"]) == ("run_shell", "make")
    assert found["cwd"] == f"{PROJECT}/src"
