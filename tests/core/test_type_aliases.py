"""Common names of tools are aliases of shipped types, and never of laxer ones."""

import pytest

from safetyd.core.action_types import _TOGETHER, Kinds, TypeConfig
from safetyd.core.messages.proposal import Proposal
from safetyd.core.similar_types import _ACTS
from safetyd.core.type_aliases import _NAMES, ALIASES

SHIPPED = Kinds({}, "strict")


def type_of(name: str, **types: TypeConfig) -> str:
    return Kinds(types, "strict").of(Proposal(type=name)).type


@pytest.mark.parametrize(
    ("tools", "type_"),
    [
        ("Bash bash shell exec local_shell run_shell_command run_terminal_cmd", "run_shell"),
        ("Read NotebookRead view read_many_files view_image cat ReadFile", "read_file"),
        ("LS Glob list list_directory list_dir", "list_files"),
        ("Grep grep_search codebase_search search_files", "search"),
        ("Write write_file create WriteFile", "create_file"),
        ("Edit MultiEdit NotebookEdit apply_patch replace str_replace", "edit_file"),
        ("WebFetch webfetch web-fetch fetch http_get browse", "web_fetch"),
        ("WebSearch websearch google_web_search GoogleWebSearch", "web_search"),
        ("TodoWrite todowrite write_todos", "write_state"),
        ("git_push GitPush", "push"),
        ("pip_install npm_install install", "install_package"),
        ("delete remove rm", "delete_file"),
        ("send_mail email", "send_email"),
        ("browser_click left_click", "click"),
        ("browser_type type_text", "type"),
        ("browser_navigate goto open_url", "navigate"),
        ("browser_take_screenshot", "screenshot"),
    ],
)
def test_common_tools_are_known_by_their_names(tools: str, type_: str) -> None:
    assert {type_of(tool) for tool in tools.split()} == {type_}


@pytest.mark.parametrize(
    "name",
    [
        *("python", "execute_code", "code_interpreter", "powershell", "pwsh", "cmd", "run", "call"),
        *("execute", "computer", "browser_action", "browser_evaluate", "send_keys", "write_stdin"),
        *(
            "http_request",
            "http_post",
            "request",
            "api_call",
            "curl",
            "get",
            "post",
            "put",
            "patch",
        ),
        *("query", "sql", "database", "insert", "update", "find", "sed", "git", "docker"),
        *("move", "rename", "copy", "mv", "move_file", "git_checkout", "git_reset", "git_branch"),
        *("run_unit_tests", "pytest", "create_or_update_file", "update_plan", "download", "agent"),
    ],
)
def test_an_ambiguous_name_stays_unknown(name: str) -> None:
    assert not SHIPPED.named(name).known


def test_every_alias_is_listed_once_and_leads_to_a_shipped_type() -> None:
    listed = [name for names in _NAMES.values() for name in names.split()]

    assert len(listed) == len(ALIASES)
    assert _NAMES.keys() <= SHIPPED.known.keys()


def test_no_alias_hides_a_type_and_none_means_something_else_as_one_word() -> None:
    assert SHIPPED.known.keys().isdisjoint((*ALIASES, *_TOGETHER))
    for name in (*ALIASES, *SHIPPED.known):
        assert SHIPPED.named(name.replace("_", "")) == SHIPPED.named(name)


def test_a_name_with_an_acting_word_is_no_alias_of_a_type_that_only_reads() -> None:
    reading = [name.split("_") for name in ALIASES if SHIPPED.named(name).read_only]

    acting = [words for words in reading if not _ACTS.isdisjoint(words)]

    assert acting == [["curl", "get"], ["http", "get"]]


def test_a_name_with_a_dangerous_word_is_no_alias_of_an_allowed_type() -> None:
    plain = {"delete", "remove", "push", "send", "post", "install", "exec", "execute", "run"}

    passing = [name for name in ALIASES if SHIPPED.named(name).tier == "auto_allowed"]

    assert [name for name in passing if not plain.isdisjoint(name.split("_"))] == []


def test_an_operators_alias_replaces_a_shipped_one() -> None:
    bash = TypeConfig(same_as="deploy")

    assert type_of("Bash", bash=bash) == "deploy"
    assert type_of("shell", bash=bash) == "run_shell"


def test_an_operators_type_is_no_longer_an_alias() -> None:
    kinds = Kinds({"Write-File": TypeConfig(tier="prohibited")}, "strict")

    assert kinds.named("write_file").tier == "prohibited"
    assert kinds.named("WriteFile") == kinds.named("write_file")
    assert kinds.named("write").type == "create_file"


def test_an_alias_follows_its_type_where_the_operator_sends_it() -> None:
    assert type_of("WriteFile", create_file=TypeConfig(same_as="modify_code")) == "modify_code"


def test_the_operator_may_name_a_type_by_a_shipped_alias() -> None:
    assert type_of("console", console=TypeConfig(same_as="Bash")) == "run_shell"


def test_a_type_that_is_an_alias_of_its_own_alias_is_refused() -> None:
    circle = "types.create_file: same_as Write is circular: create_file, write, create_file"

    with pytest.raises(ValueError, match=circle):
        Kinds({"create_file": TypeConfig(same_as="Write")}, "strict")


def test_aliases_are_listed_by_type_without_joined_spellings() -> None:
    own = {"WebFetch": TypeConfig(same_as="push"), "bash": TypeConfig(), "MyGit": TypeConfig()}

    aliases = Kinds(own, "strict").aliases()

    assert "webfetch" in aliases["push"]
    assert "bash" not in aliases["run_shell"]
    assert "http_get" in aliases["web_fetch"]
    assert "httpget" not in aliases["web_fetch"]
