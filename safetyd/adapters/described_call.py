"""The fields of a proposal for a tool that an agent's author wrote.

If the tool's type is one that coding agents know, such as `run_shell`, its command, paths or URL
are found in the arguments by their usual names. An approval is bound to the tool and to all its
arguments.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Final

from safetyd.core.type_aliases import ALIASES
from safetyd.hosts.named_paths import Arguments, argument_paths
from safetyd.hosts.tool_call import TOOLS, UNKNOWN_FILE, Fields, called

MAX_SHOWN_BYTES: Final = 4096

_FINDERS: Final[Mapping[str, Callable[[Arguments], Fields]]] = {
    "run_shell": TOOLS["Bash"].fields,
    "read_file": TOOLS["Read"].fields,
    "list_files": TOOLS["Read"].fields,
    "delete_file": TOOLS["Read"].fields,
    "search": TOOLS["Grep"].fields,
    "create_file": TOOLS["Write"].fields,
    "edit_file": TOOLS["Edit"].fields,
    "web_fetch": TOOLS["WebFetch"].fields,
    "web_search": TOOLS["WebSearch"].fields,
}


def described_call(tool: str, type_: str, given: Arguments, computed: Fields) -> Fields:
    """Return the fields of the proposal, including those that the agent's author computes."""
    fields = {"type": type_, **_found(ALIASES.get(type_, type_), given)}
    fields |= {name: value for name, value in computed.items() if value is not None}
    if not _says_something(fields):
        return {"type": type_, **called(tool, given)}
    context = {
        **_mapping(fields.get("context")),
        **({"tool": tool} if tool != type_ else {}),
        **_others(fields, given),
    }
    fields |= {"context": context or None}
    return {name: value for name, value in fields.items() if value}


def _found(type_: str, given: Arguments) -> Fields:
    finder = _FINDERS.get(type_)
    if finder is None:
        return {}
    values = [*given.values()]
    if type_ == "run_shell" and len(values) == 1 and isinstance(values[0], str):
        return finder({"command": values[0]})
    found = finder(given)
    if found.get("type") != UNKNOWN_FILE:
        return found
    paths = argument_paths(given)  # the author knows what the tool does, whatever its arguments
    return {"paths": paths} if paths else {}


def _says_something(fields: Fields) -> bool:
    target = _mapping(fields.get("target"))
    return bool(fields.get("text") or fields.get("paths") or any(target.values()))


def _others(fields: Fields, given: Arguments) -> Fields:
    """Return the arguments that no field shows, or their hash if they are long."""
    paths, target = fields.get("paths"), _mapping(fields.get("target"))
    shown = [fields.get("text"), fields.get("description"), *target.values(), paths]
    shown += paths if isinstance(paths, list) else []
    rest = {name: value for name, value in given.items() if value not in shown}
    written = json.dumps(rest, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")
    if len(written) > MAX_SHOWN_BYTES:
        return {"arguments_sha256": hashlib.sha256(written).hexdigest()}
    return {"arguments": rest} if rest else {}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
