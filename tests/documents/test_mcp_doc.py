"""The settings in docs/mcp.md work, and results look as documented."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.checkout import ROOT
from tests.conftest import StartDaemon, environment
from tests.hosts.mcp.proxy_process import NOTES

TEXT = (ROOT / "docs/mcp.md").read_text()
EXAMPLES = dict(re.findall(r"<!-- (\w+) -->\n```json\n(.*?)```", TEXT, re.DOTALL))

_VARIES = re.compile(r"req_\w+|open until [^)]*")


def server(example: str, folder: Path, data_dir: Path) -> StdioServerParameters:
    """Return the server of an example. The programs that it names are on the PATH."""
    programs = {"safetyd": [sys.executable, "-m", "safetyd"]}
    programs["notes-server"] = [sys.executable, str(NOTES)]
    for name, command in programs.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
        path.chmod(0o700)
    (one,) = json.loads(EXAMPLES[example].replace("/srv/notes", str(folder / "notes")))[
        "mcpServers"
    ].values()
    places = f"{folder}:{environment()['PATH']}"
    variables = environment(SAFETYD_DATA_DIR=str(data_dir), PATH=places)
    known = {**one, "command": str(folder / one["command"])}
    if "proxy" in one["args"]:
        known["args"] = ["mcp", "proxy", "--wait-s", "0", *one["args"][2:]]  # nobody will answer
    return StdioServerParameters(**known, env=variables)


def _same(result: Any) -> Any:
    """Return a result without the values that differ each time."""
    return json.loads(_VARIES.sub("…", json.dumps(result)))


@pytest.mark.journey
async def test_the_documented_settings_work(tmp_path: Path, start_daemon: StartDaemon) -> None:
    data_dir = start_daemon().data_dir

    async with Client(server("proxy", tmp_path, data_dir), mode="legacy") as client:
        read = await client.call_tool("read_notes", {})
        pending = await client.call_tool("add_note", {"text": "tea"}, read_timeout_seconds=120)
    async with Client(server("server", tmp_path, data_dir)) as client:
        tools = (await client.list_tools()).tools

    assert not read.is_error
    shown = pending.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert _same(shown) == _same(json.loads(EXAMPLES["pending"]))
    signatures = [f"{tool.name}({', '.join(tool.input_schema['properties'])})" for tool in tools]
    assert [one for one in signatures if f"`{one}`" not in TEXT] == []
