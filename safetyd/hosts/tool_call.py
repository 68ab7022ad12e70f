"""Turns a host's tool call into a proposal.

Tools are found by name in one table for all hosts. A tool that is missing there gets an unknown
type, which needs approval.
"""

import difflib
import hashlib
import json
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from safetyd.core.messages.proposal import MAX_TEXT_BYTES
from safetyd.hosts.hook_event import Dialect, HookEvent
from safetyd.hosts.named_paths import (
    PATHS,
    Arguments,
    argument_paths,
    further_paths,
    named_paths,
    searched_files,
)

MAX_DIFF_BYTES: Final = 24 * 1024
MAX_WORD: Final = 128
MAX_LINE: Final = 1024
MAX_COMPARED: Final = 100_000  # pairs of lines
# Unknown types, so they need approval.
LONG_COMMAND: Final = "run_long_command"
UNKNOWN_PATCH: Final = "tool_unknown_patch"
UNKNOWN_FOLDER: Final = "run_in_unknown_folder"
UNKNOWN_FILE: Final = "tool_unknown_file"

Fields = dict[str, object]


class Tool(NamedTuple):
    """The type of a tool's calls, and the function that finds their other fields."""

    type: str
    fields: Callable[[Arguments], Fields]


def proposal_fields(
    dialect: Dialect, event: HookEvent, uid: int | None, project_root: str = ""
) -> Fields:
    """Return the fields of the proposal for a tool call.

    A call may have arguments that its host ignores, and hosts have several names for one thing.
    So every known name is judged, and an approval is bound to the arguments that no other field
    contains.
    """
    tool = TOOLS.get(event.tool_name) or _other_tool(dialect, event.tool_name)
    fields = {"type": tool.type, **tool.fields(event.tool_input)}
    context = {
        "host": dialect,
        "tool": event.tool_name,
        **({"permission_mode": event.permission_mode} if event.permission_mode else {}),
        **({"uid": uid} if uid is not None else {}),
        **({"project_root": project_root[:MAX_LINE]} if project_root else {}),
        **_further(tool, event.tool_input),
        **_object(fields.pop("context", {})),
    }
    fields |= {
        "id": call_id(event),
        "session": event.session_id[:MAX_WORD],
        "task": event.agent_id[:MAX_WORD],
        "cwd": call_folder(event)[:MAX_LINE],
        "context": context,
        "wait": True,
        "dry_run": event.safetyd_dry_run,
    }
    return {name: value for name, value in fields.items() if value}


def call_folder(event: HookEvent) -> str:
    """Return the folder that a call works in: the one that it names, or that of the session."""
    tool = TOOLS.get(event.tool_name)
    if tool is None or tool.fields is not _command:
        return event.cwd
    folder = _named_folder(event.tool_input)
    return posixpath.join(event.cwd, folder) if folder else event.cwd


def _named_folder(given: Arguments) -> str | None:
    """Return the folder that a command names, or an empty string.

    Return None if nobody knows which folder a host would use.
    """
    named = {str(given[name]) for name in _FOLDERS if given.get(name)}
    folder = "".join(named)
    is_known = len(named) <= 1 and not folder.startswith("~") and len(folder) < MAX_LINE // 2
    return folder if is_known else None


def _further(tool: Tool, given: Arguments) -> Fields:
    """Return the arguments that no other field of the proposal contains.

    They are shown in a request, and an approval is bound to them.
    """
    if tool.fields not in {_command, _created, _edited, _patch}:
        return {}
    known = _CONTAINED if tool.fields is _command else _CONTAINED | _CHANGE
    further = {name: value for name, value in given.items() if name not in known and value}
    if not further:
        return {}
    written = _written(further).encode("utf-8", "replace")
    if len(written) > MAX_LINE:
        return {"arguments_sha256": hashlib.sha256(written).hexdigest()}
    return {"arguments": further}


_FOLDERS: Final = ("workdir", "dir_path", "directory", "cwd", "working_directory")
_CONTENTS: Final = ("content", "file_text")
_PATCHES: Final = ("command", "input", "patch", "patchText")
_OLD_AND_NEW: Final = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("old_source", "new_source"),
)
# Names of arguments that other fields contain, and of remarks and limits, which models vary.
_CONTAINED: Final = frozenset(
    {
        *("command", "cmd", *_FOLDERS),
        *("description", "explanation", "justification", "instruction"),
        *("timeout", "timeout_ms", "yield_time_ms", "max_output_tokens"),
    }
)
_CHANGE: Final = frozenset(
    {
        *(*PATHS, *_CONTENTS, *_PATCHES, "edits", "diff"),
        *(name for pair in _OLD_AND_NEW for name in pair),
    }
)


def call_id(event: HookEvent) -> str | None:
    """Return the id of a call: the same for the call and its report."""
    if not event.tool_use_id:
        return None
    said = f"{event.session_id}\n{event.tool_use_id}".encode()
    return f"call-{hashlib.sha256(said).hexdigest()[:24]}"


def _other_tool(dialect: Dialect, name: str) -> Tool:
    if named := _mcp_name(dialect, name):
        return mcp_tool(*named)
    token = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:60]
    return Tool(f"tool_{token or 'unnamed'}", _said)


def mcp_tool(server: str, tool: str) -> Tool:
    """Return a tool of an MCP server. Its name decides whether it only reads."""
    return Tool(
        "mcp_read" if _only_reads(tool) else "mcp_call", partial(_mcp_fields, f"{server}/{tool}")
    )


def _only_reads(tool: str) -> bool:
    """Return True if the name of a tool begins with a word for reading and says nothing else."""
    words = re.findall(r"[a-z]+", _camel("_", tool).lower())
    if not words or words[0] not in _READS or not _CHANGES.isdisjoint(words):
        return False
    joined = (after for word, after in pairwise(words) if word in {"and", "or", "then"})
    return all(after in _READS for after in joined)


_camel: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])").sub
_READS: Final = frozenset(
    {
        *("get", "list", "read", "search", "find", "fetch", "query", "describe", "show", "view"),
        *("count", "status", "resolve", "lookup", "diff"),
    }
)
# Words that say that a tool changes something, wherever they are in its name.
_CHANGES: Final = frozenset(
    {
        *("delete", "remove", "drop", "purge", "wipe", "destroy", "erase", "truncate", "kill"),
        *("write", "overwrite", "replace", "insert", "upsert", "upload", "send", "execute", "exec"),
        *("eval", "rm", "unlink", "clear", "reset", "revoke"),
    }
)


def _mcp_name(dialect: Dialect, name: str) -> tuple[str, str] | None:
    """Split the name of an MCP call into server and tool. Each host joins them differently."""
    if name.startswith("mcp__"):
        server, _, tool = name[5:].partition("__")
    elif dialect == "gemini" and "__" in name:
        server, _, tool = name.partition("__")
    elif dialect == "copilot" and "-" in name:
        server, _, tool = name.partition("-")
    else:
        return None
    return (server, tool) if server and tool else None


def _mcp_fields(name: str, given: Arguments) -> Fields:
    paths = argument_paths(given)
    return {
        **called(name, given),
        **({"paths": paths} if paths else {}),
        "target": {"name": name[:MAX_LINE]},
    }


def called(name: str, given: Arguments) -> Fields:
    """Return the fields of a call that is known only by its tool's name and its arguments."""
    return {"text": _cut(f"{name} {_written(given)}"), **_whole(given)}


def _said(given: Arguments) -> Fields:
    return {"text": _cut(_written(given)), **_whole(given)}


def _nothing(_given: Arguments) -> Fields:
    return {}


def _command(given: Arguments) -> Fields:
    """Return the command; one that is too long to be analysed whole gets another type."""
    if _named_folder(given) is None:
        return {"type": UNKNOWN_FOLDER, **_said(given)}
    named = dict.fromkeys(_line(given[name]) for name in ("command", "cmd") if name in given)
    command = "\n".join(named)
    fields: Fields = {"text": command, "description": str(given.get("description", ""))[:MAX_LINE]}
    if len(command.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        fields |= {"type": LONG_COMMAND, "text": _cut(command), **_whole(given)}
    return fields


def _line(said: object) -> str:
    return shlex.join(map(str, said)) if isinstance(said, list) else str(said)


def _paths(given: Arguments) -> Fields:
    """Return the paths of a file tool. Without one that is understood, its type is unknown."""
    paths = list(dict.fromkeys((*named_paths(given), *further_paths(given))))
    if not named_paths(given):
        return {"type": UNKNOWN_FILE, **_said(given), **({"paths": paths} if paths else {})}
    return {"paths": paths}


def _listed(given: Arguments) -> Fields:
    """Return the folders whose names are listed, also those that a pattern begins with."""
    folders = [_folder_of(str(given.get(name, ""))) for name in ("pattern", "glob")]
    return _among([*named_paths(given), *filter(None, folders)], given)


def _searched(given: Arguments) -> Fields:
    """Return the folders and files in whose content a call searches."""
    files = searched_files(given)
    include = given.get("include")
    folders = [path for path in named_paths(given) if not files or path != include]
    return _among([*folders, *files], given)


def _among(paths: Sequence[str], given: Arguments) -> Fields:
    every = list(dict.fromkeys((*paths, *further_paths(given))))
    return {
        **({"paths": every} if every else {}),
        "description": _cut(str(given.get("pattern", given.get("query", ""))))[:MAX_LINE],
    }


def _folder_of(pattern: str) -> str:
    """Return the folder that a pattern for file names begins with, if it leaves the current one."""
    if not pattern.startswith(("/", "~", "..")):
        return ""
    return re.split(r"[*?\[{]", pattern, maxsplit=1)[0]


def _url(given: Arguments) -> Fields:
    return {
        "target": {"url": str(given.get("url", ""))[:8192]},
        "description": str(given.get("prompt", ""))[:MAX_LINE],
    }


def _query(given: Arguments) -> Fields:
    return {"text": _cut(str(given.get("query", "")))}


def _delegated(given: Arguments) -> Fields:
    said = given.get("description") or given.get("prompt") or given.get("message") or ""
    return {"description": str(said)[:MAX_LINE]}


def _created(given: Arguments) -> Fields:
    content = "\n".join(str(given[name]) for name in _CONTENTS if name in given)
    return {**_paths(given), "context": _change("", content, _name_of(given))}


def _edited(given: Arguments) -> Fields:
    edits = given.get("edits")
    pieces = [*(edits if isinstance(edits, list) else []), given]
    pairs = [
        (str(_object(piece).get(old, "")), str(_object(piece).get(new, "")))
        for piece in pieces
        for old, new in _OLD_AND_NEW
        if old in _object(piece) or new in _object(piece)
    ]
    compare = sum((1 + a.count("\n")) * (1 + b.count("\n")) for a, b in pairs) <= MAX_COMPARED
    name = _name_of(given)
    changes = [_diff(old, new, name, compare=compare) for old, new in pairs]
    # Copilot's question about an edit has a diff instead of the old and the new text.
    return {**_paths(given), "context": _shown("".join(changes) or str(given.get("diff", "")))}


def _patch(given: Arguments) -> Fields:
    """Return the files that a patch in the format of Codex names, and the patch."""
    patch = "\n".join(_line(given[name]) for name in _PATCHES if name in given)
    named = _PATCHED.findall(patch)
    deletes = any(verb == "Delete" for verb, _ in named)
    if not named:
        return {"type": UNKNOWN_PATCH, **_said(given)}
    paths = (*(path.strip() for _, path in named), *named_paths(given))
    return {
        "type": "delete_file" if deletes else "edit_file",
        "paths": list(dict.fromkeys(paths)),
        "context": _shown(patch),
    }


_PATCHED: Final = re.compile(r"^\*\*\* (Add|Update|Delete|Move to)(?: File)?: (.+)$", re.MULTILINE)


def _name_of(given: Arguments) -> str:
    return next(iter(named_paths(given)), "")


def _change(old: str, new: str, name: str) -> Fields:
    return _shown(_diff(old, new, name))


def _diff(old: str, new: str, name: str, *, compare: bool = True) -> str:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if not compare:
        return _replaced(before, after, name)
    lines = difflib.unified_diff(before, after, f"a{name}" if old else "/dev/null", f"b{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _replaced(before: Sequence[str], after: Sequence[str], name: str) -> str:
    """Return a diff that removes and adds everything, because comparing would take too long."""
    lines = (f"--- a{name}\n", f"+++ b{name}\n", f"@@ -1,{len(before)} +1,{len(after)} @@\n")
    parts = (*lines, *(f"-{line}" for line in before), *(f"+{line}" for line in after))
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in parts)


def _shown(diff: str) -> Fields:
    """Return a diff that fits into a proposal; the hash binds an approval to the whole diff."""
    data = diff.encode("utf-8", "replace")
    if len(data) <= MAX_DIFF_BYTES:
        return {"diff": diff}
    shown = data[:MAX_DIFF_BYTES].decode("utf-8", "ignore")
    return {"diff": shown, "diff_sha256": hashlib.sha256(data).hexdigest(), "diff_bytes": len(data)}


def _whole(given: Arguments) -> Fields:
    """Return the hash of arguments that may be cut, so that an approval covers all of them."""
    written = _written(given).encode("utf-8", "replace")
    if len(written) <= MAX_TEXT_BYTES // 2:
        return {}
    return {"context": {"arguments_sha256": hashlib.sha256(written).hexdigest()}}


def _written(given: Arguments) -> str:
    return json.dumps(given, ensure_ascii=False, sort_keys=True)


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_TEXT_BYTES:
        return data.decode()
    return data[: MAX_TEXT_BYTES - 100].decode("utf-8", "ignore") + f" […] ({len(data)} bytes)"


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _table(*rows: tuple[str, Callable[[Arguments], Fields], str]) -> dict[str, Tool]:
    return {name: Tool(type_, fields) for type_, fields, names in rows for name in names.split()}


# Tools of all hosts: Claude Code, Codex, Gemini, OpenCode, Copilot, and Cursor's `Shell`.
TOOLS: Final = _table(
    (
        "run_shell",
        _command,
        "Bash Shell Monitor shell exec_command local_shell run_shell_command bash powershell",
    ),
    ("read_file", _paths, "Read NotebookRead view_image read_file read_many_files read view"),
    ("search", _listed, "Glob LS ToolSearch glob list_directory list"),
    ("search", _searched, "Grep grep grep_search search_file_content"),
    ("create_file", _created, "Write write_file write create"),
    ("edit_file", _edited, "Edit MultiEdit NotebookEdit replace edit"),
    ("edit_file", _patch, "apply_patch patch"),
    ("web_fetch", _url, "WebFetch web_fetch webfetch"),
    ("web_search", _query, "WebSearch web_search google_web_search websearch"),
    (
        "delegate",
        _delegated,
        "Agent Task Workflow spawn_agent send_input invoke_agent task write_agent",
    ),
    (
        "plan",
        _nothing,
        """TodoWrite TaskCreate TaskUpdate TaskGet TaskList TaskOutput TaskStop EnterPlanMode
        ExitPlanMode Skill AskUserQuestion ReportFindings update_plan request_user_input write_todos
        update_topic activate_skill enter_plan_mode exit_plan_mode todowrite todoread skill question
        report_intent ask_user read_bash stop_bash list_bash read_agent list_agents invalid""",
    ),
    ("schedule", _said, "CronCreate ScheduleWakeup RemoteTrigger"),
)
