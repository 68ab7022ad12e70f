"""A real MCP server, made with the official package: it keeps notes in a file."""

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("notes", log_level="ERROR")
notes = Path(sys.argv[1])


def note(event: str) -> None:
    """Tell the test about an event, by a file."""
    Path(f"{notes}.{event}").touch()


@server.tool()
def read_notes() -> str:
    """Return all notes."""
    return notes.read_text() if notes.exists() else ""


@server.tool()
def add_note(text: str) -> str:
    """Add a note."""
    with notes.open("a") as file:
        file.write(f"{text}\n")
    return f"added {text}"


@server.tool()
async def find_slowly(steps: int, ctx: Context[Any]) -> str:
    """Report progress, and end after some steps."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    return "found"


@server.tool()
async def find_nothing() -> str:
    """Search until the client gives up."""
    note("began")
    try:
        await anyio.sleep_forever()
    finally:
        note("cancelled")
    return "nothing"


@server.tool()
def get_error() -> str:
    """Fail."""
    raise ToolError("no such note")


@server.resource("notes://all")
def all_notes() -> str:
    """All notes."""
    return read_notes()


@server.prompt()
def summarise(topic: str) -> str:
    """Ask for a summary."""
    return f"Summarise the notes about {topic}."


if __name__ == "__main__":
    server.run()
