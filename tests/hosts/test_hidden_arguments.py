"""Arguments that a host may use under another name, or ignore, hide nothing from safetyd."""

import json

import pytest

from safetyd.hosts.hook_event import HookEvent
from safetyd.hosts.tool_call import (
    LONG_COMMAND,
    UNKNOWN_FILE,
    UNKNOWN_FOLDER,
    UNKNOWN_PATCH,
    Fields,
    proposal_fields,
)

KEY = "/home/me/.ssh/id_ed25519"


def fields(tool: str, **given: object) -> Fields:
    event = HookEvent(session_id="s1", cwd="/home/me/app", tool_name=tool, tool_input=given)
    return proposal_fields("opencode", event, 1000)


def context(found: Fields) -> str:
    return json.dumps(found["context"])


@pytest.mark.parametrize("name", ["command", "input", "patch", "patchText"])
def test_a_patch_is_read_whatever_its_argument_is_called(name: str) -> None:
    patch = f"*** Begin Patch\n*** Delete File: {KEY}\n*** End Patch"

    found = fields("apply_patch", **{name: patch})

    assert (found["type"], found["paths"]) == ("delete_file", [KEY])


def test_a_patch_in_an_unknown_argument_has_an_unknown_type() -> None:
    assert fields("apply_patch", text="*** Delete File: x")["type"] == UNKNOWN_PATCH


@pytest.mark.parametrize("name", ["workdir", "dir_path", "directory"])
def test_a_command_works_in_the_folder_that_it_names(name: str) -> None:
    assert fields("bash", command="cat *", **{name: "/home/me/.ssh"})["cwd"] == "/home/me/.ssh"
    assert fields("bash", command="ls", **{name: "src"})["cwd"] == "/home/me/app/src"


@pytest.mark.parametrize(
    "folders",
    [
        {"workdir": "/home/me/.ssh", "dir_path": "src"},
        {"workdir": "~/.ssh"},
        {"workdir": "a/../" * 200 + "../../.ssh"},
    ],
)
def test_a_command_in_a_folder_that_is_not_clear_has_an_unknown_type(
    folders: dict[str, object],
) -> None:
    found = fields("bash", command="cat *", **folders)

    assert found["type"] == UNKNOWN_FOLDER
    assert ".ssh" in str(found["text"])


def test_no_path_is_left_out_of_many() -> None:
    found = fields("read_many_files", paths=[*(f"src/{n}" for n in range(1000)), KEY])["paths"]

    assert isinstance(found, list)
    assert KEY in found


def test_many_edits_are_not_compared_line_by_line() -> None:
    old, new = ("\n".join(str(n % 15 * k) for n in range(300)) for k in (1, 7))
    edits = [{"old_string": old, "new_string": new}] * 200

    assert "@@ -1,300 +1,300 @@" in context(fields("MultiEdit", file_path="a", edits=edits))


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Read", {"file_path": KEY, "paths": []}),
        ("Read", {"file_path": "README.md", "filePath": KEY}),
        ("read_many_files", {"include": [KEY], "paths": ["README.md"]}),
        ("create", {"path": KEY, "file_path": "README.md", "file_text": "x"}),
        ("write", {"filePath": KEY, "path": "README.md", "content": "x"}),
        ("NotebookEdit", {"file_path": "README.md", "notebook_path": KEY, "new_source": "x"}),
        ("Grep", {"pattern": ".", "path": KEY, "paths": ["src"]}),
    ],
)
def test_every_path_is_judged(tool: str, given: dict[str, object]) -> None:
    found = fields(tool, **given)["paths"]

    assert isinstance(found, list)
    assert KEY in found


def test_the_folder_of_a_pattern_is_judged() -> None:
    assert fields("Glob", pattern="/home/me/.ssh/*")["paths"] == ["/home/me/.ssh/"]
    assert "paths" not in fields("Glob", pattern="src/**/*.py")
    assert "paths" not in fields("Grep", pattern="/api/v1/")


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"glob": ".env"}, [".env"]),
        ({"include_pattern": ".env", "dir_path": "config"}, ["config", "config/.env"]),
        ({"glob": "*.{py,env*}", "path": "src"}, ["src", "src/*.py", "src/*.env*"]),
        ({"include": "*.ts,.npmrc"}, ["*.ts", ".npmrc"]),
        ({"globs": ["!*.lock", "*.py"]}, ["*.py"]),
        ({"glob": "/home/me/.ssh/*", "path": "src"}, ["src", "/home/me/.ssh/*"]),
        ({"root": "/home/me/.aws"}, ["/home/me/.aws"]),
    ],
)
def test_a_search_names_the_files_whose_content_it_prints(
    given: dict[str, object], paths: list[str]
) -> None:
    for tool in ("Grep", "grep", "grep_search", "search_file_content"):
        assert fields(tool, pattern="KEY", **given)["paths"] == paths


@pytest.mark.parametrize("tool", ["Read", "view", "Write", "Edit", "NotebookEdit", "read_file"])
@pytest.mark.parametrize("given", [{"uri": "notes.txt"}, {"uri": f"file://{KEY}"}, {}])
def test_a_file_tool_without_a_path_that_is_understood_has_an_unknown_type(
    tool: str, given: dict[str, object]
) -> None:
    assert fields(tool, **given)["type"] == UNKNOWN_FILE


def test_what_looks_like_a_path_is_judged_under_any_name() -> None:
    assert fields("Read", file_path="a.txt", uri=f"file://{KEY}", limit=5)["paths"] == [
        "a.txt",
        KEY,
    ]


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"path": ".env"}, [".env"]),
        ({"options": {"files": ["src/a.py", KEY]}}, ["src/a.py", KEY]),
        ({"resource": f"file://{KEY}"}, [KEY]),
        ({"sourceFile": "x%20y", "uri": "file:///a%20b"}, ["x%20y", "/a b"]),
        ({"q": "../secrets"}, ["../secrets"]),
        ({"url": "https://example.com/etc/x", "path": "/", "repo": "a/b", "n": 5}, []),
        ({"text": "a note\n/etc/shadow"}, []),
    ],
)
def test_the_paths_in_arguments_of_mcp_tools_are_judged(
    given: dict[str, object], paths: list[str]
) -> None:
    assert fields("mcp__files__read_any", **given).get("paths", []) == paths


@pytest.mark.parametrize(
    ("tool", "reads"),
    [
        ("get_file", True),
        ("listPullRequests", True),
        ("get_merge_request", True),
        ("search_and_count", True),
        ("get_deleted_items", True),
        ("get_and_delete_all", False),
        ("getAndDeleteAll", False),
        ("find_or_create_user", False),
        ("read_write", False),
        ("fetch_then_post", False),
        ("getaway", False),
        ("update_list", False),
    ],
)
def test_a_tool_reads_only_if_its_name_says_nothing_else(tool: str, reads: bool) -> None:  # noqa: FBT001
    assert fields(f"mcp__x__{tool}")["type"] == ("mcp_read" if reads else "mcp_call")


def test_every_command_is_judged() -> None:
    assert fields("exec_command", command="ls", cmd="rm -rf /")["text"] == "ls\nrm -rf /"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("edit", {"filePath": "a", "edits": [], "oldString": "x", "newString": "curl evil"}),
        ("create", {"path": "a", "content": "harmless", "file_text": "curl evil"}),
        ("Bash", {"command": "git push", "sandbox": "curl evil"}),
    ],
)
def test_an_approval_is_bound_to_everything(tool: str, given: dict[str, object]) -> None:
    assert "curl evil" in context(fields(tool, **given))


def test_remarks_and_limits_do_not_change_a_call() -> None:
    once = fields("Bash", command="git push", description="Push it", timeout=1000)
    again = fields("Bash", command="git push", description="Push again")

    assert once["context"] == again["context"]


def test_an_approval_is_bound_to_long_arguments_by_their_hash() -> None:
    first, second = (context(fields("Bash", command="ls", more=text * 2000)) for text in "ab")

    assert first != second


def test_a_long_edit_is_not_compared_line_by_line() -> None:
    old, new = ("\n".join(str(n % 150 * k) for n in range(60_000)) for k in (1, 7))

    found = fields("Edit", file_path="a", old_string=old, new_string=new)

    assert "@@ -1,60000 +1,60000 @@" in context(found)
    assert "diff_sha256" in context(found)


def test_a_long_command_needs_approval() -> None:
    assert fields("Bash", command="echo " + "x" * 100_000)["type"] == LONG_COMMAND
