"""A tool call of any framework becomes a proposal that says what the call does."""

import json
from typing import Any

import pytest

from safetyd.adapters.tool_proposals import Settings, ToolProposals, Unguardable
from safetyd.client.draft import draft
from safetyd.core.messages.binding import binding, is_all
from safetyd.core.messages.proposal import MAX_TEXT_BYTES, Proposal
from safetyd.hosts.tool_call import LONG_COMMAND


def proposed(tool: str, given: dict[str, Any], settings: Settings | None = None) -> Proposal:
    type_, fields = ToolProposals(settings or {}).of_call(tool, given)
    said = draft("code", type_, fields)
    assert said.flaw == ""
    return Proposal(**{**fields, "type": type_, "paths": tuple(fields.get("paths") or ())})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tool", "given", "field", "value"),
    [
        ("run_shell", {"command": "git status"}, "text", "git status"),
        ("bash", {"cmd": ["git", "log", "a b"]}, "text", "git log 'a b'"),
        ("shell", {"line": "git status"}, "text", "git status"),
        ("read_file", {"path": "a.txt"}, "paths", ("a.txt",)),
        ("cat", {"file_path": "a.txt", "limit": 3}, "paths", ("a.txt",)),
        ("rm", {"paths": ["a.txt", "b.txt"]}, "paths", ("a.txt", "b.txt")),
        ("fetch", {"url": "https://example.com"}, "target", {"url": "https://example.com"}),
        ("search_web", {"query": "weather"}, "text", "weather"),
        ("read_file", {"where": "a.txt"}, "text", 'read_file {"where": "a.txt"}'),
        ("run_shell", {"host": "a", "job": "b"}, "text", 'run_shell {"host": "a", "job": "b"}'),
        ("send_gift", {"to": "Ada"}, "text", 'send_gift {"to": "Ada"}'),
    ],
)
def test_the_action_is_found_in_the_arguments(
    tool: str, given: dict[str, Any], field: str, value: object
) -> None:
    proposal = proposed(tool, given)

    assert proposal.type == tool
    assert getattr(proposal, field) == value


def test_a_command_alone_is_a_command_that_rules_and_grants_know() -> None:
    assert is_all(proposed("run_shell", {"command": "git status"}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("run_shell", {"command": "ls"}), ("run_shell", {"command": "ls", "host": "prod"})),
        (("sh_here", {"command": "ls"}), ("sh_there", {"command": "ls"})),
        (("give", {"to": "Ada"}), ("give", {"to": "Bob"})),
        (("give", {"to": "x" * 9_999 + "a"}), ("give", {"to": "x" * 9_999 + "b"})),
        (
            ("run_shell", {"command": "ls", "env": "x" * 9_999 + "a"}),
            ("run_shell", {"command": "ls", "env": "x" * 9_999 + "b"}),
        ),
    ],
)
def test_an_approval_is_bound_to_the_tool_and_to_every_argument(
    one: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]
) -> None:
    types = {"sh_here": "run_shell", "sh_there": "run_shell"}
    first, second = (proposed(*call, {"types": types}) for call in (one, other))

    assert binding("code", first.type, first) != binding("code", second.type, second)


def test_a_command_that_is_too_long_to_be_analysed_has_another_type() -> None:
    proposal = proposed("run_shell", {"command": "echo " + "x" * MAX_TEXT_BYTES})

    assert proposal.type == LONG_COMMAND


def test_options_name_the_type_and_compute_text_and_paths() -> None:
    settings: Settings = {
        "types": {"search_docs": "web_search"},
        "text": {"search_docs": lambda given: given["words"]},
        "paths": lambda given: given.get("file"),
        "session": "s1",
        "wait": True,
    }

    proposal = proposed("search_docs", {"words": "weather", "file": "a.md"}, settings)

    assert (proposal.type, proposal.text, proposal.paths) == ("web_search", "weather", ("a.md",))
    assert (proposal.session, proposal.wait) == ("s1", True)


def test_arguments_that_no_field_shows_are_shown_to_the_operator() -> None:
    proposal = proposed("run_shell", {"command": "ls", "host": "prod"})

    assert json.loads(json.dumps(proposal.context)) == {"arguments": {"host": "prod"}}


def test_an_option_that_does_not_exist_is_refused() -> None:
    unknown: Any = {"type": {"a": "b"}}

    with pytest.raises(TypeError, match="'type'"):
        ToolProposals(unknown)


def test_tools_that_cannot_be_guarded_are_named_unless_the_options_list_them() -> None:
    proposals = ToolProposals({"unguarded": ["web_search"]})
    proposals.check(["web_search"])

    with pytest.raises(Unguardable) as refused:
        proposals.check(["web_search", "shell", "computer"])

    assert refused.value.tools == ("computer", "shell")
