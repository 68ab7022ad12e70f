"""Codex runs only hooks that its user trusts, and skips others silently.

Codex itself computes the hash of a trusted hook; safetyd only copies it. The user who runs
`safetyd protect codex` is the one who must trust the hooks.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from safetyd.console.failure import Failure
from safetyd.hosts.codex_confirmation import SERVER
from safetyd.hosts.hook_command import MARK

LIST_ID: Final = 1


class CodexHook(msgspec.Struct, rename="camel"):
    """A hook as Codex lists it."""

    key: str
    current_hash: str
    trust_status: str
    command: str = ""
    server: str = ""  # of an MCP tool
    enabled: bool = True

    @property
    def is_ours(self) -> bool:
        return MARK in self.command or self.server == SERVER

    @property
    def runs(self) -> bool:
        return self.enabled and self.trust_status in {"trusted", "managed"}


class _Folder(msgspec.Struct):
    hooks: list[CodexHook] = []


class _Result(msgspec.Struct):
    data: list[_Folder] = []


class _Reply(msgspec.Struct):
    id: object = None
    result: _Result | None = None


class _Kind(msgspec.Struct):
    id: object = None


def our_hooks(program: str, cwd: Path, environment: Mapping[str, str]) -> list[CodexHook]:
    """Ask Codex for the hooks that it would run in a folder; return safetyd's."""
    messages = (
        {
            "id": 0,
            "method": "initialize",
            "params": {"clientInfo": {"name": "safetyd", "title": "safetyd", "version": "1"}},
        },
        {"method": "initialized"},
        {"id": LIST_ID, "method": "hooks/list", "params": {"cwds": [str(cwd)]}},
    )
    lines = b"".join(msgspec.json.encode(message) + b"\n" for message in messages)
    with subprocess.Popen(  # noqa: S603 - the user's own program
        [program, "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        bufsize=0,  # so that no unwritten bytes are left when it ends
    ) as server:
        try:
            return _listed(server, lines)
        except (BrokenPipeError, msgspec.DecodeError) as exc:
            raise Failure(f"`codex app-server` returned no list of hooks: {exc}", "codex") from exc
        finally:
            server.kill()


def _listed(server: subprocess.Popen[bytes], lines: bytes) -> list[CodexHook]:
    if server.stdin is None or server.stdout is None:
        raise AssertionError("both are pipes")
    server.stdin.write(lines)
    for line in server.stdout:
        if msgspec.json.decode(line, type=_Kind).id == LIST_ID:
            reply = msgspec.json.decode(line, type=_Reply)
            folders = reply.result.data if reply.result else []
            return [hook for folder in folders for hook in folder.hooks if hook.is_ours]
    raise Failure("`codex app-server` ended without a list of hooks", "codex")
