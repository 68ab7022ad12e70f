"""The settings that make Codex confirm each call with the daemon itself.

The hook command is a process, which a program of the agent can kill. Codex then runs the call. So
Codex also calls a tool of an MCP server, which is the daemon: no process can be killed for that.
The tool refuses a call that the daemon has not allowed to the hook command. Codex does not show the
tool to its model.
"""

import json
import re
from typing import Final

from safetyd.hosts import toml_block
from safetyd.hosts.hook_command import TIMEOUT_S
from safetyd.hosts.telemetry_settings import TelemetryTarget

SERVER: Final = "safetyd_hooks"
TOOL: Final = "confirm"
PATH: Final = "/hooks/confirm"

_TABLES: Final = re.compile(rf"\n*\[mcp_servers\.{SERVER}\]\n(?:[^\n]+\n?)+")
_HASHES: Final = "[hooks.state."


def added(text: str, target: TelemetryTarget) -> str:
    """Return settings of Codex with the MCP server and its hook, before the hashes of hooks."""
    header = f"{{ Authorization = {json.dumps(f'Bearer {target.token}')} }}"
    tables = f"""[mcp_servers.{SERVER}]
url = {json.dumps(target.web + PATH)}
http_headers = {header}
[[hooks.PreToolUse]]
matcher = "*"
[[hooks.PreToolUse.hooks]]
type = "mcp_tool"
server = "{SERVER}"
tool = "{TOOL}"
timeout = {TIMEOUT_S}
input = {{ session_id = "${{session_id}}", tool_use_id = "${{tool_use_id}}" }}"""
    block = toml_block.content(text)
    if tables in block:
        return text
    hooks, mark, hashes = _TABLES.sub("\n", block).partition(_HASHES)
    return toml_block.added(text, f"{hooks.strip()}\n\n{tables}\n\n{mark}{hashes}")


def without(text: str) -> str:
    """Return a text without the tables that `added` wrote."""
    return _TABLES.sub("\n", text)


def is_on(text: str) -> bool:
    """Return whether settings of Codex confirm each call."""
    return _TABLES.search(text) is not None
