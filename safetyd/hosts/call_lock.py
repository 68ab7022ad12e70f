"""The lock of Gemini CLI's calls: its policy denies every call that does not contain the key.

The hook adds the key to the arguments of a call that may run. Gemini CLI checks its policy after
the hook, so a call whose hook was killed is denied. Gemini CLI does not show the key to its model.
The policy and the hook's command line contain the key. It protects against killed hooks, not
against a program that reads these files and also writes the arguments of the model's calls.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Final

PREFIX: Final = "safetyd-lock-"
ARGUMENT: Final = "safetyd"
SHELL: Final = "run_shell_command"
FOLDER: Final = "dir_path"
# Calls of MCP servers are not locked, because their servers can refuse unknown arguments.
TOOLS: Final = (
    *("run_shell_command", "write_file", "replace", "read_file", "read_many_files"),
    *("list_directory", "glob", "grep_search", "web_fetch", "google_web_search"),
    *("invoke_agent", "activate_skill"),
)

Arguments = Mapping[str, object]

_KEY: Final = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")


def new_key() -> str:
    return PREFIX + secrets.token_hex(16)


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def masked(text: str) -> str:
    """Return a text that can be printed."""
    return _KEY.sub(f"{PREFIX}***", text)


def unlocking(tool: str, arguments: Arguments, key: str) -> dict[str, object]:
    """Return the arguments of a call with the key.

    Gemini CLI also checks each command in a shell command, for which it keeps only the folder.
    """
    if tool != SHELL:
        return {**arguments, ARGUMENT: key}
    folder = arguments.get(FOLDER)
    path = folder if isinstance(folder, str) and folder else "."
    return {**arguments, FOLDER: f"{path}{_in_folder(key)}"}


def without_key(tool: str, arguments: Arguments, key: str) -> dict[str, object]:
    """Return the arguments as the model wrote them."""
    folder = arguments.get(FOLDER)
    if tool != SHELL:
        return {name: value for name, value in arguments.items() if value != key}
    if not isinstance(folder, str) or not folder.endswith(_in_folder(key)):
        return dict(arguments)
    path = folder.removesuffix(_in_folder(key))
    return {name: value for name, value in arguments.items() if name != FOLDER} | (
        {} if path == "." else {FOLDER: path}
    )


def _in_folder(key: str) -> str:
    """Return the end of a path, which leads to the folder itself."""
    return f"/{key}/.."
